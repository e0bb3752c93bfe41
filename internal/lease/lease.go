// Package lease decides how long a lease is to be trusted and when it is
// renewed. It is arithmetic: no clock is read and nothing is sent here.
//
// Instants are durations on one clock, see package clock.
package lease

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

// Slack is how much earlier than due a renewal may go, to travel in one batch
// with others.
func Slack(ttl time.Duration) time.Duration {
	return ttl / 20
}

// RetryAt is the instant of the next try after a renewal failed at now.
func RetryAt(now, ttl time.Duration) time.Duration {
	return now + min(max(ttl/20, time.Millisecond), time.Second)
}

// Covering is the shortest lease, in whole milliseconds, that is trusted for
// at least d from the sending of its request.
func Covering(d time.Duration) time.Duration {
	ttl := (d+2*time.Millisecond)*100/99 + time.Millisecond
	return (ttl + time.Millisecond - 1).Truncate(time.Millisecond)
}

// MayEnter decides whether a lease that was entered so often may be entered
// once more.
func MayEnter(entries int) bool { return entries < 1<<31-1 }

// Fresh reports whether a pushed grant may be believed without asking: its
// lease is counted from sent, the last request that was answered "queued",
// and a third of it must still be ahead, so that a renewal and its retry fit.
func Fresh(now, sent, ttl time.Duration) bool {
	return Deadline(sent, ttl)-now >= ttl/3
}

// Follows reports whether a pushed grant with this token was made no earlier
// than the server answered "queued", at an instant in ms: tokens are the server's
// time in µs, or more. One from before is of a record that has been lost since,
// or of an earlier copy of the request, and its lease may be over.
func Follows(token, queued uint64) bool { return token/1000 >= queued }

// Heartbeat is the longest time between two signs of life of a waiter whose
// own lease would be ttl.
func Heartbeat(ttl time.Duration) time.Duration {
	return min(max(2*ttl, time.Second), time.Minute)
}

// Patience is for how long the server keeps a waiter's place without a sign
// of life: three heartbeats, so that two may be lost.
func Patience(ttl time.Duration) time.Duration {
	return 3 * Heartbeat(ttl)
}

// PollIn is the wait before a waiter looks again by itself, though nothing
// was pushed: when the holders may be over, and never later than a heartbeat.
// The first in line goes first, those behind at intervals, for usually the
// first one's look moves the line. jitter is in [0, 1).
func PollIn(left time.Duration, place int, ttl time.Duration, jitter float64) time.Duration {
	behind := time.Duration(min(max(place-1, 0), 50)) * 20 * time.Millisecond
	spread := time.Duration(jitter * float64(10*time.Millisecond))
	return min(left+behind+spread+time.Millisecond, Heartbeat(ttl))
}

// LookIn is PollIn for a waiter whom no push can reach: it looks again after a
// thirtieth of its own lease, half to one and a half of that by chance, and at
// the latest when the holders may be over. So one waiting process costs a
// server about a request a second, or thirty in the time of a short lease.
func LookIn(left, ttl time.Duration, jitter float64) time.Duration {
	every := min(max(ttl/30, 10*time.Millisecond), time.Second)
	next := every/2 + time.Duration(jitter*float64(every))
	if left > 0 {
		next = min(next, left+time.Millisecond)
	}
	return next
}
