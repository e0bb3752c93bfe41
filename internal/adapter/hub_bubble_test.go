package adapter

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/slot"
	"github.com/holdfast-go/holdfast/store"
)

// errCut is the error of a broken connection in these tests.
var errCut = errors.New("cut")

// fakeNodes are the nodes of a test. For each session the test says what the node answers, and
// when the connection breaks.
type fakeNodes struct {
	feeds  chan *Feed // of each session that begins
	broken chan bool  // ends a session; true: its node has said something
}

func play() *fakeNodes { return &fakeNodes{make(chan *Feed, 10), make(chan bool)} }

func (nodes *fakeNodes) session(f *Feed) (bool, error) {
	nodes.feeds <- f
	select {
	case worked := <-nodes.broken:
		return worked, errCut
	case <-f.Context.Done():
		return true, f.Context.Err()
	}
}

// recorder is a listener that records its calls, and the result of its Listen.
type recorder struct {
	messages []string
	resumed  int
	missing  int
	stop     func() // nil until Listen has returned
	err      error
}

// startListen calls Listen in a goroutine.
func startListen(ctx context.Context, h *Hub, name string) *recorder {
	got := &recorder{}
	go func() {
		got.stop, got.err = h.Listen(ctx, name, store.Listener{
			Message: func(payload string) { got.messages = append(got.messages, payload) },
			Look: func(restored bool) {
				if restored {
					got.resumed++
				} else {
					got.missing++
				}
			},
		})
	}()
	synctest.Wait()
	return got
}

// confirmAll makes the node confirm everything that it is asked for, and returns that.
func confirmAll(f *Feed) (subscribe, unsubscribe []string) {
	subscribe, unsubscribe = f.Changes()
	for _, name := range subscribe {
		f.Confirmed(name)
	}
	for _, name := range unsubscribe {
		f.Unsubscribed(name)
	}
	synctest.Wait()
	return subscribe, unsubscribe
}

// hubBubble runs a test with a hub whose nodes the test plays.
func hubBubble(t *testing.T, f func(t *testing.T, nodes *fakeNodes, h *Hub)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		nodes := play()
		f(t, nodes, &Hub{Driver: Driver{Session: nodes.session}})
	})
}

// ended stops listeners, and confirms what the node is asked for then.
func ended(f *Feed, stops ...func()) {
	for _, stop := range stops {
		go stop()
	}
	synctest.Wait()
	confirmAll(f)
}

func TestNoListenerGetsAMessageBeforeItsSubscriptionIsConfirmed(t *testing.T) {
	hubBubble(t, func(t *testing.T, nodes *fakeNodes, h *Hub) {
		first := startListen(t.Context(), h, "a")
		f := <-nodes.feeds
		f.Deliver("a", "early")
		confirmAll(f)
		second := startListen(t.Context(), h, "a")
		f.Deliver("a", "in time")
		assert.True(t, slices.Equal(first.messages, []string{"in time"}) && first.stop != nil,
			"the first has heard %q, %v", first.messages, first.err)
		assert.True(t, slices.Equal(second.messages, []string{"in time"}) && second.stop != nil,
			"the second has heard %q, %v", second.messages, second.err)
		first.stop()
		ended(f, second.stop)
	})
}

// A message is being delivered to two listeners. The first one stops the second.
func TestAStoppedListenerGetsNothingMore(t *testing.T) {
	hubBubble(t, func(t *testing.T, nodes *fakeNodes, h *Hub) {
		var second *recorder
		var stop func()
		go func() {
			stop, _ = h.Listen(t.Context(), "a", store.Listener{Message: func(string) { second.stop() }})
		}()
		synctest.Wait()
		f := <-nodes.feeds
		confirmAll(f)
		second = startListen(t.Context(), h, "a")
		f.Deliver("a", "stop")
		assert.True(t, len(second.messages) == 0, "heard %q after its end", second.messages)
		ended(f, stop)
	})
}

func TestAListenerLooksWhenItsSubscriptionIsRestored(t *testing.T) {
	hubBubble(t, func(t *testing.T, nodes *fakeNodes, h *Hub) {
		got := startListen(t.Context(), h, "a")
		f := <-nodes.feeds
		confirmAll(f)
		nodes.broken <- true
		synctest.Wait()
		assert.False(t, f.HasConfirmed("a"), "a subscription stands without a connection")
		f = <-nodes.feeds
		if subscribe, _ := confirmAll(f); !slices.Equal(subscribe, []string{"a"}) || got.resumed != 1 {
			t.Errorf("the next connection subscribes to %q, and %d resumed", subscribe, got.resumed)
		}
		ended(f, got.stop)
	})
}

// A listener whose subscription stood, and cannot be restored, is told so once a second, whatever becomes of the tries.
func TestAListenerLooksWhileItsSubscriptionCannotBeRestored(t *testing.T) {
	for _, try := range []struct {
		takes  time.Duration
		worked bool
	}{{0, true}, {0, false}, {10 * time.Second, false}} {
		hubBubble(t, func(t *testing.T, nodes *fakeNodes, h *Hub) {
			got := startListen(t.Context(), h, "a")
			confirmAll(<-nodes.feeds)
			nodes.broken <- true
			tries, start := 0, time.Now()
			for ; time.Since(start) < time.Minute; tries++ {
				<-nodes.feeds
				time.Sleep(try.takes)
				nodes.broken <- try.worked
			}
			time.Sleep(time.Until(start.Add(70*time.Second + time.Millisecond)))
			synctest.Wait()
			assert.Equal(t, got.missing, 70, "told in 70 s")
			assert.AtMost(t, tries, 130, "tries in a minute")
			f := <-nodes.feeds
			confirmAll(f)
			time.Sleep(time.Minute)
			synctest.Wait()
			assert.True(t, got.resumed == 1 && got.missing == 70, "%d resumed, told %d times", got.resumed, got.missing)
			ended(f, got.stop)
		})
	}
}

// A subscription that is restored within a second is not missed.
func TestNobodyIsToldOfAShortBreak(t *testing.T) {
	hubBubble(t, func(t *testing.T, nodes *fakeNodes, h *Hub) {
		got := startListen(t.Context(), h, "a")
		confirmAll(<-nodes.feeds)
		nodes.broken <- true
		f := <-nodes.feeds
		confirmAll(f)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.True(t, got.resumed == 1 && got.missing == 0, "%d resumed, told %d times", got.resumed, got.missing)
		ended(f, got.stop)
	})
}

// stop waits for the end of a subscription, but not longer than stopTimeout.
func TestStopWaitsUntilTheServerHasUnsubscribed(t *testing.T) {
	for name, silent := range map[string]bool{"Answers": false, "Silent": true} {
		t.Run(name, func(t *testing.T) {
			hubBubble(t, func(t *testing.T, nodes *fakeNodes, h *Hub) {
				got := startListen(t.Context(), h, "a")
				f := <-nodes.feeds
				confirmAll(f)
				start, stopped := time.Now(), make(chan time.Duration, 1)
				go func() {
					got.stop()
					stopped <- time.Since(start)
				}()
				synctest.Wait()
				assert.MustTrue(t, len(stopped) == 0, "stop did not wait for the server")
				want := stopTimeout
				if !silent {
					want = 0
					if _, unsubscribe := confirmAll(f); !slices.Equal(unsubscribe, []string{"a"}) {
						t.Errorf("the node was asked to end %q", unsubscribe)
					}
				}
				assert.Equal(t, <-stopped, want, "stop took")
			})
		})
	}
}

func TestARefusedSubscriptionFailsAtOnce(t *testing.T) {
	hubBubble(t, func(t *testing.T, nodes *fakeNodes, h *Hub) {
		stands := startListen(t.Context(), h, "a")
		f := <-nodes.feeds
		confirmAll(f)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		refused := startListen(ctx, h, "b")
		f.Changes()
		assert.True(t, !f.SubscribeRefused("b", errCut),
			"the refusal of one channel takes the subscription of another")
		synctest.Wait()
		assert.Is(t, refused.err, errCut)
		if !f.HasConfirmed("a") || f.HasConfirmed("b") {
			t.Errorf("subscribed: a %v, b %v", f.HasConfirmed("a"), f.HasConfirmed("b"))
		}
		ended(f, stands.stop)
	})
}

// If a node ends a subscription of its own accord, it no longer serves the slot.
func TestAChannelFollowsItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := play()
		home, asked := "one", []bool(nil)
		h := &Hub{Driver: Driver{Session: nodes.session, Nodes: func(
			_ context.Context, channels []string, stale bool,
		) ([]string, error) {
			asked = append(asked, stale)
			return slices.Repeat([]string{home}, len(channels)), nil
		}}}
		got := startListen(t.Context(), h, "a")
		f := <-nodes.feeds
		confirmAll(f)
		home = "two"
		f.Unsubscribed("a")
		synctest.Wait()
		assert.MustTrue(t, len(nodes.feeds) != 0, "the channel stays where its slot was")
		if f = <-nodes.feeds; f.Node != "two" || !slices.Equal(asked, []bool{false, true}) {
			t.Errorf("it went to %s; asked with stale %v", f.Node, asked)
		}
		confirmAll(f)
		assert.True(t, got.resumed == 1, "it was told %d times", got.resumed)
		ended(f, got.stop)
	})
}

// A node refuses a channel whose slot has moved. The redirection names the channel, or only its slot. The
// channel goes to the named node, and others that wait for their confirmation stay.
func TestAChannelFollowsARedirection(t *testing.T) {
	for _, named := range []string{"a", ""} {
		synctest.Test(t, func(t *testing.T) {
			nodes := play()
			h := &Hub{Driver: Driver{Session: nodes.session, Nodes: func(
				_ context.Context, channels []string, _ bool,
			) ([]string, error) {
				return slices.Repeat([]string{"one"}, len(channels)), nil
			}}}
			moves, stays := startListen(t.Context(), h, "a"), startListen(t.Context(), h, "b")
			one := <-nodes.feeds
			one.Changes() // both are asked for
			one.Moved(named, slot.Of("a"), "two")
			synctest.Wait()
			assert.MustTrue(t, len(nodes.feeds) == 1, "named %q: the channel stays where its slot was", named)
			two := <-nodes.feeds
			assert.Equal(t, two.Node, "two", "the channel goes to")
			subscribe, _ := confirmAll(two)
			assert.EqualSlices(t, subscribe, []string{"a"}, "the new node is asked for")
			one.Confirmed("b")
			synctest.Wait()
			ended(two, moves.stop)
			ended(one, stays.stop)
		})
	}
}

// If a channel gets a new listener before UNSUBSCRIBE is sent, it remains subscribed.
func TestAChannelWithANewListenerStaysSubscribed(t *testing.T) {
	hubBubble(t, func(t *testing.T, nodes *fakeNodes, h *Hub) {
		first, other := startListen(t.Context(), h, "a"), startListen(t.Context(), h, "b")
		f := <-nodes.feeds
		confirmAll(f)
		go first.stop()
		synctest.Wait()
		second := startListen(t.Context(), h, "a")
		if subscribe, unsubscribe := confirmAll(f); !slices.Equal(subscribe, []string{"a"}) || len(unsubscribe) > 0 {
			t.Errorf("the node is asked to begin %q and to end %q", subscribe, unsubscribe)
		}
		f.Deliver("a", "x")
		assert.EqualSlices(t, second.messages, []string{"x"}, "heard")
		ended(f, second.stop, other.stop)
	})
}
