package wake

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var errRefused = errors.New("refused")

// feed is a server to subscribe to.
type feed struct {
	confirm time.Duration // how long a subscription takes
	deaf    bool          // it never confirms
	err     error

	mu      sync.Mutex
	made    int
	stopped int
	message func(string)
	resumed func()
}

func (f *feed) listen(ctx context.Context, _ string, message func(string), resumed func()) (func(), error) {
	if f.deaf {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	time.Sleep(f.confirm)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.made++
	if f.err != nil {
		return nil, f.err
	}
	f.message, f.resumed = message, resumed
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.stopped++
	}, nil
}

// read takes "NUMBER TOKEN" for a push.
func read(payload string) (uint64, Grant, bool) {
	number, token, found := strings.Cut(payload, " ")
	n, err := strconv.ParseUint(number, 10, 64)
	g, bad := strconv.ParseUint(token, 10, 64)
	return n, Grant{Token: g}, found && err == nil && bad == nil
}

func bubble(t *testing.T, f func(t *testing.T, feed *feed, h *Hub)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		feed := &feed{}
		h := New(feed.listen, read, 3*time.Second)
		t.Cleanup(h.Stop)
		f(t, feed, h)
	})
}

func TestManyWaitersShareOneSubscription(t *testing.T) {
	bubble(t, func(t *testing.T, feed *feed, h *Hub) {
		feed.confirm = time.Second
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if err := h.Subscribe(t.Context(), "channel"); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if h.Ready("channel") {
			t.Error("ready before the server confirmed")
		}
		all.Wait()
		if feed.made != 1 || !h.Ready("channel") || h.Ready("another") {
			t.Errorf("%d subscriptions, ready: %v", feed.made, h.Ready("channel"))
		}
	})
}

func TestASubscriptionOutlivesWhoAskedFirst(t *testing.T) {
	bubble(t, func(t *testing.T, feed *feed, h *Hub) {
		feed.confirm = 2 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := h.Subscribe(ctx, "channel"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after the end of its context: %v", err)
		}
		if err := h.Subscribe(t.Context(), "channel"); err != nil || feed.made != 1 {
			t.Errorf("%v after %d subscriptions", err, feed.made)
		}
	})
}

func TestAFailedSubscriptionIsTriedAgainByTheNextCaller(t *testing.T) {
	bubble(t, func(t *testing.T, feed *feed, h *Hub) {
		feed.err = errRefused
		if err := h.Subscribe(t.Context(), "channel"); !errors.Is(err, errRefused) || h.Ready("channel") {
			t.Errorf("got %v", err)
		}
		feed.err = nil
		if err := h.Subscribe(t.Context(), "channel"); err != nil || !h.Ready("channel") {
			t.Errorf("the second time: %v", err)
		}
	})
}

func TestASubscriptionThatIsNeverConfirmedEndsWithItsTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, feed *feed, h *Hub) {
		feed.deaf = true
		start := time.Now()
		err := h.Subscribe(t.Context(), "channel")
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestAPushReachesTheAttemptItIsForAndNobodyElse(t *testing.T) {
	bubble(t, func(t *testing.T, feed *feed, h *Hub) {
		if err := h.Subscribe(t.Context(), "channel"); err != nil {
			t.Fatal(err)
		}
		feed.message("1 70") // nobody waits yet: the answer to the request will say it
		one, two := h.Await(1), h.Await(2)
		for _, payload := range []string{"2 71", "2 71", "3 72", "not a push", ""} {
			feed.message(payload)
		}
		if g := <-two.Granted; g.Token != 71 {
			t.Errorf("token %d", g.Token)
		}
		if len(one.Granted)+len(two.Granted) != 0 {
			t.Error("a push was delivered to somebody else, or twice")
		}
		h.Forget(one)
		feed.message("1 73")
		if len(one.Granted) != 0 {
			t.Error("a push reached who had given up")
		}
	})
}

func TestABreakOfTheSubscriptionNudgesEveryWaiter(t *testing.T) {
	bubble(t, func(t *testing.T, feed *feed, h *Hub) {
		if err := h.Subscribe(t.Context(), "channel"); err != nil {
			t.Fatal(err)
		}
		var waiters []*Waiter
		for n := range uint64(10) {
			waiters = append(waiters, h.Await(n))
		}
		feed.resumed()
		feed.resumed()
		for i, w := range waiters {
			if len(w.Nudge) != 1 || len(w.Granted) != 0 {
				t.Errorf("waiter %d: %d nudges", i, len(w.Nudge))
			}
		}
	})
}

func TestStopWaitsForWhatIsUnderWayAndEndsEverySubscription(t *testing.T) {
	bubble(t, func(t *testing.T, feed *feed, h *Hub) {
		for n := range 3 {
			if err := h.Subscribe(t.Context(), fmt.Sprint("channel ", n)); err != nil {
				t.Fatal(err)
			}
		}
		feed.confirm = time.Second
		go func() { _ = h.Subscribe(t.Context(), "late") }()
		synctest.Wait()
		h.Stop()
		if feed.made != 4 || feed.stopped != 4 {
			t.Errorf("%d made, %d stopped", feed.made, feed.stopped)
		}
		if err := h.Subscribe(t.Context(), "channel"); err == nil || feed.made != 4 {
			t.Errorf("a stopped hub subscribed: %v", err)
		}
		h.Stop()
		if feed.stopped != 4 {
			t.Errorf("stopped %d times", feed.stopped)
		}
	})
}
