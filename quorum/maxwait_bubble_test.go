package quorum_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// A wait that ends without the lock returns an ErrHeld that names the holder, whatever request
// is under way at its end.
func TestAnExpiredWaitOverAQuorumReturnsErrHeld(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		for i, p := range w.peers {
			p.slow(time.Duration(8+i)*time.Millisecond, 10*time.Millisecond)
		}
		a := w.client()
		l := w.lock(a, "x")
		for wait := time.Millisecond; wait < 200*time.Millisecond; wait += 7 * time.Millisecond {
			c := w.client()
			_, err := c.Mutex("x", holdfast.MaxWait(wait)).Lock(t.Context())
			var held *holdfast.HeldError
			assert.MustTrue(t, errors.As(err, &held) && errors.Is(err, holdfast.ErrHeld), "after %v: %v", wait, err)
			if errors.Is(err, holdfast.ErrUnknownOutcome) || errors.Is(err, context.DeadlineExceeded) ||
				errors.Is(err, context.Canceled) {
				t.Errorf("after %v: %v", wait, err)
			}
			if wait > 150*time.Millisecond && (!strings.HasPrefix(held.HeldBy, a.ID()) || held.Remaining <= 0) {
				t.Errorf("after %v: held by %q for %v", wait, held.HeldBy, held.Remaining)
			}
		}
		time.Sleep(time.Second)
		w.release(l)
		time.Sleep(2 * ttl)
		w.wantOn("x", "00000")
	})
}

// Too few servers answer, or count: the wait ends all the same, and the error says what was
// missing. If the context ends, the error is the context's.
func TestAnExpiredWaitWithoutAMajorityReturnsErrHeldAndSaysWhy(t *testing.T) {
	for what, harm := range map[string]func(p *peer) (mend func()){
		"connection refused": failures["it is down"],
		"no answer in time":  failures["it is silent"],
		"EOF":                failures["its connections break"],
		"lost its memory":    func(p *peer) func() { p.kill(); p.revive(true); return func() {} },
	} {
		t.Run(what, func(t *testing.T) {
			identifiedBubble(t, func(t *testing.T, w *world) {
				c := w.client()
				w.release(w.lock(c, "y"))
				time.Sleep(time.Minute)
				var mend []func()
				for _, p := range w.peers[:3] {
					mend = append(mend, harm(p))
				}
				_, err := c.Mutex("x", holdfast.MaxWait(10*time.Second)).Lock(t.Context())
				assert.Is(w.t, err, holdfast.ErrHeld)
				assert.True(t, err != nil && strings.Contains(err.Error(), what),
					"error %v does not say %q", err, what)
				advice := "be running and answer"
				if what == "lost its memory" {
					advice = "can take part again"
				}
				assert.Contains(t, holdfast.Hint(err), advice)
				if errors.Is(err, holdfast.ErrUnknownOutcome) || errors.Is(err, context.DeadlineExceeded) ||
					errors.Is(err, context.Canceled) {
					t.Errorf("error %v", err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				_, err = c.Mutex("x").Lock(ctx)
				assert.Is(w.t, err, context.DeadlineExceeded)
				assert.False(t, errors.Is(err, holdfast.ErrHeld), "error %v", err)
				for _, f := range mend {
					f()
				}
				w.release(w.lock(c, "x")) // a client that waits on gets the lock
			})
		})
	}
}

// A quorum begins while a minority is away: a waiter gets the lock once the servers count.
func TestAWaiterGetsTheLockOnceANewQuorumCounts(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.kill(0, 3)
		start := time.Now()
		c := w.client()
		l := w.lock(c, "x")
		assert.AtMost(t, time.Since(start), 75*time.Second, "it took")
		synctest.Wait()
		w.release(l)
	})
}
