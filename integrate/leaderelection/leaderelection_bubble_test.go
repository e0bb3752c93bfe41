package leaderelection_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integrate/leaderelection"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
)

var eviction = holdfast.Eviction{By: "a test", Reason: "to see what happens"}

// history is what the candidates of a test did, in order.
type history struct {
	mu    sync.Mutex
	lines []string
}

func (h *history) add(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, line)
}

// want compares the history with lines, once everybody waits for something. What candidates see comes
// last: it is seen beside what they do.
func (h *history) want(t *testing.T, lines ...string) {
	t.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.SortStableFunc(h.lines, func(a, b string) int {
		return strings.Count(a, " sees ") - strings.Count(b, " sees ")
	})
	assert.True(t, slices.Equal(h.lines, lines), "it happened: %q\nwant: %q", h.lines, lines)
	h.lines = nil
}

type candidate struct {
	*leaderelection.LeaderElector
	client *holdfast.Client
	stop   context.CancelFunc
	ended  chan error
	finish chan struct{} // a value lets the callback return after its context has ended
}

// start runs a candidate whose callback returns a while after its context has ended.
func start(t *testing.T, s *memstore.Store, h *history, name string) *candidate {
	t.Helper()
	client, err := holdfast.New(s, holdfast.Config{})
	assert.Must(t, err)
	t.Cleanup(client.Abandon)
	c := &candidate{client: client, ended: make(chan error, 1), finish: make(chan struct{})}
	c.LeaderElector, err = leaderelection.New(leaderelection.Config{
		Election: client.Election("controller"), Identity: name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				h.add(name + " leads")
				<-ctx.Done()
				h.add(name + " is told")
				<-c.finish
				h.add(name + " has ended")
			},
			OnStoppedLeading: func() { h.add(name + " stopped") },
			OnNewLeader:      func(leader string) { h.add(name + " sees " + leader) },
		},
	})
	assert.Must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	c.stop = stop
	go func() { c.ended <- c.Run(ctx) }()
	synctest.Wait()
	return c
}

func (c *candidate) wantEnded(t *testing.T) {
	t.Helper()
	assert.NoError(t, <-c.ended)
	assert.False(t, c.IsLeader(), "leads after Run")
}

func TestALeaderResignsAfterItsCallbackHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := memstore.New(), &history{}
		a := start(t, s, h, "a")
		h.want(t, "a leads", "a sees a")
		b := start(t, s, h, "b")
		h.want(t, "b sees a")
		if !a.IsLeader() || b.IsLeader() || b.GetLeader() != "a" {
			t.Errorf("a leads: %v, b: %v, and b sees %q", a.IsLeader(), b.IsLeader(), b.GetLeader())
		}

		a.stop()
		time.Sleep(10 * time.Minute) // the callback takes much longer than the TTL
		h.want(t, "a is told")       // and b does not lead yet
		a.finish <- struct{}{}
		a.wantEnded(t)
		h.want(t, "a has ended", "a stopped", "b leads", "b sees b")
		b.stop()
		b.finish <- struct{}{}
		b.wantEnded(t)
		h.want(t, "b is told", "b has ended", "b stopped")
	})
}

func TestALeaderThatIsDeposedIsToldAndCampaignsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := memstore.New(), &history{}
		a := start(t, s, h, "a")
		b := start(t, s, h, "b")
		h.want(t, "a leads", "a sees a", "b sees a")
		atOnce := eviction
		atOnce.AtOnce = true
		assert.Must(t, assert.Err(b.client.Evict(t.Context(), "controller", atOnce)))
		synctest.Wait()
		assert.True(t, b.IsLeader(), "b does not lead after the eviction")
		time.Sleep(time.Minute) // a hears of it by its next renewal
		synctest.Wait()
		if a.IsLeader() || a.GetLeader() != "b" {
			t.Errorf("a leads: %v, and sees %q", a.IsLeader(), a.GetLeader())
		}
		a.finish <- struct{}{}
		time.Sleep(time.Minute) // it pauses before it campaigns again
		b.stop()
		b.finish <- struct{}{}
		b.wantEnded(t)
		synctest.Wait()
		assert.True(t, a.IsLeader(), "a does not lead again")
		a.stop()
		a.finish <- struct{}{}
		a.wantEnded(t)
	})
}

// The next term of the same leader is told to its work, and is no new leader to those that watch.
func TestALeaderThatLeadsAgainIsNoNewLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &history{}
		a := start(t, memstore.New(), h, "a")
		h.want(t, "a leads", "a sees a")
		assert.Must(t, assert.Err(a.client.Evict(t.Context(), "controller", eviction)))
		a.finish <- struct{}{}
		time.Sleep(time.Minute) // it pauses before it campaigns again
		h.want(t, "a is told", "a has ended", "a stopped", "a leads")
		a.stop()
		a.finish <- struct{}{}
		a.wantEnded(t)
	})
}

func TestALeaderWhoseWorkHasEndedLeadsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := holdfast.New(memstore.New(), holdfast.Config{})
		assert.Must(t, err)
		t.Cleanup(client.Abandon)
		h, ended := &history{}, make(chan error, 1)
		elector, err := leaderelection.New(leaderelection.Config{
			Election: client.Election("controller"), Identity: "a",
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { h.add("a leads") }},
		})
		assert.Must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		go func() { ended <- elector.Run(ctx) }()
		time.Sleep(time.Hour)
		h.want(t, "a leads")
		assert.True(t, elector.IsLeader(), "does not lead after its work has ended")
		stop()
		assert.NoError(t, <-ended)
	})
}

func TestACandidateThatNeverLedStopsWithoutCallbacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := memstore.New(), &history{}
		a := start(t, s, h, "a")
		h.want(t, "a leads", "a sees a")
		b := start(t, s, h, "b")
		b.stop()
		b.wantEnded(t)
		h.want(t, "b sees a")
		a.stop()
		a.finish <- struct{}{}
		a.wantEnded(t)
	})
}

func TestAClosedClientEndsTheElector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := memstore.New(), &history{}
		a := start(t, s, h, "a")
		assert.Must(t, a.client.Close(t.Context()))
		h.want(t, "a leads", "a is told", "a sees a")
		a.finish <- struct{}{}
		assert.Is(t, <-a.ended, holdfast.ErrClosed)
		h.want(t, "a has ended", "a stopped")
	})
}

// A program may recover the panic of a callback, and go on.
func TestNoCallbackRunsAfterOneHasPanicked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := memstore.New(), &history{}
		client, err := holdfast.New(s, holdfast.Config{})
		assert.Must(t, err)
		defer client.Abandon()
		elector, err := leaderelection.New(leaderelection.Config{
			Election: client.Election("controller"), Identity: "a",
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) {
					synctest.Wait() // it has seen itself
					panic("the work")
				},
				OnStoppedLeading: func() { h.add("a stopped") },
				OnNewLeader:      func(leader string) { h.add("a sees " + leader) },
			},
		})
		assert.Must(t, err)
		func() {
			defer func() { assert.Equal(t, recover(), "the work", "the panic of Run") }()
			_ = elector.Run(t.Context())
		}()
		h.want(t, "a stopped", "a sees a")
		b := start(t, s, h, "b")
		h.want(t, "b leads", "b sees b")
		b.stop()
		b.finish <- struct{}{}
		b.wantEnded(t)
	})
}

func TestAConfigThatCannotWorkIsRefused(t *testing.T) {
	client, err := holdfast.New(memstore.New(), holdfast.Config{})
	assert.Must(t, err)
	defer client.Abandon()
	work := leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}}
	for _, cfg := range []leaderelection.Config{
		{Callbacks: work, Identity: "a"}, {Election: client.Election("a"), Identity: "a"},
		{Election: client.Election("a"), Callbacks: work},
	} {
		assert.Is(t, assert.Err(leaderelection.New(cfg)), holdfast.ErrInvalid)
	}
	elector, err := leaderelection.New(leaderelection.Config{
		Election: client.Election(""), Callbacks: work, Identity: "a",
	})
	assert.Must(t, err)
	assert.Is(t, elector.Run(t.Context()), holdfast.ErrInvalid)
}
