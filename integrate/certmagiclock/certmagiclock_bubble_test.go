package certmagiclock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integrate/certmagiclock"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
)

func newStorage(t *testing.T, s *memstore.Store) (*certmagiclock.Storage, *holdfast.Client) {
	t.Helper()
	client, err := holdfast.New(s, holdfast.Config{})
	assert.Must(t, err)
	t.Cleanup(client.Abandon)
	return certmagiclock.New(&certmagic.FileStorage{Path: t.TempDir()}, client, "certmagic/"), client
}

func want(t *testing.T, what string, err, wanted error) {
	t.Helper()
	assert.True(t, errors.Is(err, wanted), "%s: %v, want %v", what, err, wanted)
}

func TestALockOfAStorageIsLockedUntilItsUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memstore.New()
		mine, _ := newStorage(t, server)
		theirs, _ := newStorage(t, server)
		want(t, "lock", mine.Lock(t.Context(), "a"), nil)
		for name, other := range map[string]*certmagiclock.Storage{"mine": mine, "theirs": theirs} {
			ok, err := other.TryLock(t.Context(), "a")
			assert.True(t, !ok && err == nil, "TryLock of %s: %v, %v", name, ok, err)
			ctx, stop := context.WithTimeout(t.Context(), time.Hour)
			want(t, "Lock of "+name, other.Lock(ctx, "a"), context.DeadlineExceeded)
			stop()
		}
		synctest.Wait() // the client leaves the wait queue in the background
		want(t, "renew", mine.RenewLockLease(t.Context(), "a", time.Minute), nil)
		want(t, "renew of another process", theirs.RenewLockLease(t.Context(), "a", time.Minute), holdfast.ErrNotHeld)
		want(t, "unlock by another process", theirs.Unlock(t.Context(), "a"), holdfast.ErrNotHeld)
		want(t, "unlock", mine.Unlock(t.Context(), "a"), nil)
		want(t, "second unlock", mine.Unlock(t.Context(), "a"), holdfast.ErrNotHeld)
		ok, err := theirs.TryLock(t.Context(), "a")
		assert.True(t, ok && err == nil, "TryLock of a free lock: %v, %v", ok, err)
		want(t, "unlock", theirs.Unlock(t.Context(), "a"), nil)
	})
}

func TestALostLockOfAStorageKeepsItsProcessOutUntilItsUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memstore.New()
		storage, client := newStorage(t, server)
		want(t, "lock", storage.Lock(t.Context(), "a"), nil)
		evict(t, client)
		second := make(chan error, 1)
		go func() { second <- storage.Lock(t.Context(), "a") }()
		synctest.Wait()
		assert.True(t, len(second) == 0, "a second goroutine has the lock before the first one's Unlock")
		want(t, "unlock of a lost lock", storage.Unlock(t.Context(), "a"), nil)
		want(t, "second lock", <-second, nil)
		state, err := client.Holders(t.Context(), "certmagic/a")
		assert.True(t, state.Held() && err == nil, "held %v, %v", state.Held(), err)
		want(t, "unlock", storage.Unlock(t.Context(), "a"), nil)
	})
}

func TestAnUnlockWithoutAnAnswerGivesTheTurnAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memstore.New()
		storage, _ := newStorage(t, server)
		want(t, "lock", storage.Lock(t.Context(), "a"), nil)
		resume := server.Stall()
		want(t, "unlock", storage.Unlock(t.Context(), "a"), holdfast.ErrUnknownOutcome)
		resume()
		want(t, "the next lock", storage.Lock(t.Context(), "a"), nil)
		want(t, "unlock", storage.Unlock(t.Context(), "a"), nil)
	})
}

func TestALockThatFailedGivesTheTurnAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memstore.New()
		mine, _ := newStorage(t, server)
		theirs, _ := newStorage(t, server)
		want(t, "lock", theirs.Lock(t.Context(), "a"), nil)
		impatient, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- mine.Lock(impatient, "a") }()
		synctest.Wait()
		patient, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		go func() { second <- mine.Lock(patient, "a") }()
		want(t, "the first lock", <-first, context.DeadlineExceeded)
		want(t, "unlock", theirs.Unlock(t.Context(), "a"), nil)
		want(t, "the second lock", <-second, nil)
		want(t, "unlock", mine.Unlock(t.Context(), "a"), nil)
	})
}

func evict(t *testing.T, client *holdfast.Client) {
	t.Helper()
	n, err := client.Evict(t.Context(), "certmagic/a", holdfast.Eviction{By: "a test", Reason: "to lose it"})
	assert.MustTrue(t, n == 1 && err == nil, "evicted %d: %v", n, err)
}

func TestARenewalOfALostLockAcquiresItAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memstore.New()
		mine, client := newStorage(t, server)
		theirs, _ := newStorage(t, server)
		want(t, "lock", mine.Lock(t.Context(), "a"), nil)
		evict(t, client)
		want(t, "lock of the other process", theirs.Lock(t.Context(), "a"), nil)

		impatient, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		want(t, "renew beside it", mine.RenewLockLease(impatient, "a", 0), context.DeadlineExceeded)
		renewed := make(chan error, 1)
		go func() { renewed <- mine.RenewLockLease(t.Context(), "a", 0) }()
		synctest.Wait()
		assert.True(t, len(renewed) == 0, "the renewal has ended beside the other process")
		want(t, "unlock of the other process", theirs.Unlock(t.Context(), "a"), nil)
		want(t, "renew", <-renewed, nil)
		ok, err := theirs.TryLock(t.Context(), "a")
		assert.True(t, !ok && err == nil, "TryLock after the renewal: %v, %v", ok, err)
		want(t, "unlock", mine.Unlock(t.Context(), "a"), nil)
		ok, err = theirs.TryLock(t.Context(), "a")
		assert.True(t, ok && err == nil, "TryLock after the unlock: %v, %v", ok, err)
	})
}

func TestAnUnlockDuringARenewalLeavesNothingHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memstore.New()
		mine, client := newStorage(t, server)
		theirs, _ := newStorage(t, server)
		want(t, "lock", mine.Lock(t.Context(), "a"), nil)
		evict(t, client)
		want(t, "lock of the other process", theirs.Lock(t.Context(), "a"), nil)
		renewed := make(chan error, 1)
		go func() { renewed <- mine.RenewLockLease(t.Context(), "a", 0) }()
		synctest.Wait()
		want(t, "unlock", mine.Unlock(t.Context(), "a"), nil)
		want(t, "unlock of the other process", theirs.Unlock(t.Context(), "a"), nil)
		want(t, "renew", <-renewed, holdfast.ErrNotHeld)
		ok, err := theirs.TryLock(t.Context(), "a")
		assert.True(t, ok && err == nil, "TryLock after it: %v, %v", ok, err)
	})
}
