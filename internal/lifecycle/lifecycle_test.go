package lifecycle_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/label"
	"github.com/holdfast-go/holdfast/internal/lifecycle"
)

// ended is a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestCallsAndWorkAreWaitedForInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := lifecycle.New()
		assert.MustTrue(t, g.BeginCall() && !g.IsClosing(), "a new group takes no call")
		assert.True(t, g.Close() && !g.Close(), "only the first Close says that it is the first")
		assert.True(t, !g.BeginCall() && g.IsClosing(), "a call began behind Close")
		waited, finish := make(chan struct{}), make(chan struct{})
		go func() {
			g.Wait(t.Context())
			close(waited)
		}()
		synctest.Wait()
		assert.True(t, g.Go(label.Caller, func() { <-finish }), "a call under way could leave nothing behind")
		g.EndCall()
		synctest.Wait()
		assert.False(t, g.Go(label.Caller, func() {}), "work began when no call was left")
		select {
		case <-waited:
			t.Error("Wait did not wait for the background")
		default:
		}
		assert.True(t, g.Context().Err() == nil, "the context ended before the work")
		close(finish)
		<-waited
		assert.True(t, g.Context().Err() != nil, "the context outlived the group")
	})
}

func TestStopEndsTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := lifecycle.New()
		g.BeginCall() // and does not return
		g.Go(label.Caller, func() { <-g.Context().Done() })
		g.Stop()
		assert.False(t, g.Go(label.Caller, func() {}), "work began after Stop")
		g.Stop() // a second Stop has nothing to wait for
	})
}

// The last call may return between Close and Wait, and so may several calls. Each of them
// reports it, and none blocks.
func TestWaitFindsCallsThatHaveReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := lifecycle.New()
		g.BeginCall()
		g.BeginCall()
		g.Close()
		g.EndCall()
		g.BeginCall()
		g.EndCall()
		g.BeginCall()
		g.Wait(t.Context())
	})
}

func TestSleepEndsWithTheTimeTheContextOrTheGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := lifecycle.New()
		start := time.Now()
		assert.True(t, g.Sleep(t.Context(), time.Minute) && time.Since(start) == time.Minute,
			"a minute took %v", time.Since(start))
		assert.False(t, g.Sleep(ended(), time.Minute), "it slept though its context had ended")
		slept := make(chan bool)
		go func() { slept <- g.Sleep(t.Context(), time.Hour) }()
		synctest.Wait()
		g.Close()
		assert.False(t, <-slept, "it slept on while the group closed")
		select {
		case <-g.Closing():
		default:
			t.Error("Closing is open after Close")
		}
	})
}
