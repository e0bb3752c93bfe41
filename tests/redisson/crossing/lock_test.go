//go:build redisson

package crossing

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestEitherSideIsRefusedWhatTheOtherHolds(t *testing.T) {
	crossed(t, func(t *testing.T, a, b side) {
		w := open(t, a, b, Settings{})
		for _, kind := range []string{"lock", "fair", "fenced", "write"} {
			n := name()
			say(t, "locked", w.a, "1", "lock", kind, n, 0)
			say(t, "busy", w.b, "1", "try", kind, n, 0, 0)
			say(t, "busy", w.b, "1", "try", kind, n, 50, 0)
			say(t, "true", w.b, "1", "locked", kind, n)
			say(t, "not-held", w.b, "1", "unlock", kind, n)
			say(t, "true", w.a, "1", "held", kind, n)
			say(t, "unlocked", w.a, "1", "unlock", kind, n)
			say(t, "locked", w.b, "1", "try", kind, n, 0, 0)
			say(t, "busy", w.a, "1", "try", kind, n, 0, 0)
			say(t, "unlocked", w.b, "1", "unlock", kind, n)
			if left := w.do(t, n, "EXISTS", n); left != int64(0) {
				t.Errorf("%s: the key is still there", kind)
			}
		}
	})
}

func TestEitherSideWritesWhatRedissonWrites(t *testing.T) {
	crossed(t, func(t *testing.T, a, b side) {
		w := open(t, a, b, Settings{})
		n := name()
		for _, p := range []*Process{w.a, w.b} {
			say(t, "locked", p, "1", "lock", "lock", n, 0)
			fields := w.do(t, n, "HGETALL", n).([]any)
			id, thread, _ := strings.Cut(fields[0].(string), ":")
			if len(fields) != 2 || id != p.ID || strings.Trim(thread, "0123456789") != "" || fields[1] != "1" {
				t.Errorf("%s wrote %v", p.ID, fields)
			}
			if left := w.do(t, n, "PTTL", n).(int64); left <= 0 || left > 30_000 {
				t.Errorf("the TTL is %d ms", left)
			}
			say(t, "unlocked", p, "1", "unlock", "lock", n)
		}
	})
}

func TestEitherSideIsWokenByTheReleaseOfTheOther(t *testing.T) {
	crossed(t, func(t *testing.T, a, b side) {
		w := open(t, a, b, Settings{})
		for _, kind := range []string{"lock", "fenced", "write"} {
			n := name()
			c := channel(n)
			if kind == "write" {
				c = tagged("redisson_rwlock", n)
			}
			for range 5 {
				say(t, "locked", w.a, "1", "lock", kind, n, long)
				waits := w.b.Begin("1", "lock", kind, n, long)
				w.heard(t, c, 1)
				none(t, waits)
				say(t, "unlocked", w.a, "1", "unlock", kind, n)
				if got := is(t, "locked", waits); strings.HasSuffix(got, " poll") {
					t.Errorf("%s: it was woken by its own timer", kind)
				}
				say(t, "unlocked", w.b, "1", "unlock", kind, n)
			}
		}
	})
}

func TestEitherSideWaitsInManyThreads(t *testing.T) {
	crossed(t, func(t *testing.T, a, b side) {
		w := open(t, a, b, Settings{})
		n := name()
		say(t, "locked", w.a, "0", "lock", "lock", n, long)
		type waiter struct {
			p      *Process
			thread string
		}
		waits := make(map[waiter]*Answer)
		for _, thread := range []string{"1", "2", "3", "4", "5"} {
			for _, p := range []*Process{w.a, w.b} {
				waits[waiter{p, thread}] = p.Begin(thread, "lock", "lock", n, long)
			}
		}
		w.heard(t, channel(n), 1)
		say(t, "unlocked", w.a, "0", "unlock", "lock", n)
		for len(waits) > 0 { // one after the other, in any order
			for who, answer := range waits {
				select {
				case got := <-answer.Done():
					assert.MustTrue(t, strings.HasPrefix(got, "ok locked"), "the answer is %q", got)
					say(t, "unlocked", who.p, who.thread, "unlock", "lock", n)
					delete(waits, who)
				default:
				}
			}
		}
	})
}

func TestEitherSideRenewsAgainstTheOther(t *testing.T) {
	crossed(t, func(t *testing.T, a, b side) {
		w := open(t, a, b, Settings{WatchdogMs: short})
		for _, kind := range []string{"lock", "fair", "fenced", "write", "read"} {
			n := name()
			say(t, "locked", w.a, "1", "lock", kind, n, 0)
			other := kind
			if kind == "read" {
				other = "write"
			}
			waits := w.b.Begin("1", "lock", other, n, 0)
			w.renewed(t, n, 6) // a TTL is three renewals
			none(t, waits)
			say(t, "busy", w.b, "2", "try", other, n, 0, 0)
			say(t, "unlocked", w.a, "1", "unlock", kind, n)
			is(t, "locked", waits)
			say(t, "unlocked", w.b, "1", "unlock", other, n)
		}
	})
}

func TestEitherSideReEnters(t *testing.T) {
	crossed(t, func(t *testing.T, a, b side) {
		w := open(t, a, b, Settings{})
		n := name()
		say(t, "locked", w.a, "1", "lock", "lock", n, long)
		say(t, "locked", w.a, "1", "lock", "lock", n, long)
		say(t, "2", w.a, "1", "count", "lock", n)
		waits := w.b.Begin("1", "lock", "lock", n, long)
		w.heard(t, channel(n), 1)
		say(t, "busy", w.a, "2", "try", "lock", n, 0, 0) // another thread is another owner
		say(t, "unlocked", w.a, "1", "unlock", "lock", n)
		say(t, "busy", w.b, "2", "try", "lock", n, 0, 0)
		none(t, waits)
		say(t, "unlocked", w.a, "1", "unlock", "lock", n)
		is(t, "locked", waits)
	})
}

func TestEitherSideGetsWhatExpired(t *testing.T) {
	crossed(t, func(t *testing.T, a, b side) {
		w := open(t, a, b, Settings{})
		for _, kind := range []string{"lock", "fenced", "write", "read"} {
			n := name()
			other := kind
			if kind == "read" {
				other = "write"
			}
			say(t, "locked", w.a, "1", "lock", kind, n, short)
			say(t, "locked", w.b, "1", "lock", other, n, long) // no message: it waits for the end
			say(t, "not-held", w.a, "1", "unlock", kind, n)
			say(t, "busy", w.a, "2", "try", other, n, 0, 0)
			say(t, "true", w.b, "1", "held", other, n)
			say(t, "unlocked", w.b, "1", "unlock", other, n)
		}
	})
}

func TestEitherSideGetsWhatTheDeadHeld(t *testing.T) {
	crossed(t, func(t *testing.T, a, b side) {
		w := open(t, a, b, Settings{WatchdogMs: short})
		kinds := []string{"lock", "fair", "fenced", "write", "read"}
		held := make(map[string]string)
		for _, kind := range kinds {
			held[kind] = name()
			say(t, "locked", w.a, "1", "lock", kind, held[kind], 0)
		}
		w.renewed(t, held["lock"], 3)
		assert.Must(t, w.a.Kill())
		for _, kind := range kinds {
			other := kind
			if kind == "read" {
				other = "write"
			}
			say(t, "locked", w.b, "1", "lock", other, held[kind], 0)
		}
	})
}

func TestAnOperatorEndsTheHoldOfEitherSide(t *testing.T) {
	crossed(t, func(t *testing.T, a, b side) {
		w := open(t, a, b, Settings{})
		n := name()
		say(t, "locked", w.a, "1", "lock", "lock", n, long)
		waits := w.b.Begin("1", "lock", "lock", n, long)
		w.heard(t, channel(n), 1)
		say(t, "true", w.b, "2", "force", "lock", n)
		is(t, "locked", waits)
		say(t, "not-held", w.a, "1", "unlock", "lock", n)
		say(t, "true", w.b, "1", "held", "lock", n)
	})
}

// A fair lock expires: the waiters get it one after the other, in their order, and the late unlock of
// the holder ends nothing.
func TestAFairLockThatExpiresGoesToTheFirstWaiter(t *testing.T) {
	crossed(t, func(t *testing.T, a, b side) {
		w := open(t, a, b, Settings{})
		// The goroutines of one process of this library are one waiter: each waiter needs its own.
		second := run(t, a, Settings{Address: w.server.Addr()})
		n := name()
		queued := func(want int64) {
			redistest.Await(t, "the waiter is in the queue", func() bool {
				return w.do(t, n, "LLEN", tagged("redisson_lock_queue", n)) == want
			})
		}
		say(t, "locked", w.a, "1", "lock", "fair", n, 2*short)
		first := w.b.Begin("1", "lock", "fair", n, short)
		queued(1)
		next := second.Begin("1", "lock", "fair", n, long)
		queued(2)
		is(t, "locked", first) // no message: it waits for the end
		say(t, "not-held", w.a, "1", "unlock", "fair", n)
		none(t, next)
		is(t, "locked", next) // again without a message
		say(t, "not-held", w.b, "1", "unlock", "fair", n)
		say(t, "busy", w.b, "2", "try", "fair", n, 0, 0)
		say(t, "true", second, "1", "held", "fair", n)
		say(t, "unlocked", second, "1", "unlock", "fair", n)
		for _, key := range []string{n, tagged("redisson_lock_queue", n), tagged("redisson_lock_timeout", n)} {
			assert.True(t, w.do(t, n, "EXISTS", key) == int64(0), "%s is left", key)
		}
	})
}
