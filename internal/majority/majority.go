// Package majority decides what the answers of several independent servers mean
// together: who holds, which token, until when, and whom to ask next. It is
// arithmetic: no clock is read and nothing is sent here.
//
// docs/quorum.md has the arguments.
package majority

import (
	"hash/fnv"
	"slices"
	"time"
)

// Of is how many of n servers are a majority: any two majorities share one.
func Of(n int) int { return n/2 + 1 }

// Order lists the servers in the order in which they are asked to keep the line
// of the lock at key. It is the same in every process that has the servers in
// the same order, and spreads the locks over them.
func Order(key string, n int) []int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // never fails
	first := int(h.Sum32() % uint32(n))
	order := make([]int, n)
	for i := range order {
		order[i] = (first + i) % n
	}
	return order
}

// Reply is what one server said to an acquisition.
type Reply uint8

// The replies.
const (
	Open    Reply = iota // none yet
	Granted              // it holds here
	Queued               // it stands in the line here
	Busy                 // somebody else holds here
	Failed               // refused, or silent for too long
)

// Decision is what the replies so far mean.
type Decision uint8

// The decisions.
const (
	Undecided Decision = iota
	Won                // a majority granted, the lead among them
	InQueue            // the lead has given a place in its line
	Taken              // the lead says that somebody else holds
	JoinQueue          // the lead has to be asked for a place in its line
	Split              // the lead granted, and a majority cannot any more
	TooFew             // too few servers are left that count
)

// Decide decides by the replies so far. order is how the servers are asked for
// the lead: the first that did not fail has it, so that one server's line
// orders those who wait and no two of them end with half of the servers each.
// A server that does not count may hold, and may have the lead. joins says
// that the caller wants to wait.
func Decide(replies []Reply, counts []bool, order []int, waits bool) (d Decision, coordinator int) {
	m := Of(len(replies))
	granted, open, left := 0, 0, 0
	for i, r := range replies {
		if !counts[i] || r == Failed {
			continue
		}
		left++
		switch r {
		case Granted:
			granted++
		case Open:
			open++
		default: // no help
		}
	}
	at := slices.IndexFunc(order, func(i int) bool { return replies[i] != Failed })
	if left < m || at < 0 {
		return TooFew, order[0]
	}
	coordinator = order[at]
	switch replies[coordinator] {
	case Queued:
		return InQueue, coordinator
	case Busy:
		if waits {
			return JoinQueue, coordinator
		}
		return Taken, coordinator
	case Granted:
		switch {
		case granted >= m:
			return Won, coordinator
		case granted+open < m:
			return Split, coordinator
		}
	default: // it has yet to answer
	}
	return Undecided, coordinator
}

// Token is the token of a grant for which servers drew these: greater than
// each. Where a majority has the greatest already it has been agreed before,
// and stays.
func Token(drawn []uint64, n int) uint64 {
	if len(drawn) == 0 {
		return 0
	}
	greatest, have := slices.Max(drawn), 0
	for _, t := range drawn {
		if t == greatest {
			have++
		}
	}
	if have >= Of(n) {
		return greatest
	}
	return greatest + 1
}

// Clock is what a right server's clock is ahead of ours, or less: by the clocks of
// the servers that are known, of n. It holds while no more than a minority of all
// are wrong, whichever of them are known. It takes the clocks of a majority; ok
// says that there are so many.
func Clock(known []time.Duration, n int) (ahead time.Duration, ok bool) {
	most := n - Of(n) // so many may be wrong
	if len(known) <= most {
		return 0, false
	}
	return slices.Sorted(slices.Values(known))[len(known)-most-1], true
}

// WithoutAhead takes servers out of the count that are ahead of what any right clock has
// come to, as long as the others can be a majority that grants.
func WithoutAhead(replies []Reply, counts, ahead []bool) []bool {
	without, can := slices.Clone(counts), 0
	for i, r := range replies {
		without[i] = counts[i] && !ahead[i]
		if without[i] && (r == Granted || r == Open) {
			can++
		}
	}
	if can < Of(len(replies)) {
		return counts
	}
	return without
}

// Vote is what one server says to the renewal of a lease.
type Vote uint8

// The votes.
const (
	Silent    Vote = iota
	Held           // without a break since the renewal before
	TooRecent      // held, but not for long enough to vouch for the time before
	NotHeld        //
	Evicted        // not held: an operator ended it
)

// Outcome is what the votes mean together.
type Outcome uint8

// The outcomes.
const (
	Unknown Outcome = iota
	Renewed
	Lost
	Ended // by an operator
)

// Tally counts the votes of a renewal. A lease is kept if a majority held it
// without a break, and lost once that cannot be.
func Tally(votes []Vote) Outcome {
	held, silent, evicted := 0, 0, false
	for _, v := range votes {
		switch v {
		case Held:
			held++
		case Silent:
			silent++
		case Evicted:
			evicted = true
		default: // counted by what is left
		}
	}
	switch m := Of(len(votes)); {
	case held >= m:
		return Renewed
	case held+silent >= m:
		return Unknown
	case evicted:
		return Ended
	}
	return Lost
}

// Count counts yes and no of n servers, of which the others are silent. It
// answers whether yes has a majority, and whether it still can.
func Count(yes, no, n int) (has, can bool) {
	m := Of(n)
	return yes >= m, n-no >= m
}

// Rank is the greatest value that a majority of n servers reaches, 0 if there
// is none; values are those of the servers that have one.
func Rank[T int | uint64 | time.Duration](values []T, n int) T {
	m := Of(n)
	if len(values) < m {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)-m]
}

// RequestTimeout bounds one request to one server: what was configured, but at most a
// tenth of the lease, and a third of the time that the caller has, so that a
// silent server leaves time for the second phase and for giving back.
func RequestTimeout(configured, ttl, left time.Duration) time.Duration {
	timeout := configured
	if ttl > 0 {
		timeout = min(timeout, ttl/10)
	}
	if left > 0 {
		timeout = min(timeout, left/3)
	}
	return max(timeout, time.Millisecond)
}

// Grace is for how long an acquisition that a majority has granted after took
// waits for the other servers: one that grants later does not vouch for the
// lease until its second renewal. It never waits for a limit.
func Grace(took, timeout time.Duration) time.Duration {
	return min(2*took+2*time.Millisecond, timeout)
}

// CollectTime is for how long who has the lead tries for the rest before it gives
// everything back, after so many tries in vain: by chance, so that two who keep
// each other from a majority do not do so again. At first it is what the two
// phases need, with a request of each that takes its whole limit, for it takes no
// more than one late answer to have two such; then twice as long each time, up to
// a part of the lease there. jitter is in [0, 1).
func CollectTime(timeout, ttl time.Duration, failures int, jitter float64) time.Duration {
	least := min(3*timeout<<min(failures, 10), ttl/3)
	return least + time.Duration(jitter*float64(least))
}
