package quorum_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// requestTime is how long one request to a node may take by default.
const requestTime = 500 * time.Millisecond

// read asks all nodes for something that no node answers in time.
func read(ctx context.Context, s *quorum.Store) error {
	_, err := s.Run(ctx, script.CheckACL, []string{"holdfast:{x}"}, nil)
	return err
}

// lateWorld is a store whose nodes are all late, with as many requests under way to each of them as it
// lets through.
func lateWorld(t *testing.T, f func(t *testing.T, w *world, s *quorum.Store, all *sync.WaitGroup)) {
	t.Helper()
	bubble(t, func(t *testing.T, w *world) {
		for _, p := range w.peers {
			p.slow(2*requestTime, 0)
		}
		s := w.store()
		assert.True(t, errors.As(read(t.Context(), s), new(*quorum.NoMajorityError)), "the nodes are late")
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { _ = read(t.Context(), s) })
		}
		synctest.Wait()
		for _, p := range w.peers {
			assert.Equal(t, p.count("check_acl"), 3, "requests to %s", p.name)
		}
		f(t, w, s, &all)
		all.Wait()
	})
}

// A caller that gives up before its request was sent leaves no request behind.
func TestARequestForWhichNobodyWaitsIsNotSentToALateNode(t *testing.T) {
	lateWorld(t, func(t *testing.T, w *world, s *quorum.Store, all *sync.WaitGroup) {
		time.Sleep(requestTime / 2)
		ctx, cancel := context.WithCancel(t.Context())
		all.Go(func() {
			assert.Is(t, read(ctx, s), context.Canceled)
		})
		synctest.Wait()
		cancel()
		all.Wait()
		synctest.Wait()
		for _, p := range w.peers {
			assert.Equal(t, p.count("check_acl"), 3, "requests to %s", p.name)
		}
	})
}

// Close ends the requests under way, and with them those that wait for their turn.
func TestCloseWaitsForNoLateNode(t *testing.T) {
	lateWorld(t, func(t *testing.T, _ *world, s *quorum.Store, all *sync.WaitGroup) {
		all.Go(func() { _ = read(t.Context(), s) })
		synctest.Wait()
		start := time.Now()
		s.Close()
		assert.Equal(t, time.Since(start), 0, "Close waited for")
	})
}

// A request that was not sent is told from one that may have run, and counts as late.
func TestARequestThatHadToWaitTooLongWasNotSent(t *testing.T) {
	lateWorld(t, func(t *testing.T, w *world, s *quorum.Store, all *sync.WaitGroup) {
		// The two that wait take the places of the two that get no answer.
		time.Sleep(requestTime / 4)
		for range 2 {
			all.Go(func() { _ = read(t.Context(), s) })
		}
		synctest.Wait()
		time.Sleep(requestTime / 4)
		var few *quorum.NoMajorityError
		err := read(t.Context(), s)
		assert.MustTrue(t, errors.As(err, &few) && len(few.Missing) == len(w.peers), "%v", err)
		for _, why := range few.Missing {
			assert.True(t, errors.Is(why, store.ErrNotSent) && errors.Is(why, context.DeadlineExceeded),
				"%v, want one that was not sent, and is late", why)
		}
	})
}
