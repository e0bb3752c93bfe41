package goredis_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store/goredis"
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

// open returns a store on addr. change may change the client's options.
func open(t testing.TB, addr string, change func(*redis.Options)) (*goredis.Store, *redis.Client) {
	t.Helper()
	opts := &redis.Options{Addr: addr, TLSConfig: redistest.TLS()}
	if change != nil {
		change(opts)
	}
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { rdb.Close() })
	return goredis.New(rdb), rdb
}

func TestRunLoadsTheScriptWhenTheServerForgotIt(t *testing.T) {
	server := redistest.Start(t, tests)
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
	server := redistest.Start(t, tests)
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
				s, _ := open(t, proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = time.Hour })
				t.Cleanup(proxy.Cut) // ends what still waits for an answer
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

func TestRunSendsAgainOnABrokenConnection(t *testing.T) {
	server := redistest.Start(t, tests)
	proxy := redistest.NewProxy(t, server.Addr())
	s, _ := open(t, proxy.Addr(), nil)
	if _, err := s.Run(t.Context(), incr, []string{"n"}, nil); err != nil {
		t.Fatal(err)
	}
	proxy.DropRepliesAndCut(2, "EVALSHA")
	if got, err := s.Run(t.Context(), incr, []string{"n"}, nil); got != "4" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}

	// A server that was away and is back: the pool is full of dead connections.
	server.Restart()
	if got, err := s.Run(t.Context(), incr, []string{"n"}, nil); got != "1" || err != nil {
		t.Errorf("after the restart: %q, %v", got, err)
	}
}

// A request whose answer was lost may have taken effect: a refusal of its
// repetition is no definite answer.
func TestRefusalAfterALostAnswerIsNotDefinite(t *testing.T) {
	server := redistest.Start(t, tests)
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

func TestHooksSeeTheRequests(t *testing.T) {
	server := redistest.Start(t, tests)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), TLSConfig: redistest.TLS()})
	t.Cleanup(func() { rdb.Close() })
	var seen names
	rdb.AddHook(&seen)
	if _, err := goredis.New(rdb).Run(t.Context(), echo, nil, []string{"x"}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(seen.list, " "); got != "evalsha eval" {
		t.Errorf("the hook saw %q", got)
	}
}

type names struct{ list []string }

func (n *names) DialHook(next redis.DialHook) redis.DialHook { return next }
func (n *names) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		n.list = append(n.list, cmd.Name())
		return next(ctx, cmd)
	}
}
func (n *names) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestTheClientStaysAsItWas(t *testing.T) {
	_, rdb := open(t, "localhost:1", func(o *redis.Options) { o.MaxRetries = 2 })
	opts := rdb.Options()
	if opts.ContextTimeoutEnabled || opts.MaxRetries != 2 {
		t.Errorf("the options changed: %+v", opts)
	}
}

func TestServer(t *testing.T) {
	server := redistest.Start(t, tests)
	for _, protocol := range []int{2, 3} {
		s, _ := open(t, server.Addr(), func(o *redis.Options) { o.Protocol = protocol })
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
			t.Errorf("RESP%d: got %+v", protocol, info)
		}
	}
}
