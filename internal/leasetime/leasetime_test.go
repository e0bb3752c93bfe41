package leasetime

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestDeadlineEndsBeforeTheServersLease(t *testing.T) {
	for range 10_000 {
		ttl := MinTTL + rand.N(24*time.Hour)
		sent := rand.N(365 * 24 * time.Hour)
		d := Deadline(sent, ttl)
		assert.MustTrue(t, d < sent+ttl, "ttl %v: trusted to %v, the lease ends at %v", ttl, d, sent+ttl)
		assert.MustTrue(t, d > sent, "ttl %v: nothing of the lease is left after the margin", ttl)
	}
}

func TestTwoRetriesFitBehindTheFirstRenewal(t *testing.T) {
	for _, ttl := range []time.Duration{100 * time.Millisecond, time.Second, 30 * time.Second, time.Hour} {
		at := RenewAt(0, ttl)
		at = RetryAt(at, ttl)
		at = RetryAt(at, ttl)
		if at >= Deadline(0, ttl) {
			t.Errorf("ttl %v: the second retry at %v misses the deadline %v", ttl, at, Deadline(0, ttl))
		}
	}
}

// pushedAt makes one push. The client sends the request at 0, and the server answers
// "queued" after there. The server grants wait later, by the true clock, and the push
// arrives after back. The server's clock runs at rate.
func pushedAt(there, wait, back, ttl time.Duration, rate float64) (p Push, now, end time.Duration) {
	const born = 1_795_252_066_322 // the server's clock at the instant 0, in ms
	server := func(at time.Duration) uint64 { return born + uint64(float64(at)*rate)/uint64(time.Millisecond) }
	p = Push{Queued: server(there), Granted: server(there + wait), Lease: ttl}
	lasts := (float64(p.Granted-born)*float64(time.Millisecond) + float64(ttl)) / rate
	return p, there + wait + back, time.Duration(lasts)
}

func TestAPushedGrantIsTrustedNoLongerThanItsLease(t *testing.T) {
	for range 100_000 {
		ttl := MinTTL + rand.N(time.Hour)
		rate := 0.991 + 0.018*rand.Float64()
		p, now, end := pushedAt(rand.N(3*time.Second), rand.N(time.Minute), rand.N(10*time.Second), ttl, rate)
		if p.Since(now) > now {
			t.Fatalf("%+v at %v: counts from %v, which is to come", p, now, p.Since(now))
		}
		if d := Deadline(p.Since(now), ttl); p.Trusted(now) && d > end {
			t.Fatalf("%+v at %v: trusted to %v, the lease ends at %v", p, now, d, end)
		}
	}
}

func TestAPushCountsFromItsGrantAndNotFromTheLastAnswer(t *testing.T) {
	p, now, _ := pushedAt(time.Millisecond, 59*time.Second, time.Millisecond, 3*time.Second, 1)
	if lag := now - p.Since(now); lag < 590*time.Millisecond || lag > 600*time.Millisecond {
		t.Errorf("it counts from %v ago, want the drift of 59s and the two ways", lag)
	}
	assert.True(t, p.Trusted(now), "a grant of this instant is not trusted")
}

func TestAClockThatWasSetForwardMakesNoGrantYounger(t *testing.T) {
	for _, ahead := range []time.Duration{time.Minute, 1000 * time.Hour, 1 << 62} {
		p, now, _ := pushedAt(time.Millisecond, time.Second, time.Millisecond, 3*time.Second, 1)
		p.Granted += uint64(ahead / time.Millisecond)
		if since := p.Since(now); since > now || since < now-now/50 {
			t.Errorf("set forward by %v: counts from %v, heard at %v", ahead, since, now)
		}
	}
}

func TestAnOldPushOrOneWithLittleTimeLeftIsNotTrusted(t *testing.T) {
	const ttl = 3 * time.Second
	early, now, _ := pushedAt(0, time.Second, 0, ttl, 1)
	early.Granted = early.Queued - 1
	assert.False(t, early.Trusted(now), "a grant from before the answer is trusted")
	late, now, _ := pushedAt(0, time.Second, ttl/3, ttl, 1)
	assert.False(t, late.Trusted(now), "a grant with less than two thirds ahead is trusted")
	p, now, _ := pushedAt(0, time.Second, ttl/4, ttl, 1)
	assert.True(t, p.Trusted(now), "a grant with almost three quarters ahead is not trusted")
	p, now, _ = pushedAt(0, time.Second, 0, 0, 1)
	assert.True(t, !p.Trusted(now), "a grant of no lease is trusted")
	p, now, _ = pushedAt(0, time.Second, 0, MinTTL, 1)
	assert.False(t, !p.Trusted(now) && p.Since(now) > now, "the shortest lease counts from what is to come")
}

// A clock that was set forward while the waiter waited makes a push that comes late look
// like one that has just been sent.
func TestALatePushIsNotTrustedBecauseTheClockWasSetForward(t *testing.T) {
	const ttl = 3 * time.Second
	for _, late := range []time.Duration{0, time.Second, ttl, time.Minute} {
		for _, step := range []time.Duration{2 * time.Second, time.Minute, time.Hour} {
			p, now, _ := pushedAt(0, 5*time.Second, late, ttl, 1)
			p.Granted += uint64(step / time.Millisecond)
			// Only a push that is late by just as much as the clock was set may be
			// trusted.
			if seems := late - step; p.Trusted(now) && (seems < -ttl/10 || seems > ttl/3) {
				t.Errorf("set by %v, and %v late: it is trusted from %v on", step, late, p.Since(now))
			}
		}
	}
}

func TestTwoTriesToConfirmFitIntoThePushedLease(t *testing.T) {
	left := 2 * time.Second
	first := ConfirmWithin(left)
	at := RetryAt(first, left-first)
	if second := ConfirmWithin(left - at); at+second >= left || second < left/8 {
		t.Errorf("the first try has %v, the second %v of %v", first, second, left)
	}
}

func TestAPollComesBeforeTheWaiterTTLEnds(t *testing.T) {
	for _, ttl := range []time.Duration{MinTTL, time.Second, 30 * time.Second, 24 * time.Hour} {
		for _, left := range []time.Duration{0, time.Second, 48 * time.Hour} {
			for _, place := range []int{0, 1, 2, 1000} {
				in := PollAfter(left, place, ttl, 0.99)
				if in <= 0 || 2*in >= WaiterTTL(ttl) {
					t.Errorf("ttl %v left %v place %d: poll in %v, patience %v", ttl, left, place, in, WaiterTTL(ttl))
				}
			}
		}
	}
}

func TestTheFirstWaiterPollsRightAfterTheHoldersExpiry(t *testing.T) {
	in := PollAfter(5*time.Second, 1, 30*time.Second, 0.5)
	assert.True(t, in > 5*time.Second && in <= 5*time.Second+20*time.Millisecond,
		"the head polls after %v, the holder may be over after 5s", in)
}

func TestACoveringLeaseIsTrustedForTheWholeTime(t *testing.T) {
	for range 10_000 {
		d := rand.N(24 * time.Hour)
		ttl := TTLFor(d)
		assert.MustTrue(t, ttl.Truncate(time.Millisecond) == ttl,
			"%v: covered by %v, which is not whole milliseconds", d, ttl)
		if end := Deadline(0, ttl); end < d || end > d+d/50+4*time.Millisecond {
			t.Fatalf("%v: covered by %v, which is trusted until %v", d, ttl, end)
		}
	}
}

func TestEntriesAreLimited(t *testing.T) {
	for entries, may := range map[int]bool{1: true, 1<<31 - 2: true, 1<<31 - 1: false, 1 << 31: false} {
		assert.True(t, MayReenter(entries) == may, "%d entries, one more: %v", entries, !may)
	}
}

func TestAWaiterWithoutPushesPollsOftenAndNotTooOften(t *testing.T) {
	for _, ttl := range []time.Duration{MinTTL, time.Second, 30 * time.Second, 24 * time.Hour} {
		every := min(max(ttl/30, 10*time.Millisecond), time.Second)
		for _, jitter := range []float64{0, 0.5, 0.99} {
			if in := PollWithoutPush(0, ttl, jitter); in < every/2 || in >= 3*every/2 {
				t.Errorf("ttl %v jitter %v: a look in %v, apart from each other by %v", ttl, jitter, in, every)
			}
		}
		assert.Equal(t, PollWithoutPush(2*time.Millisecond, ttl, 0.99), 3*time.Millisecond,
			"ttl %v: the holders may be over in 2ms, a look in", ttl)
	}
}

func TestAnAcquisitionIsGivenMoreTimeAfterOneWithoutAnAnswer(t *testing.T) {
	for _, c := range []struct {
		limit, ttl time.Duration
		unanswered int
		want       time.Duration
	}{
		{time.Second, 30 * time.Second, 0, time.Second},
		{time.Second, 30 * time.Second, 1, 2 * time.Second},
		{time.Second, 30 * time.Second, 4, 16 * time.Second},
		{time.Second, 30 * time.Second, 5, 22500 * time.Millisecond},
		{time.Second, 30 * time.Second, 1 << 30, 22500 * time.Millisecond},
		{time.Second, 900 * time.Millisecond, 0, 300 * time.Millisecond}, // a third of its own lease
		{time.Second, 900 * time.Millisecond, 1, 600 * time.Millisecond},
	} {
		assert.Equal(t, AcquireLimit(c.limit, c.ttl, c.unanswered), c.want,
			"AcquireLimit(%v, %v, %d)", c.limit, c.ttl, c.unanswered)
	}
}

// The server tells of whole milliseconds, rounded down: from 884.999 to 932.000 it seems to be
// 48, and 47.001 have passed.
func TestAPushCountsFromTheEarliestInstantThatItsMillisecondsAllow(t *testing.T) {
	p := Push{Sent: time.Second, Queued: 884, Granted: 932, Lease: 100 * time.Millisecond}
	for _, late := range []time.Duration{0, time.Millisecond, time.Minute} {
		now := p.Sent + 48*time.Millisecond + late
		if since := p.Since(now); since > p.Sent+47*time.Millisecond || since < p.Sent+46*time.Millisecond {
			t.Errorf("heard %v later, it counts from %v after the request", late, since-p.Sent)
		}
	}
	p.Granted = p.Queued
	if since := p.Since(p.Sent + time.Millisecond); since != p.Sent {
		t.Errorf("granted in the same millisecond: it counts from %v after the request", since-p.Sent)
	}
}

// The looks of all waiters of a queue take the server no more than about a hundredth of its time,
// if it needs 4 µs for each waiter that is read. Few waiters look as often as one.
func TestACallForSeveralLocksKeepsOneForAMoment(t *testing.T) {
	for asked, want := range map[time.Duration]int64{
		0: 10, time.Millisecond: 10, 20 * time.Millisecond: 40, 5 * time.Second: 100,
	} {
		assert.Equal(t, KeepWhileWaiting(asked).Milliseconds(), want, "after an answer in %v", asked)
	}
	for asked, want := range map[time.Duration]int64{
		0: 100, 50 * time.Millisecond: 100, 200 * time.Millisecond: 400, 5 * time.Second: 1000,
	} {
		assert.Equal(t, KeepWhileAsking(asked).Milliseconds(), want, "after an answer in %v", asked)
	}
}

func TestLooksOfALongQueue(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 30 * time.Second, time.Hour} {
		for _, waiters := range []int{-1, 0, 1, 50} {
			got := LookLater(ttl, waiters)
			assert.False(t, got != LookAfter(ttl) && ttl > time.Second, "TTL %v, %d waiters: %v", ttl, waiters, got)
		}
		for _, waiters := range []int{100, 1000, 1400} {
			each := time.Duration(waiters) * 4 * time.Microsecond
			if got := LookLater(ttl, waiters); time.Duration(waiters)*each*60 > got {
				t.Errorf("TTL %v, %d waiters look every %v", ttl, waiters, got)
			}
		}
		assert.Equal(t, LookLater(ttl, 1<<40), 10*time.Minute, "TTL %v, a very long queue", ttl)
	}
}
