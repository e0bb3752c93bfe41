package crew

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Percentile returns the p-th percentile of samples, 0 < p <= 100: the smallest sample
// that p percent of them do not exceed. Without samples it returns 0.
func Percentile[T cmp.Ordered](samples []T, p float64) T {
	var zero T
	if len(samples) == 0 {
		return zero
	}
	sorted := slices.Sorted(slices.Values(samples))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Jain is Jain's fairness index of the shares of several members: 1 if all shares are
// equal, 1/n if one member got everything.
func Jain(shares []int) float64 {
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

// Turn is one holder's turn, in nanoseconds of a clock that all processes of
// the machine share.
type Turn struct {
	Seq   uint64 // rises from holder to holder; 0 if the lock has no numbers
	Proc  int    // the process of the holder
	Asked int64  // when it began to ask
	Got   int64  // when it had the lock
	Left  int64  // when it began to give it back
}

// settled is how long a waiter must have waited before a hand-over to it counts: a newer
// one may still be joining the queue.
const settled = 2 * time.Millisecond

// HandOvers returns how long each hand-over took, from the moment the holder began to
// release to the moment the next one had the lock. It counts hand-overs between different
// processes, after a hold of at least hold, to a waiter that was already in the queue.
func HandOvers(turns []Turn, hold time.Duration) []time.Duration {
	sorted := slices.SortedFunc(slices.Values(turns), func(a, b Turn) int {
		// For a lock without numbers, the order of the grants counts. It is the same as
		// long as there is one holder at a time.
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Got, b.Got))
	})
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
