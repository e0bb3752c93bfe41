// Package leasetime decides how long a lease is to be trusted and when it is
// renewed. It is arithmetic: no clock is read and nothing is sent here.
//
// Instants are durations on one clock, see package clock.
package leasetime

import "time"

// MinTTL is the shortest lease: the server counts in whole milliseconds, and
// a shorter one would leave nothing after the margin.
const MinTTL = 10 * time.Millisecond

// Margin is what is taken off a lease for clocks that run at different rates
// (one part in a hundred) and for the millisecond by which server and client
// each may round, as in Redlock's validity.
func Margin(ttl time.Duration) time.Duration {
	return ttl/100 + 2*time.Millisecond
}

// Deadline is the instant after which a lease must not be believed any more.
// sent is the instant before the request was sent that the server answered
// with a grant of ttl: the server cannot have started counting earlier.
func Deadline(sent, ttl time.Duration) time.Duration {
	return sent + ttl - Margin(ttl)
}

// RenewAt is the instant at which a lease granted for ttl by a request sent
// at sent is due for renewal: after a third, so that two more tries fit.
func RenewAt(sent, ttl time.Duration) time.Duration {
	return sent + ttl/3
}

// StaleAfter is how old the server's last word on a lease may be for others of the process
// to stand behind it without asking: an operator may have taken the lock away since.
func StaleAfter(ttl time.Duration) time.Duration {
	return min(max(ttl/30, 10*time.Millisecond), time.Second)
}

// Slack is how much earlier than due a renewal may go, to travel in one batch
// with others.
func Slack(ttl time.Duration) time.Duration {
	return ttl / 20
}

// RetryAt is the instant of the next try after a renewal failed at now.
func RetryAt(now, ttl time.Duration) time.Duration {
	return now + min(max(ttl/20, time.Millisecond), time.Second)
}

// TTLFor is the shortest lease, in whole milliseconds, that is trusted for
// at least d from the sending of its request.
func TTLFor(d time.Duration) time.Duration {
	ttl := (d+2*time.Millisecond)*100/99 + time.Millisecond
	return (ttl + time.Millisecond - 1).Truncate(time.Millisecond)
}

// MayEnter decides whether a lease that was entered so often may be entered
// once more.
func MayEnter(entries int) bool { return entries < 1<<31-1 }

// Push is a pushed grant. It answers no request, so its age is not known: only
// that the server made it so long after it had answered a request of the waiter
// with "queued", by its own clock.
type Push struct {
	Sent    time.Duration // before the last request that was answered "queued" was sent
	Queued  uint64        // the server's time in that answer, in ms
	Granted uint64        // the server's time of the grant, in ms
	Lease   time.Duration // what was granted
}

// Since is the instant from which the lease of the push counts: the server cannot
// have granted it earlier. The time between the answer and the grant was
// measured by the server's clock, so the drift is taken off it. What that clock
// says is believed only as far as the push arrived at now: it may have been set
// forward, or be another server's.
func (p Push) Since(now time.Duration) time.Duration {
	waited := max(now-p.Sent, 0)
	if n := p.Granted - p.Queued; n < uint64(waited/time.Millisecond) {
		waited = time.Duration(n) * time.Millisecond
	}
	return p.Sent + waited - waited/100
}

// Trusted reports whether the push may be believed without asking. A grant from
// before the answer is of a record that has been lost since, or of an earlier copy of
// the request, and its lease may be over. Two thirds of the lease must still be
// ahead: so its confirmation and a second try fit, and who was frozen in the meantime
// asks. He cannot tell how late the push is if the server's clock was set while he
// waited; if it was set forward by more than that, the push seems to come from later
// than now.
func (p Push) Trusted(now time.Duration) bool {
	return p.possible(now) && Deadline(p.Since(now), p.Lease)-now >= p.Lease*2/3
}

// possible reports whether what the server's clock says of the time between answer and
// grant can have passed by ours.
func (p Push) possible(now time.Duration) bool {
	waited := max(now-p.Sent, 0)
	most := waited + waited/50 + 2*time.Millisecond // clocks drift, and the server tells whole ms
	passed := int64(p.Granted - p.Queued)
	return passed >= 0 && passed <= most.Milliseconds()
}

// ConfirmWithin bounds one request that confirms a pushed grant, of whose lease left is
// still ahead: half of it, so that another try fits.
func ConfirmWithin(left time.Duration) time.Duration { return left / 2 }

// Heartbeat is the longest time between two signs of life of a waiter whose
// own lease would be ttl.
func Heartbeat(ttl time.Duration) time.Duration {
	return min(max(2*ttl, time.Second), time.Minute)
}

// WaiterTTL is for how long the server keeps a waiter's place without a sign
// of life: three heartbeats, so that two may be lost.
func WaiterTTL(ttl time.Duration) time.Duration {
	return 3 * Heartbeat(ttl)
}

// PollAfter is the wait before a waiter looks again by itself, though nothing
// was pushed: when the holders may be over, and never later than a heartbeat.
// The first in line goes first, those behind at intervals, for usually the
// first one's look moves the line. jitter is in [0, 1).
func PollAfter(left time.Duration, place int, ttl time.Duration, jitter float64) time.Duration {
	behind := time.Duration(min(max(place-1, 0), 50)) * 20 * time.Millisecond
	spread := time.Duration(jitter * float64(10*time.Millisecond))
	return min(left+behind+spread+time.Millisecond, Heartbeat(ttl))
}

// PollWithoutPush is PollAfter for a waiter whom no push can reach: it looks again after a
// thirtieth of its own lease, half to one and a half of that by chance, and at
// the latest when the holders may be over. So one waiting process costs a
// server about a request a second, or thirty in the time of a short lease.
func PollWithoutPush(left, ttl time.Duration, jitter float64) time.Duration {
	every := min(max(ttl/30, 10*time.Millisecond), time.Second)
	next := every/2 + time.Duration(jitter*float64(every))
	if left > 0 {
		next = min(next, left+time.Millisecond)
	}
	return next
}
