package goredis

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// watchQuiet looks as a session does from now on, until it asks, doubts or gives up. The server has spoken last at
// heard.
func watchQuiet(q *quiet, now, heard time.Duration, awaited func(time.Duration) bool) (do sign, at time.Duration) {
	for {
		do, again := q.next(now, heard, awaited(now))
		if do != goOn {
			return do, now
		}
		now += again
	}
}

func always(time.Duration) bool { return true }

// A subscription is known to be dead within 3 s, however old it is when a wait begins, and wherever the wait begins
// between two looks. What is left of 5 s is for the question elsewhere and the new subscription.
func TestADeadSubscriptionIsDoubtedInTime(t *testing.T) {
	for _, rested := range []time.Duration{0, time.Second, 1999 * time.Millisecond, time.Hour} {
		for wait := rested; wait < rested+2*time.Second; wait += 100 * time.Millisecond {
			q := &quiet{longest: maxSilence}
			awaited := func(now time.Duration) bool { return now >= wait }
			do, asked := watchQuiet(q, rested, 0, awaited)
			assert.True(t, do == ask && asked-wait <= maxSilence, "%v: %v after %v", rested, do, asked-wait)
			assert.True(t, asked >= maxSilence, "it is asked %v after it has spoken", asked)
			do, doubted := watchQuiet(q, asked, 0, always)
			assert.True(t, do == doubt && doubted-wait <= 3*time.Second, "%v: %v after %v", rested, do, doubted-wait)
		}
	}
}

// What the server says ends the doubt, and it is asked at most once in two seconds.
func TestASubscriptionThatSpeaksIsLeftAlone(t *testing.T) {
	q := &quiet{longest: maxSilence}
	heard := time.Duration(0)
	for heard < time.Minute {
		do, asked := watchQuiet(q, heard+time.Second, heard, always)
		assert.True(t, do == ask && asked-heard == maxSilence, "%v after %v", do, asked-heard)
		heard = asked + time.Millisecond
	}
	do, at := watchQuiet(q, time.Hour, heard, func(now time.Duration) bool { return now > 2*time.Hour })
	assert.True(t, do == ask && at > 2*time.Hour, "%v at %v: nobody waited", do, at)
}

// At a server that answers nobody, a subscription is kept for long: a new one would add to its load. A process that
// was stopped for longer than that has not asked yet.
func TestASubscriptionAtASilentServerIsKept(t *testing.T) {
	q := &quiet{longest: maxSilence}
	do, at := watchQuiet(q, 0, 0, always)
	assert.True(t, do == ask, "%v", do)
	at += time.Hour
	for range serverDoubts {
		do, at = watchQuiet(q, at, 0, always)
		assert.True(t, do == doubt, "%v", do)
		at += maxSilence/2 + maxSilence/4 // the question, and the pause
	}
	do, _ = q.next(at, 0, true)
	assert.True(t, do == giveUp, "%v", do)
}
