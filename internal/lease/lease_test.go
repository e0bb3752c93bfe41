package lease

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestDeadlineEndsBeforeTheServersLease(t *testing.T) {
	for range 10_000 {
		ttl := MinTTL + rand.N(24*time.Hour)
		sent := rand.N(365 * 24 * time.Hour)
		d := Deadline(sent, ttl)
		if d >= sent+ttl {
			t.Fatalf("ttl %v: trusted to %v, the lease ends at %v", ttl, d, sent+ttl)
		}
		if d <= sent {
			t.Fatalf("ttl %v: nothing of the lease is left after the margin", ttl)
		}
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

func TestFreshGrantLeavesAThirdOfTheLease(t *testing.T) {
	const ttl = 30 * time.Second
	if !Fresh(0, 0, ttl) {
		t.Error("a grant counted from now is not fresh")
	}
	if Fresh(25*time.Second, 0, ttl) {
		t.Error("a grant with less than a third ahead is fresh")
	}
}

func TestPollComesBeforePatienceRunsOut(t *testing.T) {
	for _, ttl := range []time.Duration{MinTTL, time.Second, 30 * time.Second, 24 * time.Hour} {
		for _, left := range []time.Duration{0, time.Second, 48 * time.Hour} {
			for _, place := range []int{0, 1, 2, 1000} {
				in := PollIn(left, place, ttl, 0.99)
				if in <= 0 || 2*in >= Patience(ttl) {
					t.Errorf("ttl %v left %v place %d: poll in %v, patience %v", ttl, left, place, in, Patience(ttl))
				}
			}
		}
	}
}

func TestTheHeadOfTheLinePollsRightAfterTheHoldersEnd(t *testing.T) {
	in := PollIn(5*time.Second, 1, 30*time.Second, 0.5)
	if in <= 5*time.Second || in > 5*time.Second+20*time.Millisecond {
		t.Errorf("the head polls after %v, the holder may be over after 5s", in)
	}
}

func TestACoveringLeaseIsTrustedForTheWholeTime(t *testing.T) {
	for range 10_000 {
		d := rand.N(24 * time.Hour)
		ttl := Covering(d)
		if ttl.Truncate(time.Millisecond) != ttl {
			t.Fatalf("%v: covered by %v, which is not whole milliseconds", d, ttl)
		}
		if end := Deadline(0, ttl); end < d || end > d+d/50+4*time.Millisecond {
			t.Fatalf("%v: covered by %v, which is trusted until %v", d, ttl, end)
		}
	}
}

func TestNothingIsEnteredMoreThan2To31Times(t *testing.T) {
	for entries, may := range map[int]bool{1: true, 1<<31 - 2: true, 1<<31 - 1: false, 1 << 31: false} {
		if MayEnter(entries) != may {
			t.Errorf("%d entries, one more: %v", entries, !may)
		}
	}
}

func TestWhoHearsNothingLooksOftenAndNotTooOften(t *testing.T) {
	for _, ttl := range []time.Duration{MinTTL, time.Second, 30 * time.Second, 24 * time.Hour} {
		every := min(max(ttl/30, 10*time.Millisecond), time.Second)
		for _, jitter := range []float64{0, 0.5, 0.99} {
			if in := LookIn(0, ttl, jitter); in < every/2 || in >= 3*every/2 {
				t.Errorf("ttl %v jitter %v: a look in %v, apart from each other by %v", ttl, jitter, in, every)
			}
		}
		if in := LookIn(2*time.Millisecond, ttl, 0.99); in != 3*time.Millisecond {
			t.Errorf("ttl %v: the holders may be over in 2ms, a look in %v", ttl, in)
		}
	}
}
