// With replicas, acknowledgements are counted: if there are too few, the grant is released, and if a server cannot
// acknowledge, the error names it before anything is acquired (the row of WaitReplicas and WaitAOF).

package contract_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/store"
)

// short expects the error of a grant with too few acknowledgements, and that the lock is
// free at once.
func (w *world) short(name string, err error, want, got store.Acks) {
	w.t.Helper()
	var missing *holdfast.MismatchError
	assert.MustTrue(w.t, errors.As(err, &missing) && errors.Is(err, holdfast.ErrNotAcked), "got %v", err)
	assert.True(w.t, missing.Name == name && missing.Want == want && missing.Got == got, "got %+v", missing)
	if errors.Is(err, holdfast.ErrUnknownOutcome) || holdfast.Hint(err) == "" {
		w.t.Errorf("the error is %v, its hint %q", err, holdfast.Hint(err))
	}
	w.wantFree(name)
}

func TestAGrantThatTooFewAcknowledgeIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		w.SetAcks(store.Acks{Replicas: 1})
		_, err := c.Mutex("x", holdfast.WaitReplicas(2, limit)).Lock(t.Context())
		w.short("x", err, store.Acks{Replicas: 2}, store.Acks{Replicas: 1})
		_, err = c.Mutex("x", holdfast.WaitAOF(0, limit)).TryLock(t.Context())
		w.short("x", err, store.Acks{LocalAOF: 1}, store.Acks{Replicas: 1})

		w.SetAcks(store.Acks{Replicas: 2, LocalAOF: 1})
		l := must(t, c.Mutex("x", holdfast.WaitReplicas(2, limit), holdfast.WaitAOF(0, limit)).Lock)
		assert.Equal(t, l.Remaining(), trusted, "trusted for")
		_, err = c.Mutex("y", holdfast.WaitAOF(1, limit)).Lock(t.Context())
		got := store.Acks{LocalAOF: 1, ReplicaAOF: 1}
		w.short("y", err, got, store.Acks{Replicas: 2, LocalAOF: 1})
	})
}

// A pushed grant is confirmed too. If it has too few acknowledgements, the next waiter
// gets it.
func TestAPushedGrantIsAcknowledgedOrHandedOn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.SetAcks(store.Acks{Replicas: 1})
		held := must(t, w.client().Mutex("x").Lock)
		careful, failed := w.client(), make(chan error, 1)
		go func() {
			_, err := careful.Mutex("x", holdfast.WaitReplicas(2, limit)).Lock(t.Context())
			failed <- err
		}()
		synctest.Wait()
		careless, granted := w.client(), make(chan *holdfast.Lease, 1)
		go func() {
			l, err := careless.Mutex("x", holdfast.WaitReplicas(1, limit)).Lock(t.Context())
			assert.NoError(t, err)
			granted <- l
		}()
		synctest.Wait()
		start := time.Now()
		assert.Must(t, held.Release(t.Context()))
		if err := <-failed; !errors.Is(err, holdfast.ErrNotAcked) {
			t.Fatalf("got %v", err) // the other waiter would wait for ever
		}
		l := <-granted
		assert.Equal(t, time.Since(start), limit, "handed on after")
		assert.False(t, l == nil || l.Token() <= held.Token(), "no lease, or its token did not rise")
	})
}

// Acknowledgements may take longer than a pushed lease lasts. So a waiter that wants them does not
// trust the push: it asks for its whole TTL first.
func TestAPushedGrantIsNotTrustedBeforeItsAcknowledgements(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const slow = 4 * time.Second
		held := mustLock(t, w.client().Mutex("x"))
		c := w.client(holdfast.Config{RequestTimeout: slow + time.Second})
		next := w.waiting(c.Mutex("x", holdfast.WaitReplicas(1, slow)), t.Context())
		synctest.Wait()
		release(t, held)
		time.Sleep(slow - time.Millisecond)
		w.SetAcks(store.Acks{Replicas: 1})
		got := <-next
		assert.Must(t, got.err)
		assert.Equal(t, got.Remaining(), trusted-slow, "trusted for")
		release(t, got.Lease)
	})
}

// Renewals count only when they are acknowledged. Otherwise they are retried until the
// old deadline.
func TestARenewalThatTooFewAcknowledgeIsNone(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		w.SetAcks(store.Acks{Replicas: 1})
		l := must(t, c.Mutex("x", holdfast.WaitReplicas(1, limit)).Lock)
		plain, err := c.Mutex("plain").Lock(t.Context())
		assert.Must(t, err)
		w.SetAcks(store.Acks{})
		time.Sleep(ttl / 2)
		assert.AtMost(t, l.Remaining(), trusted-ttl/2, "an unacknowledged renewal counts")
		w.SetAcks(store.Acks{Replicas: 1})
		time.Sleep(3 * time.Second)
		// A try that waited for acknowledgements when they came back counts from when it was sent.
		assert.AtLeast(t, l.Remaining(), trusted-3*time.Second-limit, "the renewal was not tried again")
		w.SetAcks(store.Acks{})
		time.Sleep(2 * ttl)
		assert.True(t, errors.Is(l.Err(), holdfast.ErrLost) && plain.Err() == nil,
			"the leases: %v, %v", l.Err(), plain.Err())
	})
}

// A hold without acknowledgements is not handed over to a goroutine that asks for them.
func TestAHoldIsHandedOverOnlyForTheSameAcknowledgements(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		held := must(t, c.Mutex("x").Lock)
		failed := make(chan error, 1)
		go func() {
			_, err := c.Mutex("x", holdfast.WaitReplicas(1, limit)).Lock(t.Context())
			failed <- err
		}()
		synctest.Wait()
		assert.Must(t, held.Release(t.Context()))
		w.short("x", <-failed, store.Acks{Replicas: 1}, store.Acks{})
	})
}

func TestACancelledConfirmationLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		ctx, cancel := context.WithTimeout(t.Context(), limit/2)
		defer cancel()
		_, err := c.Mutex("x", holdfast.WaitReplicas(1, limit)).Lock(ctx)
		assert.True(t, errors.Is(err, context.DeadlineExceeded) && errors.Is(err, holdfast.ErrUnknownOutcome),
			"got %v", err)
		synctest.Wait()
		w.wantFree("x")
	})
}

func TestImpossibleAcknowledgementsAreRefusedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		plain := w.over(plain{w.net}, holdfast.Config{})
		for name, m := range map[string]*holdfast.Mutex{
			"no replicas":       c.Mutex("x", holdfast.WaitReplicas(0, limit)),
			"negative replicas": c.Mutex("x", holdfast.WaitAOF(-1, limit)),
			"no limit":          c.Mutex("x", holdfast.WaitReplicas(1, 0)),
			"half milliseconds": c.Mutex("x", holdfast.WaitReplicas(1, 1500*time.Microsecond)),
			"too long":          c.Mutex("x", holdfast.WaitReplicas(1, 3*time.Second)),
			"too long in sum": c.Mutex("x",
				holdfast.WaitReplicas(1, 2*time.Second), holdfast.WaitAOF(0, 2*time.Second)),
			"a plain store": plain.Mutex("x", holdfast.WaitReplicas(1, limit)),
		} {
			_, err := m.Lock(t.Context())
			assert.True(t, errors.Is(err, holdfast.ErrInvalid), "%s: %v", name, err)
		}
		assert.Equal(t, w.net.sent["acquire"], 0, "requests that were sent")
	})
}

// If the server has no WAITAOF, the error comes before anything is acquired.
func TestWaitAOFNeedsAServerThatHasIt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.SetAcks(store.Acks{Replicas: 1, LocalAOF: 1})
		for version, able := range map[string]bool{"7.0.15": false, "7.2.0": true, "8.1": true, "": true} {
			info := store.ServerInfo{Product: "redis", Version: version, Role: "master"}
			net := &described{network: w.net, info: info}
			c, err := holdfast.New(net, holdfast.Config{})
			assert.Must(t, err)
			before := w.net.count("acquire")
			_, err = c.Mutex("x", holdfast.WaitAOF(0, limit)).Lock(t.Context())
			var refused *holdfast.ServerError
			if able {
				assert.NoError(t, err)
			} else if !errors.As(err, &refused) || refused.Code != "WAITAOF" || holdfast.Hint(err) == "" ||
				w.net.count("acquire") != before {
				t.Errorf("version %q: %v", version, err)
			}
			_, err = c.Mutex("y", holdfast.WaitReplicas(1, limit)).Lock(t.Context())
			assert.True(t, err == nil, "version %q: replicas: %v", version, err)
			assert.NoError(t, c.Close(t.Context()))
		}
	})
}

// A grant that replicas must acknowledge does not come from a batch, because a batch has
// no acknowledgements.
func TestManyAcquisitionsAtOnceAreAcknowledged(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		release(t, mustLock(t, c.Mutex("warm")))
		w.net.slow(func(string) (time.Duration, time.Duration) { return time.Millisecond, time.Millisecond })
		w.SetAcks(store.Acks{Replicas: 1})
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				l, err := c.Mutex(fmt.Sprint("own-", i), holdfast.WaitReplicas(2, limit)).TryLock(t.Context())
				if assert.Is(t, err, holdfast.ErrNotAcked); l != nil {
					release(t, l)
				}
			})
		}
		all.Wait()
	})
}

func TestSeveralLocksThatTooFewAcknowledgeAreGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		w.SetAcks(store.Acks{Replicas: 1})
		_, err := c.MultiMutex([]string{"a", "b"}, holdfast.WaitReplicas(2, limit)).Lock(t.Context())
		if assert.Is(t, err, holdfast.ErrNotAcked); err == nil {
			return // nobody releases them: the next waiter would wait for ever
		}
		w.wantFree("a")
		w.wantFree("b")
		job := c.Periodic("job", time.Hour, holdfast.WaitReplicas(2, limit))
		turn, err := job.Do(t.Context(), func(context.Context) error {
			t.Error("ran")
			return nil
		})
		assert.Is(t, err, holdfast.ErrNotAcked)
		synctest.Wait()
		w.SetAcks(store.Acks{Replicas: 2})
		releaseAll(t, mustLockAll(t, c.MultiMutex([]string{"a", "b"}, holdfast.WaitReplicas(2, limit))))
		// The period is due again after the cancelled run.
		again, err := c.Periodic("job", time.Hour, holdfast.WaitReplicas(2, limit)).Do(t.Context(),
			func(context.Context) error { return nil })
		assert.True(t, !turn.Ran && again.Ran && err == nil,
			"%+v, then %+v, %v; want no run, and then one", turn, again, err)
	})
}

func TestAConversionCountsWhenItIsAcknowledged(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		careless := must(t, c.RWMutex("a").RLock)
		w.SetAcks(store.Acks{Replicas: 1})
		m := c.RWMutex("a", holdfast.WaitReplicas(1, limit))
		l := must(t, m.RLock)
		assert.True(t, l.HolderID() != careless.HolderID(), "a reader shares a hold that nobody has acknowledged")
		release(t, careless)
		token := l.Token()
		w.SetAcks(store.Acks{})
		assert.Is(t, l.Upgrade(t.Context()), holdfast.ErrNotAcked, holdfast.ErrUnknownOutcome)
		assert.True(t, l.Token() == token && l.Err() == nil,
			"the reader: token %d after %d, %v", l.Token(), token, l.Err())
		w.SetAcks(store.Acks{Replicas: 1})
		err := l.Upgrade(t.Context())
		assert.True(t, err == nil && l.Token() > token, "acknowledged: %v, token %d", err, l.Token())
		release(t, l)
		w.wantFree("a")
	})
}
