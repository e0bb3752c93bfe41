// Package leasetime decides how long a client trusts a lease and when it renews it. The
// package is arithmetic: it reads no clock and sends nothing.
//
// Instants are durations on one clock, see package clock.
package leasetime

import "time"

// MinTTL is the shortest lease. The server counts in whole milliseconds, so the margin
// would use up most of a shorter one.
const MinTTL = 10 * time.Millisecond

// Margin is how long before the expiry a client stops trusting a lease: one part in a
// hundred, because clocks run at different rates, and two milliseconds, because server and
// client may round by one each. Redlock's validity time has the same form.
func Margin(ttl time.Duration) time.Duration {
	return ttl/100 + 2*time.Millisecond
}

// Deadline is the trust deadline of a lease. sent is an instant before the client sent the
// request that the server answered with a grant of ttl. The server cannot have started to
// count earlier.
func Deadline(sent, ttl time.Duration) time.Duration {
	return sent + ttl - Margin(ttl)
}

// RenewAt is the instant at which a lease is due for renewal: a third of ttl after sent, so
// that two more tries fit into the lease.
func RenewAt(sent, ttl time.Duration) time.Duration {
	return sent + ttl/3
}

// StaleAfter is how old the server's last answer on a lease may be if other goroutines of
// the process wait for it without asking the server. An operator may have evicted the lease
// since.
func StaleAfter(ttl time.Duration) time.Duration {
	return min(max(ttl/30, 10*time.Millisecond), time.Second)
}

// Slack is how much earlier than due a renewal may be sent, if that puts it into one batch
// with others.
func Slack(ttl time.Duration) time.Duration {
	return ttl / 20
}

// RequestLimit is the time limit of one request about a lease of ttl: limit, but no more than a third
// of the lease, so that two more requests fit into it.
func RequestLimit(limit, ttl time.Duration) time.Duration {
	return min(limit, max(ttl/3, MinTTL))
}

// RenewalLimit is the time limit of a renewal that was due so long before it is sent. It is a third of
// the lease, but no less than the tries before it took together: a client that is slow to read answers
// gets one in the end. After RequestLimit the renewal counts as late, and the next one may go out.
func RenewalLimit(ttl, overdue time.Duration) time.Duration { return max(ttl/3, overdue) }

// AcquireLimit is the time limit of an acquisition: RequestLimit for the first one. unanswered is how
// many of this call got no answer before: each of them doubles it, as long as a quarter of the lease
// remains, or up to limit. With one limit for all, a client of a server that answers a little later than
// that would ask anew behind its own grants, for as long as the server is that slow.
func AcquireLimit(limit, ttl time.Duration, unanswered int) time.Duration {
	longest := max(limit, ttl-ttl/4)
	for limit = RequestLimit(limit, ttl); unanswered > 0 && limit < longest; unanswered-- {
		limit = min(2*limit, longest)
	}
	return limit
}

// LongestPause is the longest time between a renewal that failed and the next try.
const LongestPause = time.Second

// RetryAt is the instant of the next try after a renewal that failed at now.
func RetryAt(now, ttl time.Duration) time.Duration {
	return now + min(max(ttl/20, time.Millisecond), LongestPause)
}

// TTLFor is the shortest TTL, in whole milliseconds, with which a client trusts a lease for
// at least d after it sent the request.
func TTLFor(d time.Duration) time.Duration {
	ttl := (d+2*time.Millisecond)*100/99 + time.Millisecond
	return (ttl + time.Millisecond - 1).Truncate(time.Millisecond)
}

// MayReenter decides whether a lease with this number of entries may get one more.
func MayReenter(entries int) bool { return entries < 1<<31-1 }

// Push is a pushed grant. It answers no request, so the client does not know its age. It
// knows only how much time passed, by the server's clock, between the answer "queued" and
// the grant.
type Push struct {
	Sent    time.Duration // an instant before the last request with the answer "queued" was sent
	Queued  uint64        // the server's time in that answer, in ms
	Granted uint64        // the server's time of the grant, in ms
	Lease   time.Duration // the lease that was granted
	Delay   time.Duration // the part of it, at its end, that the client does not trust
}

// Since is the instant from which the lease of the push counts: the server cannot have
// granted it earlier. The time between the answer and the grant is measured by the server's
// clock, so Since subtracts the drift. It uses no more than the time that has passed until
// now: the server's clock may have been set forward, or be the clock of another server.
func (p Push) Since(now time.Duration) time.Duration {
	waited := max(now-p.Sent, 0)
	// Both instants are rounded down, so almost a millisecond less may have passed.
	if n := p.Granted - p.Queued; n <= uint64(waited/time.Millisecond)+1 {
		waited = time.Duration(max(n, 1)-1) * time.Millisecond
	}
	return p.Sent + waited - waited/100
}

// Trusted reports whether the client may trust the push without asking the server. A grant
// from before the answer belongs to a record that has been lost since, or to an earlier copy
// of the request; its lease may have expired. At least two thirds of the lease must be left.
// So a confirmation and a second try fit, and a process that was frozen in between asks.
// If the server's clock was set forward while the client waited, the client cannot tell how
// late the push is. If it was set forward by more than that, the push seems to come from
// later than now.
func (p Push) Trusted(now time.Duration) bool {
	return p.possible(now) && Deadline(p.Since(now), p.Lease-p.Delay)-now >= p.Lease*2/3
}

// possible reports whether the time between answer and grant, by the server's clock, can
// have passed by the client's clock.
func (p Push) possible(now time.Duration) bool {
	waited := max(now-p.Sent, 0)
	most := waited + waited/50 + 2*time.Millisecond // clocks drift, and the server counts whole ms
	passed := int64(p.Granted - p.Queued)
	return passed >= 0 && passed <= most.Milliseconds()
}

// ConfirmWithin is after how long a request that confirms a pushed grant counts as late: half of what is
// left of its lease, so that another try fits. Its answer counts until the lease is over.
func ConfirmWithin(left time.Duration) time.Duration { return left / 2 }

// Heartbeat is the longest time between two polls of a waiter that asks for a lease of ttl.
func Heartbeat(ttl time.Duration) time.Duration {
	return min(max(2*ttl, time.Second), time.Minute)
}

// LookAfter is how long a call waits before it looks for a deadlock, and between two looks.
func LookAfter(ttl time.Duration) time.Duration {
	return min(max(ttl/3, time.Second), time.Minute)
}

// LookLater is the time between two looks that read so many waiters, and before the first one of
// a waiter at that position. If all waiters of a queue look, the server reads a number of waiters
// that grows with the square. So the time grows likewise, up to ten minutes: looks take the server
// about a hundredth of its time.
func LookLater(ttl time.Duration, waiters int) time.Duration {
	crowd := min(max(waiters, 0), 2000)
	return max(LookAfter(ttl), min(time.Duration(crowd*crowd)*300*time.Microsecond, 10*time.Minute))
}

// LookAgainAfter is the time between two looks while there seems to be a deadlock.
func LookAgainAfter(ttl time.Duration) time.Duration { return LookAfter(ttl) / 4 }

// ShowWaitAfter is how long a call waits before others can see what it holds. It is so much
// before the call looks that two calls that began together see each other.
func ShowWaitAfter(ttl time.Duration) time.Duration { return LookAfter(ttl) / 4 * 3 }

// KeepWhileWaiting is how long a call that wants several locks keeps those that it has while it waits for another. That
// is long enough for a release that is under way. asked is how long the server took to say that the other one is held.
func KeepWhileWaiting(asked time.Duration) time.Duration {
	return min(max(2*asked, 10*time.Millisecond), 100*time.Millisecond)
}

// KeepWhileAsking is how long it keeps them while it asks for others. asked is how long its last answer took: a call
// cannot have locks of two servers unless it keeps the first for a round trip.
func KeepWhileAsking(asked time.Duration) time.Duration {
	return min(max(2*asked, 100*time.Millisecond), time.Second)
}

// WaiterTTL is how long the server keeps the position of a waiter that does not poll: three
// heartbeats, so that two may be lost.
func WaiterTTL(ttl time.Duration) time.Duration {
	return 3 * Heartbeat(ttl)
}

// PollAfter is how long a waiter waits for a push before it polls: until the present holds
// may have expired, and never longer than a heartbeat. The first waiter polls first and the
// others follow at intervals, because usually the first poll serves the queue. jitter is in
// [0, 1).
func PollAfter(left time.Duration, place int, ttl time.Duration, jitter float64) time.Duration {
	behind := time.Duration(min(max(place-1, 0), 50)) * 20 * time.Millisecond
	spread := time.Duration(jitter * float64(10*time.Millisecond))
	return min(left+behind+spread+time.Millisecond, Heartbeat(ttl))
}

// PollWithoutPush is PollAfter for a waiter that no push can reach. It polls after a
// thirtieth of its own TTL, times a random factor between a half and one and a half. If the
// present holds may expire sooner, it polls then. So one such process costs a server about
// one request a second, or thirty during a short lease.
func PollWithoutPush(left, ttl time.Duration, jitter float64) time.Duration {
	every := min(max(ttl/30, 10*time.Millisecond), time.Second)
	next := every/2 + time.Duration(jitter*float64(every))
	if left > 0 {
		next = min(next, left+time.Millisecond)
	}
	return next
}
