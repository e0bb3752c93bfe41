// Package majority decides what the answers of several independent servers mean together: who
// holds, which token, until when, and which server to ask next. It is arithmetic: it reads no
// clock and sends nothing.
//
// docs/quorum.md has the proofs.
package majority

import (
	"hash/fnv"
	"slices"
	"time"
)

// Of is how many of n servers are a majority: any two majorities share one.
func Of(n int) int { return n/2 + 1 }

// Order lists the servers in the order in which they may coordinate the lock at key. It is the
// same in every process that has the servers in the same order, and it spreads the locks over
// the servers.
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

// Reply is what one server answered to an acquisition.
type Reply uint8

// The replies.
const (
	Open    Reply = iota // none yet
	Granted              // the attempt holds there
	Queued               // the attempt is in the server's wait queue
	Busy                 // another attempt holds there
	Failed               // refused, or silent for too long
)

// Decision is what the replies so far mean.
type Decision uint8

// The decisions.
const (
	Undecided Decision = iota
	Won                // a majority granted, the coordinator among them
	InQueue            // the coordinator has queued the attempt
	Taken              // the coordinator says that another attempt holds
	JoinQueue          // the coordinator has to be asked for a position in its queue
	Split              // the coordinator granted, and a majority no longer can
	TooFew             // fewer servers than a majority count
)

// Decide decides by the replies so far. order lists the servers as they may become
// coordinator: it is the first that did not fail. So the queue of one server orders the
// waiters, and no two of them end up with half of the servers each. A server that does not
// count may hold, and may be the coordinator. waits says that the caller wants to wait.
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
		default: // no grant and no open answer
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
	default: // the coordinator has yet to answer
	}
	return Undecided, coordinator
}

// Token is the token of a grant for which the servers drew these tokens: greater than each. If
// a majority has the greatest one already, it was agreed before, and stays.
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

// Clock is how far a right server's clock is ahead of ours, at least: known are the clocks of
// those of the n servers that are known. It is right while no more than a minority of all
// servers is wrong, whichever they are. It needs the clocks of enough servers; ok says whether
// there are enough.
func Clock(known []time.Duration, n int) (ahead time.Duration, ok bool) {
	most := n - Of(n) // how many clocks may be wrong
	if len(known) <= most {
		return 0, false
	}
	return reachedBy(known, most+1), true
}

// WithoutAhead takes servers out of the count that are ahead of what any right clock has
// reached, as long as the others can be a majority that grants.
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

// Tally counts the votes of a renewal. A lease goes on if a majority held it without a break.
// It is lost once that cannot be.
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
		default: // seen by what is left
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

// Count counts the yes and no of n servers; the others are silent. has says whether yes has a
// majority, and can whether it may still get one.
func Count(yes, no, n int) (has, can bool) {
	m := Of(n)
	return yes >= m, n-no >= m
}

// Rank is the greatest value that a majority of n servers reaches, 0 if there is none. values
// are those of the servers that have one.
func Rank[T int | uint64 | time.Duration](values []T, n int) T {
	m := Of(n)
	if len(values) < m {
		return 0
	}
	return reachedBy(values, m)
}

// reachedBy is the greatest value that at least count of the values reach. There are at least
// that many.
func reachedBy[T int | uint64 | time.Duration](values []T, count int) T {
	return slices.Sorted(slices.Values(values))[len(values)-count]
}

// RequestTimeout bounds one request to one server: by the configured timeout, a tenth of the
// lease, and a third of the time that the caller has left. So a silent server leaves time for
// the second phase and for the cancel.
//
// If a majority of the servers takes longer than a third of that to answer, the limit is three
// times as long as they take. It is then at most a quarter of the lease, and 9/20 of the time
// that is left: two phases fit in, and half of the lease remains. With a shorter limit each
// request would fail although every server answers.
func RequestTimeout(configured, ttl, left, answers time.Duration) time.Duration {
	timeout := configured
	if ttl > 0 {
		timeout = min(timeout, max(ttl/10, min(3*answers, ttl/4)))
	}
	if left > 0 {
		timeout = min(timeout, max(left/3, min(3*answers, left*9/20)))
	}
	return max(timeout, time.Millisecond)
}

// Pace is how long a server takes to answer, by what it took before and what the last request
// took, answered or not. It rises at once and falls slowly: a busy machine is late now and then.
func Pace(before, took time.Duration) time.Duration { return max(took, before-before/8) }

// PaceOfMost is the time in which a majority of all servers answers, by the pace of each.
func PaceOfMost(paces []time.Duration) time.Duration {
	return reachedBy(paces, len(paces)-Of(len(paces))+1)
}

// Grace is how long an acquisition waits for the other servers when a majority has granted
// after took. A server that grants later does not vouch for the lease until its second
// renewal. Grace never waits for a timeout.
func Grace(took, timeout time.Duration) time.Duration {
	return min(2*took+2*time.Millisecond, timeout)
}

// CollectTime is how long an attempt that the coordinator has granted tries to get the other
// servers before it cancels everything; failures is how often it has failed. It is random, so
// that two attempts that keep each other from a majority do not do so again. At first it is
// the time of both phases with one request of each taking its whole timeout, because a single
// late answer is enough for two such requests. It doubles with each failure, up to a part of
// the lease. jitter is in [0, 1).
func CollectTime(timeout, ttl time.Duration, failures int, jitter float64) time.Duration {
	least := min(3*timeout<<min(failures, 10), ttl/3)
	return least + time.Duration(jitter*float64(least))
}
