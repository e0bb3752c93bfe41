package adapter

import (
	"context"
	"runtime"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/store"
)

// confirmingSession is a session with a node that confirms everything; it sends its feed to
// feeds.
func confirmingSession(feeds chan<- *Feed) func(*Feed) (bool, error) {
	return func(f *Feed) (bool, error) {
		feeds <- f
		for {
			subscribe, _ := f.Changes()
			for _, name := range subscribe {
				f.Confirmed(name)
			}
			select {
			case <-f.Wake:
			case <-f.Context.Done():
				return true, f.Context.Err()
			}
		}
	}
}

// A channel that loses its listeners while a connection is replaced is kept by the next
// connection, and ends with that one.
func TestAChannelDroppedWhileTheConnectionIsReplaced(t *testing.T) {
	feeds := make(chan *Feed, 1)
	h := &Hub{Driver: Driver{KeepsChannels: true, Session: confirmingSession(feeds)}}
	resumed := make(chan string, 10)
	stops := make(map[string]func())
	for _, name := range []string{"a", "b", "c"} {
		stop, err := h.Listen(t.Context(), name, store.Listener{Look: func(restored bool) {
			if restored {
				resumed <- name
			}
		}})
		assert.Must(t, err)
		stops[name] = stop
	}
	f := <-feeds
	assert.False(t, f.NeedsReplacement(), "worn before anything has gone")
	ended := make(chan string, 3)
	leave := func(name string) {
		go func() {
			stops[name]()
			ended <- name
		}()
		for {
			h.mu.Lock()
			kept := f.kept[name] != nil
			h.mu.Unlock()
			if kept {
				return
			}
			runtime.Gosched()
		}
	}
	leave("b")
	assert.True(t, f.NeedsReplacement(), "not worn though b has gone")
	names := f.Subscribed()
	slices.Sort(names)
	assert.MustTrue(t, slices.Equal(names, []string{"a", "c"}), "to be subscribed to: %q", names)
	leave("c")
	f.Replaced(names)
	got := <-ended
	assert.True(t, got == "b" && len(ended) == 0, "%s has ended", got)
	got = <-resumed
	assert.True(t, got == "a" && len(resumed) == 0, "%q and %d more resumed", got, len(resumed))
	assert.True(t, f.NeedsReplacement(), "not worn though c has gone")
	f.Replaced(f.Subscribed())
	assert.False(t, f.NeedsReplacement(), "worn though all that has gone has ended")
	assert.Equal(t, <-ended, "c", "has ended")
	stops["a"]()
}

// A channel that the server refuses is no reason to replace the connection of the others,
// which would lose pushes. The next listener asks the server again.
func TestARefusedChannelDoesNotReplaceTheConnection(t *testing.T) {
	feeds, asked := make(chan *Feed, 1), make(chan string, 10)
	h := &Hub{Driver: Driver{KeepsChannels: true, Session: func(f *Feed) (bool, error) {
		feeds <- f
		for {
			subscribe, _ := f.Changes()
			for _, name := range subscribe {
				asked <- name
				if name == "mine" {
					f.Confirmed(name)
				} else if f.SubscribeRefused(name, errCut) {
					t.Error("a listener has lost its subscription")
				}
			}
			select {
			case <-f.Wake:
			case <-f.Context.Done():
				return true, f.Context.Err()
			}
		}
	}}}
	stop, err := h.Listen(t.Context(), "mine", store.Listener{Look: func(restored bool) {
		assert.False(t, restored, "it was resumed")
	}})
	assert.Must(t, err)
	f := <-feeds
	for range 2 {
		assert.Is(t, assert.Err(h.Listen(t.Context(), "other", store.Listener{})), errCut)
	}
	assert.False(t, f.NeedsReplacement(), "the connection is to be replaced")
	for _, name := range []string{"mine", "other", "other"} {
		assert.Equal(t, <-asked, name, "asked for")
	}
	go stop()
	<-f.Context.Done() // the feed ends with its last channel
}

// In a Cluster a connection with many listeners is not replaced for one channel.
func TestManyListenersJustifySomeKeptChannels(t *testing.T) {
	feeds := make(chan *Feed, 1)
	h := &Hub{Driver: Driver{
		KeepsChannels: true, Session: confirmingSession(feeds),
		Nodes: func(_ context.Context, channels []string, _ bool) ([]string, error) {
			return slices.Repeat([]string{"node"}, len(channels)), nil
		},
	}}
	var stops []func()
	for i := range 3 * listenersPerKept {
		stop, err := h.Listen(t.Context(), string(rune('a'+i)), store.Listener{})
		assert.Must(t, err)
		stops = append(stops, stop)
	}
	f := <-feeds
	stops[0]()
	stops[1]()
	assert.False(t, f.NeedsReplacement(), "worn by two")
	go stops[2]()
	for !f.NeedsReplacement() {
		runtime.Gosched()
	}
}
