package adaptertest

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store"
)

// Subscriptions tests Listen.
func (l Library) Subscriptions(t *testing.T) {
	t.Run("ListenIsConfirmedWhenItReturns", func(t *testing.T) { l.eachProtocol(t, l.listenIsConfirmed) })
	t.Run("ListenersOfOneChannel", l.listenersOfOneChannel)
	t.Run("ListenResumesAfterABreak", func(t *testing.T) { l.eachProtocol(t, l.listenResumes) })
	t.Run("ListenReturnsWhenTheContextEnds", l.listenReturnsWhenTheContextEnds)
	t.Run("StopUnsubscribes", l.stopUnsubscribes)
	t.Run("StopDoesNotWaitForASilentServer", l.stopAtASilentServer)
	t.Run("ARefusedChannelLeavesOthersAlone", l.refusedChannel)
	t.Run("StopsAtOnceWithoutTheRightToUnsubscribe", l.mayNotUnsubscribe)
	t.Run("NothingIsLeftAfterTheLastStop", func(t *testing.T) { l.eachProtocol(t, l.nothingIsLeft) })
}

func (l Library) listenIsConfirmed(t *testing.T, c Client) {
	server := l.start(t)
	s := l.store(t, server.Addr(), c)
	for _, channel := range []string{"first", "second"} {
		rec, _ := Listen(t, s, channel)
		assert.Equal[any](t, server.Do(t, "PUBLISH", channel, "hello"), int64(1), "%s was heard by", channel)
		assert.Equal(t, redistest.Next(t, "a message", rec.Messages), "hello", "the message")
	}
	clients := server.Do(t, "CLIENT", "LIST", "TYPE", "pubsub").(string)
	assert.Equal(t, strings.Count(clients, "\n"), 1, "connections for two channels")
}

func (l Library) listenersOfOneChannel(t *testing.T) {
	server := l.start(t)
	s := l.store(t, server.Addr(), Client{})
	first, stop := Listen(t, s, "channel")
	second, _ := Listen(t, s, "channel")
	server.Do(t, "PUBLISH", "channel", "1")
	redistest.Next(t, "a message", first.Messages)
	redistest.Next(t, "a message", second.Messages)
	stop()
	stop()
	assert.Equal[any](t, server.Do(t, "PUBLISH", "channel", "2"), int64(1), "heard by")
	assert.Equal(t, redistest.Next(t, "a message", second.Messages), "2", "the message")
	assert.True(t, len(first.Messages) == 0, "a stopped listener was called")
}

func (l Library) listenResumes(t *testing.T, c Client) {
	server := l.start(t)
	s := l.store(t, server.Addr(), c)
	one, _ := Listen(t, s, "one")
	two, _ := Listen(t, s, "two")
	for name, disturb := range map[string]func(){
		"Kill":    func() { server.Do(t, "CLIENT", "KILL", "TYPE", "pubsub") },
		"Restart": server.Restart,
	} {
		t.Run(name, func(t *testing.T) {
			disturb()
			redistest.Next(t, "Resumed", one.Resumed)
			redistest.Next(t, "Resumed", two.Resumed)
			server.Do(t, "PUBLISH", "one", name)
			assert.Equal(t, redistest.Next(t, "a message", one.Messages), name, "the message")
		})
	}
}

func (l Library) listenReturnsWhenTheContextEnds(t *testing.T) {
	proxy := redistest.NewProxy(t, l.start(t).Addr())
	s := l.store(t, proxy.Addr(), Client{})
	before := proxy.Count(redistest.Arrived, "HELLO")
	proxy.BlackHole()
	t.Cleanup(proxy.Pass)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := s.Listen(ctx, "channel", NewRecorder(1).Listener())
		failed <- err
	}()
	proxy.Await(t, redistest.Arrived, "HELLO", before+1)
	cancel()
	assert.Is(t, redistest.Next(t, "the error", failed), context.Canceled)
	proxy.Pass()
	Listen(t, s, "channel")
}

func (l Library) stopUnsubscribes(t *testing.T) {
	server := l.start(t)
	s := l.store(t, server.Addr(), Client{})
	_, stopOnly := Listen(t, s, "only")
	stopOnly()
	assert.Equal[any](t, server.Do(t, "PUBLISH", "only", "x"), int64(0), "the only channel is heard by")
	_, stop := Listen(t, s, "gone")
	other, _ := Listen(t, s, "other")
	stop()
	assert.Equal[any](t, server.Do(t, "PUBLISH", "gone", "x"), int64(0), "heard by")
	back, _ := Listen(t, s, "gone")
	for channel, rec := range map[string]*Recorder{"gone": back, "other": other} {
		server.Do(t, "PUBLISH", channel, channel)
		got := redistest.Next(t, "a message", rec.Messages)
		assert.True(t, got == channel, "got %q on %s", got, channel)
	}
}

func (l Library) stopAtASilentServer(t *testing.T) {
	proxy := redistest.NewProxy(t, l.start(t).Addr())
	s := l.store(t, proxy.Addr(), Client{})
	t.Cleanup(proxy.Cut)
	_, stop := Listen(t, s, "channel")
	proxy.BlackHole()
	stopped := make(chan struct{})
	go func() {
		stop()
		close(stopped)
	}()
	redistest.Next(t, "the end of stop", stopped)
}

func (l Library) refusedChannel(t *testing.T) {
	server := l.start(t)
	server.Do(t, "ACL", "SETUSER", "ann", "on", ">pw", "resetchannels", "&mine", "+@all")
	s := l.store(t, server.Addr(), Client{User: "ann", Password: "pw"})
	mine, _ := Listen(t, s, "mine")
	_, err := s.Listen(t.Context(), "other", NewRecorder(1).Listener())
	var refused *store.ServerError
	assert.True(t, errors.As(err, &refused) && refused.Code == "NOPERM", "got %v", err)
	server.Do(t, "PUBLISH", "mine", "hello")
	assert.Equal(t, redistest.Next(t, "a message", mine.Messages), "hello", "the message")
	assert.True(t, len(mine.Resumed) == 0, "the refusal broke the connection")
}

// A user may lack the permission to unsubscribe. Its stop does not wait for that, and neither
// does any other.
func (l Library) mayNotUnsubscribe(t *testing.T) {
	server := redistest.Start(t)
	server.Do(t, "ACL", "SETUSER", "ann", "on", ">pw", "allchannels", "+@all", "-unsubscribe")
	s := l.store(t, server.Addr(), Client{User: "ann", Password: "pw"})
	mine, _ := Listen(t, s, "mine")
	times := 3
	if !l.ReplacesConnection {
		times = 2 * int(redistest.Patience/time.Second) // a second each, if it waited
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for range times {
			stop, err := s.Listen(t.Context(), "other", NewRecorder(1).Listener())
			if err != nil {
				t.Error(err)
				return
			}
			stop()
		}
	}()
	redistest.Next(t, "the end of stop", stopped)
	if l.ReplacesConnection {
		redistest.Await(t, "nobody hears the other", func() bool {
			return server.Do(t, "PUBLISH", "other", "hello") == int64(0)
		})
	}
	server.Do(t, "PUBLISH", "mine", "hello")
	assert.Equal(t, redistest.Next(t, "a message", mine.Messages), "hello", "the message")
	assert.False(t, len(mine.Resumed) > 0 && !l.ReplacesConnection, "the refusal broke the connection")
}

func (l Library) nothingIsLeft(t *testing.T, c Client) {
	server := l.start(t)
	s, lent := l.Open(t, server.Addr(), c)
	// A context that can end makes the client start its own goroutines.
	assert.Must(t, assert.Err(s.Run(t.Context(), Echo, nil, []string{"x"})))
	before := runtime.NumGoroutine()
	for range 3 {
		_, stopOne := Listen(t, s, "one")
		_, stopTwo := Listen(t, s, "two")
		stopOne()
		stopTwo()
	}
	redistest.Await(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
	redistest.Await(t, "no connection is left", func() bool {
		return server.Do(t, "CLIENT", "LIST", "TYPE", "pubsub") == ""
	})
	if lent != nil && lent() != 0 {
		t.Errorf("the pool misses %d connections", lent())
	}
}

// FollowsTheAddress tests that requests and subscriptions follow an address behind which another
// server becomes the primary, and the old one lives on as its replica. Connections to the old
// server stay open. It keeps its subscriptions, which the new primary does not count.
func (l Library) FollowsTheAddress(t *testing.T) {
	for _, protocol := range l.Protocols {
		if !t.Run(protocol, func(t *testing.T) { l.followsTheAddress(t, Client{Protocol: protocol}) }) {
			return // a store that stays costs the whole patience
		}
	}
}

func (l Library) followsTheAddress(t *testing.T, c Client) {
	next := l.start(t)
	old := l.start(t, redistest.ReplicaOf(next))
	old.Do(t, "REPLICAOF", "NO", "ONE")
	address := redistest.NewProxy(t, old.Addr())
	s := l.store(t, address.Addr(), c)
	run := func() error { return assert.Err(s.Run(t.Context(), Incr, []string{"x"}, nil)) }
	acked := func() error {
		need := store.Acks{Replicas: 1}
		_, _, err := s.(store.Acker).RunAcked(t.Context(), Incr, []string{"x"}, nil, need, time.Millisecond)
		return err
	}
	for range 32 {
		assert.Must(t, run()) // over all connections of the client
	}
	rec, _ := Listen(t, s, "channel")
	assert.Must(t, acked()) // leaves an idle connection

	for _, move := range []struct {
		from, to *redistest.Server
		late     bool // the address moves when the client has noticed that the old server is a replica
		stale    bool // the old server does not find the new primary, and refuses everything
	}{{old, next, false, false}, {next, old, true, false}, {old, next, false, true}, {next, old, true, true}} {
		if !move.late {
			address.Lead(move.to.Addr())
		}
		move.to.Do(t, "REPLICAOF", "NO", "ONE")
		host, port, _ := strings.Cut(move.to.Addr(), ":")
		if move.stale {
			move.from.Do(t, "CONFIG", "SET", "replica-serve-stale-data", "no")
			port = "1" // no server is there
		}
		move.from.Do(t, "REPLICAOF", host, port)
		if move.late {
			redistest.Await(t, "a refusal", func() bool { return run() != nil && acked() != nil })
			address.Lead(move.to.Addr())
		}
		redistest.Await(t, "requests arrive at the new primary", func() bool { return run() == nil })
		redistest.Await(t, "acknowledged ones, too", func() bool { return acked() == nil })
		redistest.Next(t, "Resumed", rec.Resumed)
		redistest.Await(t, "the new primary counts the subscription", func() bool {
			return move.to.Do(t, "PUBLISH", "channel", "hello") == int64(1)
		})
		for range 100 {
			assert.Must(t, run())
		}
	}
}
