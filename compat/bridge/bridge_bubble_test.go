package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/bridge"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
)

const ttl = 10 * time.Second

// world has the servers of both forms. In these tests the old form is a native lock on another server:
// the bridge sees mutexes only. tests/integrate has those of other libraries.
type world struct {
	t           *testing.T
	old, native *memstore.Store
}

func newWorld(t *testing.T) *world { return &world{t, memstore.New(), memstore.New()} }

func (w *world) client(s *memstore.Store) *holdfast.Client {
	w.t.Helper()
	client, err := holdfast.New(s, holdfast.Config{TTL: ttl})
	assert.Must(w.t, err)
	w.t.Cleanup(client.Abandon)
	return client
}

// instance is a lock of one process.
func (w *world) instance(stage bridge.Stage) *bridge.Mutex {
	return bridge.New(stage, w.client(w.old).Mutex("a"), w.client(w.native).Mutex("a"))
}

func (w *world) lock(m *bridge.Mutex) *bridge.Lease {
	w.t.Helper()
	lease, err := m.Lock(w.t.Context())
	assert.Must(w.t, err)
	return lease
}

// wantFree asserts that every form is free.
func (w *world) wantFree() {
	w.t.Helper()
	for _, stage := range []bridge.Stage{bridge.Old, bridge.Native} {
		lease, err := w.instance(stage).TryLock(w.t.Context())
		if err != nil {
			w.t.Errorf("the form %v: %v", stage, err)
			continue
		}
		_ = lease.Release(w.t.Context())
	}
}

func (w *world) evict(s *memstore.Store) {
	w.t.Helper()
	e := holdfast.Eviction{By: "a test", Reason: "to see what happens"}
	n, err := w.client(s).Evict(w.t.Context(), "a", e)
	assert.MustTrue(w.t, n == 1 && err == nil, "evicted %d: %v", n, err)
}

func want(t *testing.T, what string, err, wanted error) {
	t.Helper()
	assert.True(t, errors.Is(err, wanted), "%s: %v, want %v", what, err, wanted)
}

func TestStagesThatAreNextToEachOtherExcludeEachOther(t *testing.T) {
	for _, c := range []struct {
		holder, other bridge.Stage
		excludes      bool
	}{
		{bridge.Old, bridge.Old, true}, {bridge.Old, bridge.Both, true},
		{bridge.Both, bridge.Old, true}, {bridge.Both, bridge.Both, true}, {bridge.Both, bridge.Native, true},
		{bridge.Native, bridge.Both, true}, {bridge.Native, bridge.Native, true},
		{bridge.Old, bridge.Native, false}, // so these two are never deployed together
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			lease := w.lock(w.instance(c.holder))
			other, err := w.instance(c.other).TryLock(t.Context())
			assert.True(t, errors.Is(err, holdfast.ErrHeld) == c.excludes, "%v beside %v: %v", c.other, c.holder, err)
			if err == nil {
				want(t, "release", other.Release(t.Context()), nil)
			}
			want(t, "release", lease.Release(t.Context()), nil)
			w.wantFree()
		})
	}
}

func TestEitherLossEndsTheLeaseAndTheOtherHalfStaysUntilItsRelease(t *testing.T) {
	for _, which := range []string{"old", "native"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			lost, kept := w.old, w.native
			if which == "native" {
				lost, kept = w.native, w.old
			}
			lease := w.lock(w.instance(bridge.Both))
			if lease.Token() == 0 || lease.Remaining() <= 0 || lease.Err() != nil || lease.Context().Err() != nil {
				t.Errorf("%d, %v, %v, %v", lease.Token(), lease.Remaining(), lease.Err(), lease.Context().Err())
			}
			of, ok := holdfast.LeaseOf(lease.Context())
			assert.True(t, ok && of.Token == lease.Token(), "the context is of %+v", of)
			w.evict(lost)
			<-lease.Context().Done()
			want(t, "the cause", context.Cause(lease.Context()), holdfast.ErrLost)
			want(t, "the lease", lease.Err(), holdfast.ErrLost)
			assert.True(t, lease.Remaining() == 0, "%v remain", lease.Remaining())
			time.Sleep(3 * ttl) // the work takes a while to stop
			state, err := w.client(kept).Holders(t.Context(), "a")
			assert.True(t, state.Held() && err == nil, "the other half is held: %v, %v", state.Held(), err)
			want(t, "release", lease.Release(t.Context()), holdfast.ErrNotHeld)
			want(t, "the cause after the release", context.Cause(lease.Context()), holdfast.ErrLost)
			want(t, "the lease after the release", lease.Err(), holdfast.ErrLost)
			w.wantFree()
		})
	}
}

func TestALockWhoseOldHalfIsLostWhileItWaitsBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		after := w.lock(w.instance(bridge.Native))
		got := make(chan *bridge.Lease)
		go func() { got <- w.lock(w.instance(bridge.Both)) }()
		synctest.Wait() // it has the old form
		w.evict(w.old)
		time.Sleep(ttl)
		state, err := w.client(w.old).Holders(t.Context(), "a")
		assert.True(t, state.Held() && err == nil, "the old form is held again: %v, %v", state.Held(), err)
		want(t, "release", after.Release(t.Context()), nil)
		lease := <-got
		want(t, "the lease", lease.Err(), nil)
		want(t, "release", lease.Release(t.Context()), nil)
		w.wantFree()
	})
}

func TestALockThatGivesUpHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, stage := range []bridge.Stage{bridge.Old, bridge.Native} {
			holder := w.lock(w.instance(stage))
			ctx, stop := context.WithTimeout(t.Context(), time.Hour)
			_, err := w.instance(bridge.Both).Lock(ctx)
			stop()
			want(t, "the wait", err, context.DeadlineExceeded)
			_, err = w.instance(bridge.Both).TryLock(t.Context())
			want(t, "the try", err, holdfast.ErrHeld)
			want(t, "release", holder.Release(t.Context()), nil)
			synctest.Wait() // the client leaves the wait queue in the background
			w.wantFree()
		}
	})
}

// The end of the caller's context is told as such, also if a limit of the wait is longer.
func TestADeadlineBeforeTheLimitOfTheWaitIsADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.lock(w.instance(bridge.Native))
		limited := w.client(w.native).Mutex("a", holdfast.MaxWait(time.Hour))
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		_, err := bridge.New(bridge.Both, w.client(w.old).Mutex("a"), limited).Lock(ctx)
		want(t, "the wait", err, context.DeadlineExceeded)
	})
}

func TestALockThatGivesUpSaysWhyTheNativeFormFailed(t *testing.T) {
	for name, c := range map[string]struct {
		end  error
		wait func(context.Context) (context.Context, context.CancelFunc)
	}{
		"deadline": {context.DeadlineExceeded, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Minute)
		}},
		"cancel": {context.Canceled, func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, stop := context.WithCancel(ctx)
			time.AfterFunc(time.Minute, stop)
			return ctx, stop
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			ctx, stop := c.wait(t.Context())
			defer stop()
			w.native.FailRequest(func(string, []string) error {
				return &holdfast.ServerError{Code: "LOADING", Message: "LOADING the dataset"}
			})
			_, err := w.instance(bridge.Both).Lock(ctx)
			want(t, name, err, c.end)
			assert.Contains(t, fmt.Sprint(err), "LOADING the dataset")
			assert.Contains(t, holdfast.Hint(err), "loading its data")
		})
	}
}

func TestALockUnderItsOwnLeaseIsADeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, stage := range []bridge.Stage{bridge.Old, bridge.Both, bridge.Native} {
			m := w.instance(stage)
			want(t, "do", m.Do(t.Context(), func(ctx context.Context) error {
				_, err := m.Lock(ctx)
				return err
			}), holdfast.ErrDeadlock)
			w.wantFree()
		}
	})
}

func TestDoReleasesBothHalvesWhateverHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.instance(bridge.Both)
		failed := errors.New("failed")
		err := m.Do(t.Context(), func(context.Context) error { return failed })
		if err != failed { //nolint:errorlint // the error itself
			t.Errorf("the error is %v", err)
		}
		w.wantFree()
		func() {
			defer func() { _ = recover() }()
			_ = m.Do(t.Context(), func(context.Context) error { panic("a bug") })
		}()
		w.wantFree()
		ctx, stop := context.WithCancel(t.Context())
		want(t, "do", m.Do(ctx, func(ctx context.Context) error {
			stop()
			<-ctx.Done()
			return context.Cause(ctx)
		}), context.Canceled)
		w.wantFree()
		want(t, "do", m.Do(t.Context(), func(ctx context.Context) error {
			w.evict(w.old)
			<-ctx.Done()
			return nil
		}), holdfast.ErrNotHeld)
		w.wantFree()
	})
}

func TestExtendLengthensBothHalves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		lease := w.lock(w.instance(bridge.Both))
		want(t, "extend", lease.Extend(t.Context(), time.Hour), nil)
		for _, s := range []*memstore.Store{w.old, w.native} {
			state, err := w.client(s).Holders(t.Context(), "a")
			assert.True(t, err == nil && state.Held() && state.Holders[0].Remaining == time.Hour, "%+v, %v", state, err)
		}
		want(t, "release", lease.Release(t.Context()), nil)
		want(t, "second release", lease.Release(t.Context()), holdfast.ErrReleased)
		want(t, "the cause", context.Cause(lease.Context()), holdfast.ErrReleased)
	})
}

// work counts the holders of each form that work at a time.
type work struct {
	mu     sync.Mutex
	inside map[bridge.Stage]int
	bad    error
}

func (wk *work) add(stage bridge.Stage, n int) {
	wk.mu.Lock()
	defer wk.mu.Unlock()
	for _, form := range []bridge.Stage{bridge.Old, bridge.Native} {
		if stage == form || stage == bridge.Both {
			if wk.inside[form] += n; wk.inside[form] > 1 {
				wk.bad = fmt.Errorf("%d work under the form %v", wk.inside[form], form)
			}
		}
	}
}

// fleet lets instances of the stages work, several times each.
func (w *world) fleet(stages ...bridge.Stage) {
	wk := &work{inside: map[bridge.Stage]int{}}
	var running sync.WaitGroup
	for _, stage := range stages {
		m := w.instance(stage)
		running.Go(func() {
			for range 3 {
				lease, err := m.Lock(w.t.Context())
				if err != nil {
					w.t.Errorf("%v: %v", stage, err)
					return
				}
				wk.add(stage, 1)
				select {
				case <-time.After(time.Second):
				case <-lease.Context().Done():
				}
				wk.add(stage, -1)
				_ = lease.Release(w.t.Context()) // the fault may have hit it
			}
		})
	}
	running.Wait()
	assert.NoError(w.t, wk.bad)
}

// loseNth loses the nth request to the servers, or its reply. asked ends that, and says how many there
// were.
func (w *world) loseNth(n int, reply bool) (asked func() int) {
	var mu sync.Mutex
	count := 0
	lose := func(string, []string) error {
		mu.Lock()
		defer mu.Unlock()
		if count++; count == n {
			return errNoAnswer
		}
		return nil
	}
	for _, s := range []*memstore.Store{w.old, w.native} {
		if reply {
			s.LoseReply(lose)
		} else {
			s.FailRequest(lose)
		}
	}
	return func() int {
		for _, s := range []*memstore.Store{w.old, w.native} {
			s.FailRequest(nil)
			s.LoseReply(nil)
		}
		mu.Lock()
		defer mu.Unlock()
		return count
	}
}

var errNoAnswer = errors.New("the connection broke")

// Whichever request or reply is lost, of either form, by a fleet during a deploy: nobody works
// beside another, everybody gets the lock in the end, and nothing stays held.
func TestALostRequestOrReplyLetsNobodyInAndBlocksNobody(t *testing.T) {
	for _, stages := range [][]bridge.Stage{
		{bridge.Old, bridge.Both, bridge.Both, bridge.Old}, {bridge.Both, bridge.Native, bridge.Both, bridge.Native},
	} {
		for _, replies := range []bool{false, true} {
			hit := true
			for n := 1; hit; n++ {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					asked := w.loseNth(n, replies)
					w.fleet(stages...)
					hit = asked() >= n
					time.Sleep(2 * ttl)
					w.wantFree()
				})
				assert.MustTrue(t, n != 400, "the requests do not end")
			}
		}
	}
}
