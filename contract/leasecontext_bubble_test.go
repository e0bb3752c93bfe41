package contract_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// sleepy is a network whose machine sleeps: its clock counts that, its timers do not.
type sleepy struct {
	*network
	slept atomic.Int64
}

func (s *sleepy) Clock() func() time.Duration {
	now := s.network.Clock()
	return func() time.Duration { return now() + time.Duration(s.slept.Load()) }
}

func (s *sleepy) sleep(d time.Duration) { s.slept.Add(int64(d)) }

// awake makes a client on a machine that may sleep.
func (w *world) awake(cfg holdfast.Config) (*holdfast.Client, *sleepy) {
	w.t.Helper()
	s := &sleepy{network: w.net}
	c, err := holdfast.New(s, cfg)
	assert.Must(w.t, err)
	w.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c, s
}

// closed reports whether the channel is closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Timers are late after a suspension, and on a busy machine. A caller that checks the
// lease sees its end all the same, and everything that belongs to the lease has ended.
func TestAfterTheDeadlineTheContextIsDone(t *testing.T) {
	for name, look := range map[string]func(l *holdfast.Lease, ctx context.Context) bool{
		"Err":       func(l *holdfast.Lease, _ context.Context) bool { return l.Err() != nil },
		"Remaining": func(l *holdfast.Lease, _ context.Context) bool { return l.Remaining() == 0 },
		"HoldCount": func(l *holdfast.Lease, _ context.Context) bool { return l.HoldCount() == 0 },
		"ctx.Err":   func(_ *holdfast.Lease, ctx context.Context) bool { return ctx.Err() != nil },
		"ctx.Done":  func(_ *holdfast.Lease, ctx context.Context) bool { return closed(ctx.Done()) },
		"Extend": func(l *holdfast.Lease, _ context.Context) bool {
			return errors.Is(l.Extend(context.Background(), ttl), holdfast.ErrLost)
		},
		"a child made late": func(l *holdfast.Lease, ctx context.Context) bool {
			inner, cancel := context.WithCancel(ctx)
			defer cancel()
			return inner.Err() != nil
		},
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			seen := new(recorder)
			c, machine := w.awake(holdfast.Config{Observer: seen})
			l := mustLock(t, c.Mutex("a"))
			ctx := l.Context()
			before, inner := ctx.Done(), make(chan struct{})
			context.AfterFunc(ctx, func() { close(inner) })
			machine.sleep(trusted - time.Nanosecond)
			assert.MustTrue(t, l.Err() == nil && ctx.Err() == nil && !closed(before),
				"the lease ended before its deadline")
			machine.sleep(time.Nanosecond)
			start := time.Now()
			assert.True(t, look(l, ctx), "the end is not seen")
			assert.True(t, closed(before), "the context is not done")
			wantLost(t, context.Cause(ctx), holdfast.LossExpired)
			wantLost(t, l.Err(), holdfast.LossExpired)
			synctest.Wait()
			assert.True(t, closed(inner) && time.Since(start) == 0,
				"what hangs on the context has not ended")
			time.Sleep(time.Second)
			lost := seen.all(holdfast.EventLost)
			assert.MustTrue(t, len(lost) == 1, "the observer was told of these losses: %v", lost)
			assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
			release(t, mustLock(t, c.Mutex("a"))) // other goroutines may ask the server
		})
	}
}

// The contexts of Do end as those of leases do. The context of several locks ends with
// the first lease that ends.
func TestAfterTheDeadlineTheContextOfDoIsDone(t *testing.T) {
	overdue := func(machine *sleepy) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			before := ctx.Done()
			machine.sleep(trusted - time.Nanosecond)
			if ctx.Err() != nil {
				return errors.New("it ended before its deadline")
			}
			machine.sleep(time.Nanosecond)
			if ctx.Err() == nil || !closed(before) {
				return errors.New("it is not done")
			}
			return context.Cause(ctx)
		}
	}
	bubble(t, func(t *testing.T, w *world) {
		c, machine := w.awake(holdfast.Config{})
		err := c.Mutex("a").Do(t.Context(), overdue(machine))
		wantLost(t, err, holdfast.LossExpired)
		err = c.MultiMutex([]string{"b", "c"}).Do(t.Context(), overdue(machine))
		wantLost(t, err, holdfast.LossExpired)
		l, err := c.MultiMutex([]string{"d", "e"}).Lock(t.Context())
		assert.Must(t, err)
		wantLost(t, overdue(machine)(l.Context()), holdfast.LossExpired)
		wantLost(t, l.Err(), holdfast.LossExpired)
		assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
	})
}

// A lease that a caller has seen as lost remains lost and is reported, whatever answer
// arrives later.
func TestALossThatWasSeenIsNotTakenBackByALateAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		seen := new(recorder)
		c, machine := w.awake(holdfast.Config{Observer: seen})
		l := mustLock(t, c.Mutex("a"))
		w.net.slow(func(action string) (there, back time.Duration) { return 0, 400 * time.Millisecond })
		for w.net.count("renew") == 0 {
			time.Sleep(100 * time.Millisecond)
		}
		machine.sleep(l.Remaining()) // the answer counts from the time of the request
		wantLost(t, l.Err(), holdfast.LossExpired)
		w.net.slow(nil)
		time.Sleep(2 * time.Second)
		wantLost(t, l.Err(), holdfast.LossExpired)
		lost := seen.all(holdfast.EventLost)
		assert.True(t, len(lost) == 1, "the observer was told of these losses: %v", lost)
		assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
	})
}

// LeaseOf tells what the lease tells, in every function that runs under one and after its
// end, and nothing of a context that belongs to no lease.
func TestAContextTellsItsLease(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, ctx := w.client(), t.Context()
		_, ok := holdfast.LeaseOf(ctx)
		assert.True(t, !ok, "a context without a lease tells of one")
		if _, ok := holdfast.LeaseOf(nil); ok { //nolint:staticcheck // that is what is tested
			t.Error("no context tells of a lease")
		}
		l, err := c.Mutex("a").Lock(ctx)
		assert.Must(t, err)
		want := holdfast.LeaseInfo{Name: "a", HolderID: l.HolderID(), Token: l.Token(), Remaining: l.Remaining()}
		got, ok := holdfast.LeaseOf(l.Context())
		assert.True(t, ok && got == want, "%+v %v, want %+v", got, ok, want)
		child, cancel := context.WithCancel(l.Context())
		defer cancel()
		assert.Must(t, l.Release(ctx))
		want.Remaining = 0
		got, ok = holdfast.LeaseOf(child)
		assert.True(t, ok && got == want, "after the release: %+v %v, want %+v", got, ok, want)
		result, err := c.Periodic("job", time.Hour).Do(ctx, func(ctx context.Context) error {
			want, _ = holdfast.LeaseOf(ctx)
			return nil
		})
		if err != nil || want.Name != "job" || want.Token != result.Token || want.HolderID != result.HolderID ||
			want.Remaining <= 0 {
			t.Errorf("%+v, and the job had %+v: %v", result, want, err)
		}
	})
}
