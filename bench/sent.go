package bench

import "slices"

// inner are the commands that scripts call, and those of the harness.
var inner = []string{
	"hmget", "hget", "hset", "hdel", "hexists", "hgetall", "hscan", "pexpire", "pttl", "time",
	"get", "del", "info", "config|resetstat", "pubsub|numsub",
}

// sent sums up the calls in INFO commandstats to the number of requests and pushes. The
// server counts a command that a script calls like any other, also in
// total_commands_processed. So this leaves out the commands that only scripts call.
// Everything else counts, also what a client library sends by itself, such as PING.
// PUBLISH counts although a script calls it, because each one is a message to a client.
func sent(calls map[string]int64) int64 {
	var total int64
	for name, n := range calls {
		if !slices.Contains(inner, name) {
			total += n
		}
	}
	return total
}
