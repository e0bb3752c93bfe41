package rueidis_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	store "github.com/holdfast-go/holdfast/store/rueidis"
)

// ear is a listener whose events a test awaits.
type ear struct {
	messages chan string
	resumed  chan struct{}
}

func newEar() *ear { return &ear{make(chan string, 100_000), make(chan struct{}, 100)} }

func (e *ear) listener() holdfast.Listener {
	return holdfast.Listener{
		Message: func(payload string) { e.messages <- payload },
		Resumed: func() { e.resumed <- struct{}{} },
	}
}

func await[T any](t *testing.T, events <-chan T) T {
	t.Helper()
	late := time.NewTimer(redistest.Patience)
	defer late.Stop()
	select {
	case event := <-events:
		return event
	case <-late.C:
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func listen(t *testing.T, s *store.Store, channel string) (*ear, func()) {
	t.Helper()
	e := newEar()
	stop, err := s.Listen(t.Context(), channel, e.listener())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return e, stop
}

func TestListenIsConfirmedWhenItReturns(t *testing.T) {
	for name, change := range protocols {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, tests, caching)
			s, _ := open(t, server.Addr(), change)
			for _, channel := range []string{"first", "second"} {
				e, _ := listen(t, s, channel)
				if got := server.Do(t, "PUBLISH", channel, "hello"); got != int64(1) {
					t.Errorf("%s was heard by %v", channel, got)
				}
				if got := await(t, e.messages); got != "hello" {
					t.Errorf("got %q", got)
				}
			}
			clients := server.Do(t, "CLIENT", "LIST", "TYPE", "pubsub").(string)
			if n := strings.Count(clients, "\n"); n != 1 {
				t.Errorf("%d connections for two channels", n)
			}
		})
	}
}

func TestListenersOfOneChannel(t *testing.T) {
	server := redistest.Start(t, tests, caching)
	s, _ := open(t, server.Addr(), nil)
	first, stop := listen(t, s, "channel")
	second, _ := listen(t, s, "channel")
	server.Do(t, "PUBLISH", "channel", "1")
	await(t, first.messages)
	await(t, second.messages)
	stop()
	stop()
	if got := server.Do(t, "PUBLISH", "channel", "2"); got != int64(1) {
		t.Errorf("heard by %v", got)
	}
	if got := await(t, second.messages); got != "2" {
		t.Errorf("got %q", got)
	}
	if len(first.messages) > 0 {
		t.Error("a stopped listener was called")
	}
}

func TestListenResumesAfterABreak(t *testing.T) {
	for name, change := range protocols {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, tests, caching)
			s, _ := open(t, server.Addr(), change)
			one, _ := listen(t, s, "one")
			two, _ := listen(t, s, "two")
			for name, disturb := range map[string]func(){
				"Kill":    func() { server.Do(t, "CLIENT", "KILL", "TYPE", "pubsub") },
				"Restart": server.Restart,
			} {
				disturb()
				await(t, one.resumed)
				await(t, two.resumed)
				server.Do(t, "PUBLISH", "one", name)
				if got := await(t, one.messages); got != name {
					t.Errorf("got %q", got)
				}
			}
		})
	}
}

func TestSilentSubscriptionIsReplaced(t *testing.T) {
	server := redistest.Start(t, tests, caching)
	proxy := redistest.NewProxy(t, server.Addr())
	s, _ := open(t, proxy.Addr(), func(o *rueidis.ClientOption) {
		o.Dialer.KeepAlive, o.ConnWriteTimeout = 20*time.Millisecond, 100*time.Millisecond
	})
	e, _ := listen(t, s, "channel")
	before := proxy.Count(redistest.Arrived, "HELLO")
	proxy.BlackHole()
	proxy.Await(t, redistest.Arrived, "HELLO", before+2) // for requests, and for this
	proxy.Cut()
	proxy.Pass()
	await(t, e.resumed)
	server.Do(t, "PUBLISH", "channel", "hello")
	if got := await(t, e.messages); got != "hello" {
		t.Errorf("got %q", got)
	}
}

func TestStopUnsubscribes(t *testing.T) {
	server := redistest.Start(t, tests, caching)
	s, _ := open(t, server.Addr(), nil)
	_, stopOnly := listen(t, s, "only")
	stopOnly()
	if got := server.Do(t, "PUBLISH", "only", "x"); got != int64(0) {
		t.Errorf("the only channel is heard by %v", got)
	}
	_, stop := listen(t, s, "gone")
	stays, _ := listen(t, s, "stays")
	stop()
	if got := server.Do(t, "PUBLISH", "gone", "x"); got != int64(0) {
		t.Errorf("heard by %v", got)
	}
	back, _ := listen(t, s, "gone")
	for channel, e := range map[string]*ear{"gone": back, "stays": stays} {
		server.Do(t, "PUBLISH", channel, channel)
		if got := await(t, e.messages); got != channel {
			t.Errorf("got %q on %s", got, channel)
		}
	}
}

func TestStopWaitsForTheListener(t *testing.T) {
	server := redistest.Start(t, tests, caching)
	s, _ := open(t, server.Addr(), nil)
	entered, release := make(chan struct{}), make(chan struct{})
	var running atomic.Int32
	stop, err := s.Listen(t.Context(), "channel", holdfast.Listener{Message: func(string) {
		running.Add(1)
		entered <- struct{}{}
		<-release
		running.Add(-1)
	}})
	if err != nil {
		t.Fatal(err)
	}
	server.Do(t, "PUBLISH", "channel", "1")
	server.Do(t, "PUBLISH", "channel", "2")
	await(t, entered)
	left := make(chan int32)
	go func() {
		stop()
		left <- running.Load()
	}()
	release <- struct{}{}
	// The second message may have come first; it is let go, too.
	select {
	case <-entered:
		release <- struct{}{}
		if n := await(t, left); n != 0 {
			t.Errorf("stop returned while %d calls ran", n)
		}
	case n := <-left:
		if n != 0 {
			t.Errorf("stop returned while %d calls ran", n)
		}
	}
}

func TestListenReturnsWhenTheContextEnds(t *testing.T) {
	proxy := redistest.NewProxy(t, redistest.Start(t, tests, caching).Addr())
	s, _ := open(t, proxy.Addr(), nil)
	before := proxy.Count(redistest.Arrived, "HELLO")
	proxy.BlackHole()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := s.Listen(ctx, "channel", newEar().listener())
		failed <- err
	}()
	proxy.Await(t, redistest.Arrived, "HELLO", before+1)
	cancel()
	if err := await(t, failed); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	proxy.Pass()
	listen(t, s, "channel")
}

func TestStopDoesNotWaitForASilentServer(t *testing.T) {
	proxy := redistest.NewProxy(t, redistest.Start(t, tests, caching).Addr())
	s, _ := open(t, proxy.Addr(), nil)
	t.Cleanup(proxy.Cut)
	_, stop := listen(t, s, "channel")
	proxy.BlackHole()
	start := time.Now()
	stop()
	if took := time.Since(start); took > redistest.Patience/4 {
		t.Errorf("took %v", took)
	}
}

func TestRefusedChannelLeavesOthersAlone(t *testing.T) {
	server := redistest.Start(t, tests, caching)
	server.Do(t, "ACL", "SETUSER", "ann", "on", ">pw", "resetchannels", "&mine", "+@all")
	s, _ := open(t, server.Addr(), func(o *rueidis.ClientOption) {
		o.Username, o.Password = "ann", "pw"
	})
	mine, _ := listen(t, s, "mine")
	_, err := s.Listen(t.Context(), "other", newEar().listener())
	var refused *holdfast.ServerError
	if !errors.As(err, &refused) || refused.Code != "NOPERM" {
		t.Errorf("got %v", err)
	}
	server.Do(t, "PUBLISH", "mine", "hello")
	if got := await(t, mine.messages); got != "hello" {
		t.Errorf("got %q", got)
	}
	if len(mine.resumed) > 0 {
		t.Error("the refusal broke the connection")
	}
}

// Who may listen and may not stop listening is not kept waiting by that, and
// neither is anybody else.
func TestWhoMayNotUnsubscribeStopsAtOnce(t *testing.T) {
	server := redistest.Start(t)
	server.Do(t, "ACL", "SETUSER", "ann", "on", ">pw", "allchannels", "+@all", "-unsubscribe")
	s, _ := open(t, server.Addr(), func(o *rueidis.ClientOption) { o.Username, o.Password = "ann", "pw" })
	mine, _ := listen(t, s, "mine")
	start := time.Now()
	for range 60 { // a second each, if it waited
		_, stop := listen(t, s, "other")
		stop()
	}
	if took := time.Since(start); took > redistest.Patience/2 {
		t.Errorf("took %v", took)
	}
	if got := server.Do(t, "PUBLISH", "other", "hello"); got != int64(0) {
		t.Errorf("the other is heard by %v", got)
	}
	server.Do(t, "PUBLISH", "mine", "hello")
	if got := await(t, mine.messages); got != "hello" {
		t.Errorf("got %q", got)
	}
}

// An application that has taken the rest of the pool does not keep a subscription from
// ending, nor the others from going on.
func TestStopWithAFullPool(t *testing.T) {
	server := redistest.Start(t, tests, caching)
	s, _ := open(t, server.Addr(), func(o *rueidis.ClientOption) { o.BlockingPoolSize = 1 })
	stays, _ := listen(t, s, "stays")
	_, stop := listen(t, s, "gone")
	stop()
	redistest.Await(t, "the subscription has ended", func() bool {
		return server.Do(t, "PUBLISH", "gone", "x") == int64(0)
	})
	await(t, stays.resumed)
	server.Do(t, "PUBLISH", "stays", "hello")
	if got := await(t, stays.messages); got != "hello" {
		t.Errorf("got %q", got)
	}
}

// While one of two subscriptions ends, the server counts us among those who hear the other.
func TestStopDoesNotInterruptTheOthers(t *testing.T) {
	server := redistest.Start(t, tests, caching)
	s, _ := open(t, server.Addr(), nil)
	stays, _ := listen(t, s, "stays")
	_, stop := listen(t, s, "gone")
	done := make(chan struct{})
	go func() {
		stop()
		close(done)
	}()
	watch := server.Dial(t)
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		default:
		}
		if n := watch.Do(t, "PUBLISH", "stays", "x"); n == int64(0) {
			t.Fatal("nobody hears")
		}
	}
	await(t, stays.resumed)
	server.Do(t, "PUBLISH", "stays", "hello")
	redistest.Await(t, "the other is heard", func() bool { return await(t, stays.messages) == "hello" })
}

func TestNothingIsLeftAfterTheLastStop(t *testing.T) {
	for name, change := range protocols {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, tests, caching)
			s, rdb := open(t, server.Addr(), change)
			// With a context, so that the client's own goroutines are there.
			if err := rdb.Do(t.Context(), rdb.B().Ping().Build()).Error(); err != nil {
				t.Fatal(err)
			}
			before := runtime.NumGoroutine()
			for range 3 {
				_, stopOne := listen(t, s, "one")
				_, stopTwo := listen(t, s, "two")
				stopOne()
				stopTwo()
			}
			redistest.Await(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
			redistest.Await(t, "no connection is left", func() bool {
				return server.Do(t, "CLIENT", "LIST", "TYPE", "pubsub") == ""
			})
		})
	}
}
