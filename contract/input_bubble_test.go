package contract_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// Invalid input is refused before any request. The error names the wrong value and says
// what to do.
func TestBadInputIsRefusedWithWhatToDo(t *testing.T) {
	lock := func(_ *holdfast.Lease, err error) error { return err }
	locks := func(_ *holdfast.MultiLease, err error) error { return err }
	run := func(p *holdfast.Periodic) error {
		_, err := p.Do(context.Background(), func(context.Context) error { return errors.New("it ran") })
		return err
	}
	ctx := context.Background()
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		pool := c.Semaphore("pool", 8)
		for says, err := range map[string]error{
			"the limit is 0: a semaphore has from 1 to":  lock(c.Semaphore("pool", 0).Acquire(ctx, 1)),
			"the limit is -1: a semaphore has from 1 to": pool.SetLimit(ctx, -1),
			"the number of permits is 0: ask for at least 1": lock(
				pool.TryAcquire(ctx, 0)),
			"the number of permits is 9, and the limit is 8: ask for fewer": lock(pool.Acquire(ctx, 9)),
			`the name "b" is given twice: give each name once`: locks(
				c.MultiMutex([]string{"b", "a", "b"}).Lock(ctx)),
			"there are no names: name the locks": locks(c.MultiMutex(nil).TryLock(ctx)),
			"at most 128 locks": locks(
				c.MultiMutex(make([]string, holdfast.MaxLocks+1)).Lock(ctx)),
			"the period (20s) is shorter than the TTL (30s)": run(
				c.Periodic("job", 20*time.Second, holdfast.TTL(30*time.Second))),
			"use a longer period or a shorter TTL": run(c.Periodic("job", 0)),
			"MinHold (2m0s) is longer than MaxHold (1m0s)": lock(
				c.Mutex("a", holdfast.MinHold(2*time.Minute), holdfast.MaxHold(time.Minute)).Lock(ctx)),
			"NoRenewal and MaxRenewals cannot be combined: leave one": lock(
				c.Mutex("a", holdfast.NoRenewal(), holdfast.MaxRenewals(3)).Lock(ctx)),
			"MaxWait and Tries cannot be combined": lock(
				c.Mutex("a", holdfast.Tries(3, time.Second), holdfast.MaxWait(time.Second)).Lock(ctx)),
			"the number of tries is 0: it must be at least 1": lock(
				c.Mutex("a", holdfast.Tries(0, time.Second)).Lock(ctx)),
			"MaxRenewals is 0: it must be at least 1, use NoRenewal": lock(
				c.Mutex("a", holdfast.MaxRenewals(0)).Lock(ctx)),
			"the owner's name is empty: use a name":    lock(c.Mutex("a", holdfast.Owner("")).Lock(ctx)),
			"the name is empty: give the lock a name":  lock(c.Mutex("").TryLock(ctx)),
			"not valid UTF-8: encode binary names":     lock(c.Mutex("a\xff").Lock(ctx)),
			"the limit is 512: shorten":                lock(c.Mutex(strings.Repeat("x", 513)).Lock(ctx)),
			"the TTL is 9ms: it must be at least 10ms": lock(c.Mutex("a", holdfast.TTL(9*time.Millisecond)).Lock(ctx)),
			"whole milliseconds: use 1.001s": lock(
				c.Mutex("a", holdfast.TTL(1001500*time.Microsecond)).Lock(ctx)),
			"MaxWait is -1s: use 0": lock(c.Mutex("a", holdfast.MaxWait(-time.Second)).Lock(ctx)),
		} {
			assert.True(t, errors.Is(err, holdfast.ErrInvalid) && strings.Contains(err.Error(), says),
				"%v: it does not say %q", err, says)
		}
		assert.True(t, len(w.net.sent) == 0, "sent %v", w.net.sent)
	})
}

// If only the server can know that a request is wrong, the server refuses it, and nothing
// changes.
func TestAConflictIsRefusedWithWhatToDo(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		permit, err := a.Semaphore("pool", 8).Acquire(t.Context(), 1)
		assert.Must(t, err)
		_, err = b.Semaphore("pool", 10).Acquire(t.Context(), 1)
		if !errors.Is(err, holdfast.ErrLimit) ||
			!strings.Contains(err.Error(), `"pool" is in use with a limit of 8, not 10`) ||
			!strings.Contains(holdfast.Hint(err), "Semaphore.SetLimit") {
			t.Errorf("%v (%s)", err, holdfast.Hint(err))
		}
		s := w.state("pool")
		assert.True(t, s.Limit == 8 && len(s.Holders) == 1 && len(s.Waiters) == 0, "after the conflict: %+v", s)
		release(t, permit)

		// Two readers upgrade at the same time, of one process and of two.
		for _, other := range []*holdfast.Client{a, b} {
			readers := []*holdfast.Lease{must(t, a.RWMutex("page").RLock), must(t, other.RWMutex("page").RLock)}
			refusals := make(chan error, len(readers))
			for _, l := range readers {
				go func() { refusals <- l.Upgrade(t.Context()) }()
			}
			for range readers {
				err := <-refusals
				if !errors.Is(err, holdfast.ErrHeld) ||
					!strings.Contains(err.Error(), "cannot upgrade: other readers hold the lock") ||
					holdfast.Hint(err) != "release the lease and call Lock" {
					t.Errorf("an upgrade beside another reader: %v (%s)", err, holdfast.Hint(err))
				}
			}
			for _, l := range readers {
				assert.NoError(t, l.Err())
				release(t, l)
			}
		}
		w.wantFree("page")
	})
}
