package adapter

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// errCut is how the connections of these tests break.
var errCut = errors.New("cut")

// played are the nodes of a test. The test says for each of their sessions what its
// node says, and when the connection breaks.
type played struct {
	feeds  chan *Feed // of each session that begins
	broken chan bool  // ends a session; true: its node has said something
}

func play() *played { return &played{make(chan *Feed, 10), make(chan bool)} }

func (p *played) session(f *Feed) (bool, error) {
	p.feeds <- f
	select {
	case worked := <-p.broken:
		return worked, errCut
	case <-f.Context.Done():
		return true, f.Context.Err()
	}
}

// heard is what a listener of a test was told, and what its Listen came to.
type heard struct {
	messages []string
	resumed  int
	stop     func() // nil until Listen has returned
	err      error
}

// listening begins a Listen, which goes on in a goroutine.
func listening(ctx context.Context, h *Hub, name string) *heard {
	got := &heard{}
	go func() {
		got.stop, got.err = h.Listen(ctx, name, store.Listener{
			Message: func(payload string) { got.messages = append(got.messages, payload) },
			Resumed: func() { got.resumed++ },
		})
	}()
	synctest.Wait()
	return got
}

// confirm lets the node confirm all that it is asked for, and answers that.
func confirm(f *Feed) (came, went []string) {
	came, went = f.Changes()
	for _, name := range came {
		f.Confirmed(name)
	}
	for _, name := range went {
		f.Ended(name)
	}
	synctest.Wait()
	return came, went
}

func TestNobodyHearsAMessageBeforeTheSubscriptionStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play()
		h := &Hub{Wire: Wire{Session: p.session}}
		first := listening(t.Context(), h, "a")
		f := <-p.feeds
		f.Deliver("a", "early")
		confirm(f)
		second := listening(t.Context(), h, "a")
		f.Deliver("a", "in time")
		if !slices.Equal(first.messages, []string{"in time"}) || first.stop == nil {
			t.Errorf("the first has heard %q, %v", first.messages, first.err)
		}
		if !slices.Equal(second.messages, []string{"in time"}) || second.stop == nil {
			t.Errorf("the second has heard %q, %v", second.messages, second.err)
		}
		first.stop()
		go second.stop()
		synctest.Wait()
		confirm(f)
	})
}

// A message is on its way to two listeners. The first one stops the second.
func TestAStoppedListenerHearsNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play()
		h := &Hub{Wire: Wire{Session: p.session}}
		var second *heard
		var stop func()
		go func() {
			stop, _ = h.Listen(t.Context(), "a", store.Listener{Message: func(string) { second.stop() }})
		}()
		synctest.Wait()
		f := <-p.feeds
		confirm(f)
		second = listening(t.Context(), h, "a")
		f.Deliver("a", "stop")
		if len(second.messages) > 0 {
			t.Errorf("heard %q after its end", second.messages)
		}
		go stop()
		synctest.Wait()
		confirm(f)
	})
}

func TestASubscriptionThatStandsAgainIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play()
		h := &Hub{Wire: Wire{Session: p.session}}
		got := listening(t.Context(), h, "a")
		f := <-p.feeds
		confirm(f)
		p.broken <- true
		synctest.Wait()
		if f.Listens("a") {
			t.Error("a subscription stands without a connection")
		}
		f = <-p.feeds
		if came, _ := confirm(f); !slices.Equal(came, []string{"a"}) || got.resumed != 1 {
			t.Errorf("the next connection subscribes to %q, and %d resumed", came, got.resumed)
		}
		go got.stop()
		synctest.Wait()
		confirm(f)
	})
}

// The end of a subscription is waited for, but not for longer than a grace.
func TestStopWaitsUntilTheServerHasLetGo(t *testing.T) {
	for name, silent := range map[string]bool{"Answers": false, "Silent": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := play()
				h := &Hub{Wire: Wire{Session: p.session}}
				got := listening(t.Context(), h, "a")
				f := <-p.feeds
				confirm(f)
				start, stopped := time.Now(), make(chan time.Duration, 1)
				go func() {
					got.stop()
					stopped <- time.Since(start)
				}()
				synctest.Wait()
				if len(stopped) > 0 {
					t.Fatal("stop did not wait for the server")
				}
				want := grace
				if !silent {
					want = 0
					if _, went := confirm(f); !slices.Equal(went, []string{"a"}) {
						t.Errorf("the node was asked to end %q", went)
					}
				}
				if took := <-stopped; took != want {
					t.Errorf("stop took %v, not %v", took, want)
				}
			})
		})
	}
}

func TestARefusedSubscriptionFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play()
		h := &Hub{Wire: Wire{Session: p.session}}
		stands := listening(t.Context(), h, "a")
		f := <-p.feeds
		confirm(f)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		refused := listening(ctx, h, "b")
		f.Changes()
		if f.Refused("b", errCut) {
			t.Error("the refusal of one channel takes the subscription of another")
		}
		synctest.Wait()
		if !errors.Is(refused.err, errCut) {
			t.Errorf("the refused Listen: %v", refused.err)
		}
		if !f.Listens("a") || f.Listens("b") {
			t.Errorf("subscribed: a %v, b %v", f.Listens("a"), f.Listens("b"))
		}
		go stands.stop()
		synctest.Wait()
		confirm(f)
	})
}

// A node that ends a subscription of its own accord does not serve the slot any more.
func TestAChannelFollowsItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play()
		home, asked := "one", []bool(nil)
		h := &Hub{Wire: Wire{Session: p.session, Place: func(
			_ context.Context, channels []string, stale bool,
		) ([]string, error) {
			asked = append(asked, stale)
			return slices.Repeat([]string{home}, len(channels)), nil
		}}}
		got := listening(t.Context(), h, "a")
		f := <-p.feeds
		confirm(f)
		home = "two"
		f.Ended("a")
		synctest.Wait()
		if len(p.feeds) == 0 {
			t.Fatal("the channel stays where its slot was")
		}
		if f = <-p.feeds; f.Node != "two" || !slices.Equal(asked, []bool{false, true}) {
			t.Errorf("it went to %s; asked with stale %v", f.Node, asked)
		}
		if confirm(f); got.resumed != 1 {
			t.Errorf("it was told %d times", got.resumed)
		}
		go got.stop()
		synctest.Wait()
		confirm(f)
	})
}

// A channel that somebody listens to again, before its end was sent, is not left.
func TestAChannelThatComesBackIsNotLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play()
		h := &Hub{Wire: Wire{Session: p.session}}
		first, other := listening(t.Context(), h, "a"), listening(t.Context(), h, "b")
		f := <-p.feeds
		confirm(f)
		go first.stop()
		synctest.Wait()
		second := listening(t.Context(), h, "a")
		if came, went := confirm(f); !slices.Equal(came, []string{"a"}) || len(went) > 0 {
			t.Errorf("the node is asked to begin %q and to end %q", came, went)
		}
		f.Deliver("a", "x")
		if !slices.Equal(second.messages, []string{"x"}) {
			t.Errorf("heard %q", second.messages)
		}
		go second.stop()
		go other.stop()
		synctest.Wait()
		confirm(f)
	})
}
