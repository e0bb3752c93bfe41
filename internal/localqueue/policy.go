package localqueue

import "time"

// Decision is what a reader does when it arrives.
type Decision uint8

// What a reader does.
const (
	Ask   Decision = iota // ask the server, at first without waiting there
	Share                 // share the hold that its process has, without the server
	Check                 // ask the server whether somebody waits, and decide then
	Wait                  // wait at the server, behind the waiters there
)

// shareFor is how long readers rely on the server's answer that nobody waits. So a reader may
// arrive this much later than a writer of another process and still get the lock first.
const shareFor = 10 * time.Millisecond

// Join decides whether one more reader may share a live hold of its process. It may not while
// anybody waits; otherwise readers that keep coming would keep a writer out for ever. waiters
// is the number of waiters in the server's last answer, and age is the age of that answer.
// writerHere says whether a goroutine of this process wants the lock as a writer.
func Join(age time.Duration, waiters int, writerHere bool) Decision {
	switch {
	case writerHere:
		return Wait
	case age >= shareFor:
		return Check
	case waiters > 0:
		return Wait
	}
	return Share
}

// bounds limit how often and for how long a hold is handed over inside the process before it
// goes back to the server, so that no process starves another.
type bounds struct {
	count int
	time  time.Duration
}

// The bounds. A fencing token has room for 1,023 hand-overs. A client learns of a waiter that
// came after the grant only by its next renewal. So the time is limited also if the client
// knows of no waiter.
var (
	nobodyWaits  = bounds{count: 1023, time: 10 * time.Millisecond}
	othersWait   = bounds{count: 128, time: 2 * time.Millisecond}
	maxHandOvers = 1023
)

// MayHandOver decides whether a hold may be handed over once more inside its process. age is
// the time since its grant, handOvers how often it was handed over, and waiters the number of
// waiters in other processes. limit is the user's own limit.
func MayHandOver(handOvers int, age time.Duration, waiters, limit int) bool {
	b := nobodyWaits
	if waiters > 0 {
		b = othersWait
	}
	return handOvers < min(b.count, limit, maxHandOvers) && age < b.time
}
