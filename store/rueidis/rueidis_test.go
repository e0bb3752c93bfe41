package rueidis_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
	store "github.com/holdfast-go/holdfast/store/rueidis"
)

func action(text string) *script.Script {
	sum := sha1.Sum([]byte(text))
	return &script.Script{Name: "test", Text: text, SHA1: hex.EncodeToString(sum[:])}
}

var (
	echo = action("return ARGV[1]")
	incr = action("return tostring(redis.call('INCR', KEYS[1]))")
	read = action("return redis.call('GET', KEYS[1])")
)

// tests lets clients run the actions of these tests, which are none of the
// protocol's, on any key.
var tests = redistest.Allow("~*", "&*", "+incr", "+get", "+set", "+ping", "+unsubscribe")

// debug lets a server load again what it has saved.
var debug = redistest.Args("--enable-debug-command", "yes")

// caching is for clients of rueidis as it comes.
var caching = redistest.Needs("rueidis without")

// open returns a store on addr. change may change the client's options.
func open(
	t testing.TB, addr string, change func(*rueidis.ClientOption),
) (*store.Store, rueidis.Client) {
	t.Helper()
	opts := rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true}
	if change != nil {
		change(&opts)
	}
	// ForceSingleClient: a server that refuses us is for the store to report.
	rdb := connect(t, opts)
	return store.New(rdb), rdb
}

func connect(t testing.TB, opts rueidis.ClientOption) rueidis.Client {
	t.Helper()
	opts.TLSConfig, opts.Sentinel.TLSConfig = redistest.TLS(), redistest.TLS()
	rdb, err := rueidis.NewClient(opts)
	if rdb == nil {
		t.Fatal(err)
	}
	t.Cleanup(rdb.Close)
	return rdb
}

func TestRunLoadsTheScriptWhenTheServerForgotIt(t *testing.T) {
	server := redistest.Start(t, tests, caching)
	s, _ := open(t, server.Addr(), nil)
	for _, want := range []string{"1", "2"} {
		if got, err := s.Run(t.Context(), incr, []string{"n"}, nil); got != want || err != nil {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	server.Do(t, "SCRIPT", "FLUSH")
	if got, err := s.Run(t.Context(), incr, []string{"n"}, nil); got != "3" || err != nil {
		t.Errorf("after the flush: %q, %v", got, err)
	}
	calls := server.CommandCalls(t)
	if calls["evalsha"] != 3 || calls["eval"] != 2 {
		t.Errorf("sent %d EVALSHA and %d EVAL", calls["evalsha"], calls["eval"])
	}
}

func TestRunReturnsWhenTheContextEnds(t *testing.T) {
	server := redistest.Start(t, tests, caching)
	const short = 50 * time.Millisecond
	for name, end := range map[string]struct {
		begin func(context.Context) (context.Context, context.CancelFunc)
		want  error
	}{
		"Cancel": {context.WithCancel, context.Canceled},
		"CancelBeforeTheDeadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Hour)
		}, context.Canceled},
		"Deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, short)
		}, context.DeadlineExceeded},
		"DeadlineWithoutDone": {func(context.Context) (context.Context, context.CancelFunc) {
			return limit{context.Background(), time.Now().Add(short)}, func() {}
		}, context.DeadlineExceeded},
		"DeadlineBeforeDone": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return limit{ctx, time.Now().Add(short)}, func() {}
		}, context.DeadlineExceeded},
	} {
		for _, awaited := range []string{"EVALSHA", "HELLO"} {
			t.Run(name+"/"+awaited, func(t *testing.T) {
				proxy := redistest.NewProxy(t, server.Addr())
				s, _ := open(t, proxy.Addr(), nil)
				t.Cleanup(proxy.Cut) // or closing the client waits for an answer
				if _, err := s.Run(t.Context(), echo, nil, []string{"x"}); err != nil {
					t.Fatal(err)
				}
				if awaited == "HELLO" {
					proxy.Cut() // it has to connect anew
				}
				before := proxy.Count(redistest.Arrived, awaited)
				proxy.BlackHole()

				ctx, cancel := end.begin(t.Context())
				defer cancel()
				failed := make(chan error, 1)
				go func() {
					_, err := s.Run(ctx, echo, nil, []string{"x"})
					failed <- err
				}()
				proxy.Await(t, redistest.Arrived, awaited, before+1)
				start := time.Now()
				if errors.Is(end.want, context.Canceled) {
					cancel()
				}
				err := <-failed
				if took := time.Since(start); took > redistest.Patience/2 {
					t.Errorf("took %v", took)
				}
				if !errors.Is(err, end.want) || !strings.Contains(err.Error(), proxy.Addr()) {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}

// limit is a context whose Done does not follow its Deadline, as the
// library's are.
type limit struct {
	context.Context
	at time.Time
}

func (l limit) Deadline() (time.Time, bool) { return l.at, true }

// Requests share a connection, and one request's deadline breaks it. That is
// no reason for another to fail, least of all as if its own time were over.
func TestAnothersDeadlineIsNotOurs(t *testing.T) {
	proxy := redistest.NewProxy(t, redistest.Start(t, tests, caching).Addr())
	s, _ := open(t, proxy.Addr(), nil)
	proxy.DropReplies(1, "EVALSHA")
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	var both sync.WaitGroup
	both.Go(func() {
		if _, err := s.Run(short, echo, nil, []string{"x"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the short one got %v", err)
		}
	})
	both.Go(func() {
		proxy.Await(t, redistest.Dropped, "EVALSHA", 1)
		if got, err := s.Run(t.Context(), echo, nil, []string{"y"}); got != "y" || err != nil {
			t.Errorf("the other got %q, %v", got, err)
		}
	})
	both.Wait()
}

func TestRunSendsAgainOnABrokenConnection(t *testing.T) {
	server := redistest.Start(t, tests, caching)
	proxy := redistest.NewProxy(t, server.Addr())
	s, _ := open(t, proxy.Addr(), nil)
	if _, err := s.Run(t.Context(), incr, []string{"n"}, nil); err != nil {
		t.Fatal(err)
	}
	proxy.DropRepliesAndCut(2, "EVALSHA")
	if got, err := s.Run(t.Context(), incr, []string{"n"}, nil); got != "4" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}

	// A server that was away and is back.
	server.Restart()
	if got, err := s.Run(t.Context(), incr, []string{"n"}, nil); got != "1" || err != nil {
		t.Errorf("after the restart: %q, %v", got, err)
	}
}

// A request whose answer was lost may have taken effect: a refusal of its
// repetition is no definite answer.
func TestRefusalAfterALostAnswerIsNotDefinite(t *testing.T) {
	server := redistest.Start(t, tests, caching)
	proxy := redistest.NewProxy(t, server.Addr())
	s, _ := open(t, proxy.Addr(), nil)
	if _, err := s.Run(t.Context(), incr, []string{"n"}, nil); err != nil {
		t.Fatal(err)
	}
	proxy.DropRepliesAndCut(1, "EVALSHA")
	proxy.Hook(func(e redistest.Event) {
		if e.Stage == redistest.Dropped {
			server.Do(t, "SET", "n", "no number")
		}
	})
	_, err := s.Run(t.Context(), incr, []string{"n"}, nil)
	var refused *holdfast.ServerError
	if err == nil || errors.As(err, &refused) || !strings.Contains(err.Error(), "not an integer") {
		t.Errorf("got %#v", err)
	}
}

func TestServer(t *testing.T) {
	server := redistest.Start(t, tests, caching)
	for name, change := range protocols {
		s, _ := open(t, server.Addr(), change)
		info, err := s.Server(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		product, version := server.Product(t)
		want := holdfast.ServerInfo{
			Product: product, Version: version,
			Role: "master", Mode: "standalone", Address: server.Addr(),
		}
		if info != want {
			t.Errorf("%s: got %+v", name, info)
		}
	}
}

// protocols are the ways to speak with a server that a client may choose.
var protocols = map[string]func(*rueidis.ClientOption){
	"RESP3":        func(*rueidis.ClientOption) {},
	"RESP3NoCache": func(o *rueidis.ClientOption) { o.DisableCache = true },
	"RESP2":        func(o *rueidis.ClientOption) { o.DisableCache, o.AlwaysRESP2 = true, true },
	"Pool":         func(o *rueidis.ClientOption) { o.DisableAutoPipelining = true },
}
