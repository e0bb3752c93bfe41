package bench

import "slices"

// inner names the commands that scripts call, and those of the harness.
var inner = []string{
	"hmget", "hget", "hset", "hdel", "hexists", "hgetall", "pexpire", "pttl", "time",
	"get", "del", "info", "config|resetstat", "pubsub|numsub",
}

// sent sums up calls by command, as INFO commandstats has them, to what
// clients sent and what was pushed to them. The server counts what a script
// calls like any other command, in commandstats and in
// total_commands_processed alike. So the commands that only scripts call here
// are left out, and everything else counts: also what a client library sends
// by itself, such as PING. PUBLISH counts although a script calls it: each one
// is a message to a client.
func sent(calls map[string]int64) int64 {
	var total int64
	for name, n := range calls {
		if !slices.Contains(inner, name) {
			total += n
		}
	}
	return total
}
