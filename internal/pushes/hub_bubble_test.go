package pushes

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

	"github.com/holdfast-go/holdfast/internal/assert"
)

var errRefused = errors.New("refused")

// feed is a server to subscribe to.
type feed struct {
	confirm time.Duration // how long a subscription takes
	silent  bool          // it never confirms
	err     error

	mu      sync.Mutex
	made    int
	stopped int
	strays  []uint64
	message func(string)
	resumed func()
}

func (f *feed) listen(ctx context.Context, _ string, message func(string), resumed func()) (func(), error) {
	if f.silent {
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

func (f *feed) onStray(number uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.strays = append(f.strays, number)
}

func TestAPushForNoWaiterIsReported(t *testing.T) {
	bubble(t, func(t *testing.T, feed *feed, h *Hub) {
		gone, err := h.Subscribe(t.Context(), "c", 7)
		assert.Must(t, err)
		w, err := h.Subscribe(t.Context(), "c", 8)
		assert.Must(t, err)
		h.Forget(gone)
		feed.message("7 1")
		feed.message("8 1")
		feed.message("what is this")
		if g := <-w.Granted; g.Token != 1 || len(feed.strays) != 1 || feed.strays[0] != 7 {
			t.Errorf("granted %+v, strays %v", g, feed.strays)
		}
		h.Forget(w)
	})
}

// read parses "NUMBER TOKEN" as a push.
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
		h := New(feed.listen, read, feed.onStray, 3*time.Second, 10*time.Second)
		t.Cleanup(h.Stop)
		f(t, feed, h)
	})
}

// subscribed registers a waiter on a channel.
func subscribed(t *testing.T, h *Hub, channel string, number uint64) *Waiter {
	t.Helper()
	w, err := h.Subscribe(t.Context(), channel, number)
	assert.Must(t, err)
	return w
}

// What a waiter has not taken is dropped before it polls, but for a grant.
func TestAWaiterThatPollsForgetsWhatItWasTold(t *testing.T) {
	bubble(t, func(t *testing.T, feed *feed, h *Hub) {
		assert.False(t, h.Active(), "a hub that nobody has used is active")
		w := subscribed(t, h, "c", 1)
		h.read = func(payload string) (uint64, Grant, bool) {
			return 1, Grant{Token: 5, Later: payload == "later", Left: time.Second}, true
		}
		feed.message("later")
		feed.message("later") // the first is enough
		feed.message("granted")
		feed.message("granted")
		feed.resumed()
		w.Drain()
		w.Drain()
		select {
		case <-w.Resumed:
			t.Error("it is still to poll")
		case left := <-w.FreeIn:
			t.Errorf("it was still told of %v", left)
		case g := <-w.Granted:
			assert.Equal(t, g.Token, 5, "granted %+v", g)
		}
		if waiters, subscriptions := h.Count(); waiters != 1 || subscriptions != 1 || !h.Active() {
			t.Errorf("%d waiters, %d subscriptions, active: %t", waiters, subscriptions, h.Active())
		}
		h.Forget(w)
		if waiters, _ := h.Count(); waiters != 0 {
			t.Errorf("%d waiters", waiters)
		}
	})
}

func TestManyWaitersShareOneSubscription(t *testing.T) {
	bubble(t, func(t *testing.T, feed *feed, h *Hub) {
		feed.confirm = time.Second
		var all sync.WaitGroup
		for n := range uint64(100) {
			all.Go(func() {
				if _, err := h.Subscribe(t.Context(), "channel", n); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		assert.True(t, h.Await("channel", 100) == nil, "it may wait before the server confirmed")
		all.Wait()
		if feed.made != 1 || h.Await("channel", 101) == nil || h.Await("another", 102) != nil {
			t.Errorf("%d subscriptions", feed.made)
		}
	})
}

func TestASubscriptionOutlivesItsFirstWaiter(t *testing.T) {
	bubble(t, func(t *testing.T, feed *feed, h *Hub) {
		feed.confirm = 2 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.Subscribe(ctx, "channel", 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after the end of its context: %v", err)
		}
		if _, err := h.Subscribe(t.Context(), "channel", 2); err != nil || feed.made != 1 {
			t.Errorf("%v after %d subscriptions", err, feed.made)
		}
	})
}

func TestAWaiterWithoutASubscriptionGetsItWhenItIsConfirmed(t *testing.T) {
	bubble(t, func(t *testing.T, feed *feed, h *Hub) {
		feed.confirm = 2 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.Subscribe(ctx, "channel", 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after the end of its context: %v", err)
		}
		w, other := h.Unsubscribed("channel", 1), h.Unsubscribed("another", 2)
		w = h.Replace(w, 3)
		told := make(chan error, 2)
		h.Prepare("channel", func(err error) { told <- err })
		assert.False(t, h.Reaches(w), "a push reaches it before the server confirmed")
		if err := <-told; err != nil || feed.made != 1 {
			t.Errorf("%v, %d subscriptions", err, feed.made)
		}
		if !h.Reaches(w) || len(w.Resumed) != 1 || h.Reaches(other) || len(other.Resumed) != 0 {
			t.Errorf("%d and %d were told to look", len(w.Resumed), len(other.Resumed))
		}
		h.Prepare("channel", func(err error) { told <- err })
		if err := <-told; err != nil || feed.made != 1 {
			t.Errorf("for one that stands: %v, %d subscriptions", err, feed.made)
		}
		feed.message("3 71")
		if g := <-w.Granted; g.Token != 71 {
			t.Errorf("token %d", g.Token)
		}
		h.Forget(other)
		time.Sleep(time.Minute)
		assert.Equal(t, feed.stopped, 0, "the channel was left while somebody waited")
		h.Forget(w)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, feed.stopped, 1, "the channel was not left")
	})
}

func TestAWaiterThatComesAfterTheSubscriptionHasIt(t *testing.T) {
	bubble(t, func(t *testing.T, feed *feed, h *Hub) {
		other := subscribed(t, h, "channel", 1)
		w := h.Unsubscribed("channel", 2) // it was made after the caller had given up
		assert.MustTrue(t, h.Reaches(w), "no push reaches it, and nothing will change that")
		h.Forget(other)
		time.Sleep(time.Minute)
		feed.message("2 71")
		if feed.stopped != 0 || len(w.Granted) != 1 {
			t.Errorf("%d pushes, %d subscriptions ended", len(w.Granted), feed.stopped)
		}
		h.Forget(w)
	})
}

func TestPrepareReportsARefusal(t *testing.T) {
	bubble(t, func(t *testing.T, feed *feed, h *Hub) {
		feed.err = errRefused
		told := make(chan error, 1)
		h.Prepare("channel", func(err error) { told <- err })
		assert.Is(t, <-told, errRefused)
		feed.confirm = time.Second
		h.Prepare("channel", func(err error) { told <- err })
		synctest.Wait()
		h.Stop()
		h.Prepare("channel", func(err error) { told <- err })
		if len(told) != 0 {
			t.Errorf("after Stop: %v", <-told)
		}
	})
}

func TestAFailedSubscriptionIsTriedAgainByTheNextCaller(t *testing.T) {
	bubble(t, func(t *testing.T, feed *feed, h *Hub) {
		feed.err = errRefused
		_, err := h.Subscribe(t.Context(), "channel", 1)
		assert.True(t, errors.Is(err, errRefused) && h.Await("channel", 1) == nil,
			"got %v, want errRefused, and no waiter", err)
		feed.err = nil
		if _, err := h.Subscribe(t.Context(), "channel", 1); err != nil || h.Await("channel", 2) == nil {
			t.Errorf("the second time: %v", err)
		}
	})
}

func TestASubscriptionThatIsNeverConfirmedEndsWithItsTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, feed *feed, h *Hub) {
		feed.silent = true
		start := time.Now()
		_, err := h.Subscribe(t.Context(), "channel", 1)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestAPushReachesTheAttemptItIsForAndNobodyElse(t *testing.T) {
	bubble(t, func(t *testing.T, feed *feed, h *Hub) {
		old := subscribed(t, h, "channel", 0)
		feed.message("1 70") // nobody waits yet: the answer to the request will say it
		one, two := h.Replace(old, 1), h.Await("channel", 2)
		for _, payload := range []string{"2 71", "2 71", "0 72", "3 72", "not a push", ""} {
			feed.message(payload)
		}
		if g := <-two.Granted; g.Token != 71 {
			t.Errorf("token %d", g.Token)
		}
		if len(one.Granted)+len(two.Granted)+len(old.Granted) != 0 {
			t.Error("a push was delivered to somebody else, or twice")
		}
		h.Forget(one)
		feed.message("1 73")
		assert.Equal(t, len(one.Granted), 0, "a push reached who had given up")
	})
}

func TestAfterABreakOfTheSubscriptionItsWaitersPoll(t *testing.T) {
	bubble(t, func(t *testing.T, feed *feed, h *Hub) {
		other := subscribed(t, h, "another", 100)
		waiters := []*Waiter{subscribed(t, h, "channel", 0)}
		for n := range uint64(10) {
			waiters = append(waiters, h.Await("channel", n+1))
		}
		feed.resumed()
		feed.resumed()
		for i, w := range waiters {
			if len(w.Resumed) != 1 || len(w.Granted) != 0 {
				t.Errorf("waiter %d: told %d times", i, len(w.Resumed))
			}
		}
		assert.Equal(t, len(other.Resumed), 0, "a waiter was told to poll whose subscription did not break")
	})
}

func TestAnIdleChannelIsUnsubscribed(t *testing.T) {
	bubble(t, func(t *testing.T, feed *feed, h *Hub) {
		one := subscribed(t, h, "channel", 1)
		two := h.Await("channel", 2)
		h.Forget(one)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.MustEqual(t, feed.stopped, 0, "it was left while somebody waited")
		for range 100 { // a contended lock
			h.Forget(two)
			time.Sleep(9 * time.Second)
			if two = h.Await("channel", 2); two == nil {
				t.Fatal("it was left at once")
			}
		}
		h.Forget(two)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if feed.made != 1 || feed.stopped != 1 || h.Await("channel", 3) != nil {
			t.Errorf("%d made, %d stopped", feed.made, feed.stopped)
		}
		h.Forget(subscribed(t, h, "channel", 4))
		assert.Equal(t, feed.made, 2, "subscriptions")
	})
}

func TestALateSubscriptionThatNobodyWaitsForIsUnsubscribed(t *testing.T) {
	bubble(t, func(t *testing.T, feed *feed, h *Hub) {
		feed.confirm = 2 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.Subscribe(ctx, "channel", 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.True(t, feed.made == 1 && feed.stopped == 1, "%d made, %d stopped", feed.made, feed.stopped)
	})
}

func TestAHubWithoutAnIdleTimeoutKeepsItsChannels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		feed := &feed{}
		h := New(feed.listen, read, feed.onStray, 3*time.Second, 0)
		defer h.Stop()
		h.Forget(subscribed(t, h, "channel", 1))
		time.Sleep(time.Hour)
		assert.Equal(t, feed.stopped, 0, "it was left")
	})
}

func TestStopWaitsForWhatIsUnderWayAndEndsEverySubscription(t *testing.T) {
	bubble(t, func(t *testing.T, feed *feed, h *Hub) {
		for n := range uint64(3) {
			subscribed(t, h, fmt.Sprint("channel ", n), n)
		}
		feed.confirm = time.Second
		go func() { _, _ = h.Subscribe(t.Context(), "late", 3) }()
		synctest.Wait()
		h.Stop()
		assert.True(t, feed.made == 4 && feed.stopped == 4, "%d made, %d stopped", feed.made, feed.stopped)
		if _, err := h.Subscribe(t.Context(), "channel", 4); err == nil || feed.made != 4 {
			t.Errorf("a stopped hub subscribed: %v", err)
		}
		h.Stop()
		assert.Equal(t, feed.stopped, 4, "subscriptions that were stopped")
	})
}
