package bench

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// percentile answers the p-th percentile of samples, 0 < p <= 100, as the
// smallest sample that p percent of them do not exceed; 0 of none.
func percentile[T cmp.Ordered](samples []T, p float64) T {
	var zero T
	if len(samples) == 0 {
		return zero
	}
	sorted := slices.Sorted(slices.Values(samples))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// jain is Jain's fairness index of what each of several parties got: 1 when
// all got the same, 1/n when one got everything.
func jain(shares []int) float64 {
	var sum, squares float64
	for _, x := range shares {
		sum += float64(x)
		squares += float64(x) * float64(x)
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(shares)) * squares)
}

// turn is one holder's turn, in nanoseconds of a clock that all processes of
// the machine share.
type turn struct {
	Seq   uint64 // rises from holder to holder
	Proc  int    // the process of the holder
	Asked int64  // when it began to ask
	Got   int64  // when it had the lock
	Left  int64  // when it began to give it back
}

// settled is how long a waiter must have waited before a hand-over to it is
// counted: one that just arrives is still joining the line.
const settled = 2 * time.Millisecond

// handOvers answers how long each hand-over took, from the moment the holder
// began to give the lock back to the moment the next one had it. It counts
// those between different processes, after a hold of at least hold, to a
// waiter that stood in line already.
func handOvers(turns []turn, hold time.Duration) []time.Duration {
	sorted := slices.SortedFunc(slices.Values(turns), func(a, b turn) int { return cmp.Compare(a.Seq, b.Seq) })
	var took []time.Duration
	for i := 1; i < len(sorted); i++ {
		from, to := sorted[i-1], sorted[i]
		if from.Proc == to.Proc || from.Left-from.Got < int64(hold) || from.Left-to.Asked < int64(settled) {
			continue
		}
		took = append(took, time.Duration(to.Got-from.Left))
	}
	return took
}

// inner names the commands that scripts call, and those of the harness.
var inner = []string{
	"hmget", "hget", "hset", "hdel", "hexists", "hgetall", "pexpire", "pttl", "time",
	"get", "del", "info", "config|resetstat",
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
