package adaptertest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Requests tests Run, with connections that last and connections that break.
func (l Library) Requests(t *testing.T) {
	t.Run("TheScriptIsLoadedWhenTheServerForgotIt", l.loadsTheScript)
	t.Run("RunReturnsWhenTheContextEnds", l.runReturnsWhenTheContextEnds)
	t.Run("ACancelEndsNoOtherRequest", l.cancelsWhileAnswersArrive)
	t.Run("AnAnswerThatHasArrivedCounts", l.anAnswerThatHasArrivedCounts)
	t.Run("RunSendsAgainOnABrokenConnection", l.runSendsAgain)
	t.Run("RunSendsOnceWhatMustNotRunLate", l.runSendsOnce)
	t.Run("ARefusalAfterALostAnswerIsNotDefinite", l.refusalAfterALostAnswer)
	t.Run("TheDisksThatHaveItAreCounted", l.countsDisks)
	t.Run("AnErrorOfAProxyMayHaveRun", l.tellsAProxy)
	t.Run("Server", l.server)
}

func (l Library) loadsTheScript(t *testing.T) {
	server := l.start(t)
	s := l.store(t, server.Addr(), Client{})
	for _, want := range []string{"1", "2"} {
		got, err := s.Run(t.Context(), Incr, []string{"n"}, nil)
		assert.MustTrue(t, got == want && err == nil, "got %q, %v", got, err)
	}
	server.Do(t, "SCRIPT", "FLUSH")
	got, err := s.Run(t.Context(), Incr, []string{"n"}, nil)
	assert.True(t, got == "3" && err == nil, "after the flush: %q, %v", got, err)
	calls := server.CommandCalls(t)
	assert.True(t, calls["evalsha"] == 3 && calls["eval"] == 2,
		"sent %d EVALSHA and %d EVAL", calls["evalsha"], calls["eval"])
}

// end is a way in which a context ends, after some time or by its cancel, and the error of its request.
type end struct {
	begin func(context.Context, time.Duration) (context.Context, context.CancelFunc)
	want  error
}

// ends returns the ways in which a context ends.
func ends() map[string]end {
	return map[string]end{
		"Cancel": {func(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
			return context.WithCancel(ctx)
		}, context.Canceled},
		"CancelBeforeTheDeadline": {func(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Hour)
		}, context.Canceled},
		"Deadline": {context.WithTimeout, context.DeadlineExceeded},
		"DeadlineWithoutDone": {func(_ context.Context, d time.Duration) (context.Context, context.CancelFunc) {
			return within(d), func() {}
		}, context.DeadlineExceeded},
		"DeadlineBeforeDone": {func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
			return Limit{ctx, time.Now().Add(d)}, func() {}
		}, context.DeadlineExceeded},
	}
}

func (l Library) runReturnsWhenTheContextEnds(t *testing.T) {
	server := l.start(t)
	for name, how := range ends() {
		for _, awaited := range []string{"EVALSHA", "HELLO"} {
			t.Run(name+"/"+awaited, func(t *testing.T) { l.runReturns(t, server, "", how, awaited, 1) })
		}
		for _, protocol := range l.Protocols {
			t.Run(name+"/steady/"+protocol, func(t *testing.T) {
				l.runReturns(t, server, protocol, how, "EVALSHA", manyAnswers)
			})
		}
	}
}

// manyAnswers is after how many answers a store has made all its connections.
const manyAnswers = 100

// runReturns ends a request while one of its commands gets no answer. So many were answered before.
func (l Library) runReturns(
	t *testing.T, server *redistest.Server, protocol string, how end, awaited string, answers int,
) {
	proxy := redistest.NewProxy(t, server.Addr())
	s := l.store(t, proxy.Addr(), Client{Protocol: protocol, Waits: true})
	t.Cleanup(proxy.Cut) // ends requests that still wait
	for range answers {
		assert.Must(t, assert.Err(s.Run(t.Context(), Echo, nil, []string{"x"})))
	}
	if awaited == "HELLO" {
		proxy.Cut() // the next request has to connect again
	}
	before := proxy.Count(redistest.Arrived, awaited)
	proxy.BlackHole()

	// On a busy machine, a deadline may pass before the command is sent. Then it was too short for this test.
	for short := 50 * time.Millisecond; proxy.Count(redistest.Arrived, awaited) == before; short *= 2 {
		ctx, cancel := how.begin(t.Context(), short)
		failed := make(chan error, 1)
		go func() { failed <- assert.Err(s.Run(ctx, Echo, nil, []string{"x"})) }()
		if errors.Is(how.want, context.Canceled) {
			proxy.Await(t, redistest.Arrived, awaited, before+1)
			cancel()
		}
		err := redistest.Next(t, "the end of the request", failed)
		cancel()
		assert.True(t, errors.Is(err, how.want) && strings.Contains(err.Error(), proxy.Addr()), "got %v", err)
		written := awaited != "HELLO" && proxy.Count(redistest.Arrived, awaited) > before
		assert.False(t, written && errors.Is(err, store.ErrNotSent), "it was written: %v", err)
	}
}

// cancelsWhileAnswersArrive ends contexts while their answers arrive. A cancel that comes late ends no other request,
// and no request gets the answer of another one.
func (l Library) cancelsWhileAnswersArrive(t *testing.T) {
	s := l.store(t, l.start(t).Addr(), Client{})
	for range manyAnswers {
		assert.Must(t, assert.Err(s.Run(t.Context(), Echo, nil, []string{"x"})))
	}
	var took time.Duration
	for i := range 500 {
		parent, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(rand.N(2*took+time.Microsecond), cancel)
		start, want := time.Now(), strconv.Itoa(i)
		got, err := s.Run(Limit{parent, start.Add(time.Hour)}, Echo, nil, []string{want})
		assert.True(t, err == nil && got == want || errors.Is(err, context.Canceled), "cancelled: %q, %v", got, err)
		if err == nil {
			took = time.Since(start)
		}
		got, err = s.Run(Limit{t.Context(), start.Add(time.Hour)}, Echo, nil, []string{want})
		assert.True(t, err == nil && got == want, "the next one: %q, %v", got, err)
		timer.Stop()
		cancel()
	}
}

// anAnswerThatHasArrivedCounts tests a process that gets too little of its processor: it reads each answer long
// after its arrival, and after the end of the request's context. The scheduler's order has exceptions.
func (l Library) anAnswerThatHasArrivedCounts(t *testing.T) {
	s := l.store(t, l.start(t).Addr(), Client{})
	for range manyAnswers {
		assert.Must(t, assert.Err(s.Run(t.Context(), Incr, []string{"n"}, nil)))
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var idle atomic.Bool
	defer idle.Store(true)
	for range 20 {
		go func() {
			for !idle.Load() {
			}
		}()
	}
	start := time.Now()
	assert.Must(t, assert.Err(s.Run(t.Context(), Incr, []string{"n"}, nil)))
	limit := time.Since(start) / 2
	for name, limited := range map[string]func() (context.Context, context.CancelFunc){
		"with Done":    func() (context.Context, context.CancelFunc) { return context.WithTimeout(t.Context(), limit) },
		"without Done": func() (context.Context, context.CancelFunc) { return within(limit), func() {} },
	} {
		err := errors.New("not asked")
		for tries := 0; err != nil && tries < 5; tries++ {
			ctx, cancel := limited()
			_, err = s.Run(ctx, Incr, []string{"n"}, nil)
			cancel()
		}
		assert.True(t, err == nil, "%s: each answer is thrown away: %v", name, err)
	}
}

// within returns a context that has a deadline and no Done.
func within(limit time.Duration) context.Context {
	return Limit{context.Background(), time.Now().Add(limit)}
}

func (l Library) runSendsAgain(t *testing.T) {
	server := l.start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s := l.store(t, proxy.Addr(), Client{})
	assert.Must(t, assert.Err(s.Run(t.Context(), Incr, []string{"n"}, nil)))
	proxy.DropRepliesAndCut(2, "EVALSHA")
	got, err := s.Run(t.Context(), Incr, []string{"n"}, nil)
	assert.True(t, got == "4" && err == nil, "got %q, %v", got, err)

	// The server was away and is back: the pool is full of dead connections.
	server.Restart()
	got, err = s.Run(t.Context(), Incr, []string{"n"}, nil)
	assert.True(t, got == "1" && err == nil, "after the restart: %q, %v", got, err)
}

// A script that must not run late is sent once. Its outcome is unknown if the connection breaks.
func (l Library) runSendsOnce(t *testing.T) {
	server := l.start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s := l.store(t, proxy.Addr(), Client{})
	once := *Incr
	once.Repeats = false
	assert.Must(t, assert.Err(s.Run(t.Context(), &once, []string{"n"}, nil)))
	proxy.DropRepliesAndCut(1, "EVALSHA")
	_, err := s.Run(t.Context(), &once, []string{"n"}, nil)
	var refused *store.ServerError
	assert.True(t, err != nil && !errors.As(err, &refused) && !errors.Is(err, store.ErrNotSent), "got %v", err)
	got := server.Do(t, "GET", "n")
	assert.True(t, got == "2", "it has run %v times", got)
}

// A request whose answer was lost may have taken effect, so a refusal of its repetition is not
// definite.
func (l Library) refusalAfterALostAnswer(t *testing.T) {
	server := l.start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s := l.store(t, proxy.Addr(), Client{})
	assert.Must(t, assert.Err(s.Run(t.Context(), Incr, []string{"n"}, nil)))
	proxy.DropRepliesAndCut(1, "EVALSHA")
	proxy.Hook(func(e redistest.Event) {
		if e.Stage == redistest.Dropped {
			server.Do(t, "SET", "n", "no number")
		}
	})
	_, err := s.Run(t.Context(), Incr, []string{"n"}, nil)
	var refused *store.ServerError
	assert.True(t, err != nil && !errors.As(err, &refused) && strings.Contains(err.Error(), "not an integer"),
		"got %#v", err)
}

func (l Library) server(t *testing.T) {
	server := l.start(t)
	product, version := server.Product(t)
	want := store.ServerInfo{
		Product: product, Version: version, Role: "master", Mode: "standalone", Address: server.Addr(),
	}
	l.eachProtocol(t, func(t *testing.T, c Client) {
		info, err := l.store(t, server.Addr(), c).Server(t.Context())
		assert.True(t, info == want && err == nil, "got %+v, %v", info, err)
	})
}

// Refusals tests the errors of requests that the server refuses.
func (l Library) Refusals(t *testing.T) {
	t.Run("ServerErrors", l.serverErrors)
	t.Run("ARefusedConnectionNamesTheServer", l.refusedConnection)
	t.Run("AnUnknownCommandHasItsCode", l.unknownCommand)
	t.Run("NilIsNoAnswer", func(t *testing.T) {
		_, err := l.store(t, l.start(t).Addr(), Client{}).Run(t.Context(), Read, []string{"x"}, nil)
		var refused *store.ServerError
		assert.True(t, err != nil && !errors.As(err, &refused), "got %v", err)
	})
}

func (l Library) serverErrors(t *testing.T) {
	server := l.start(t)
	guarded := l.start(t, redistest.Password("secret"))
	full := l.start(t, redistest.Args("--maxmemory", "1"))
	replica := l.start(t, redistest.ReplicaOf(server))
	server.Do(t, "SADD", "set", "x")
	user := func(rules ...string) {
		words := []any{"ACL", "SETUSER"}
		for _, rule := range append(rules, l.Commands...) {
			words = append(words, rule)
		}
		server.Do(t, words...)
	}
	user("ann", "on", ">pw", "~mine", "resetchannels", "+evalsha", "+eval", "+get", "+hello")
	user("bob", "on", ">pw", "~*", "+get", "+hello")
	anybody, ann, bob := Client{}, Client{User: "ann", Password: "pw"}, Client{User: "bob", Password: "pw"}

	for _, test := range []struct {
		name   string
		server *redistest.Server
		client Client
		action *script.Script
		key    string
		code   string
		says   string
	}{
		{"WrongType", server, anybody, Read, "set", "WRONGTYPE", "wrong kind of value"},
		{"Crash", server, anybody, crash, "x", "ERR", "attempt to index"},
		{"CustomCode", server, anybody, custom, "x", "BADARG", "BADARG no such mode"},
		{"NoCode", server, anybody, bare, "x", "ERR", "no code"},
		{"NoPermission", server, bob, Read, "x", "NOPERM", "evalsha"},
		{"NoPermissionForKey", server, ann, Read, "other", "NOPERM", "key"},
		{"NoPermissionInScript", server, ann, write, "mine", "NOPERM", "script"},
		{"NoPermissionToPublish", server, ann, publish, "mine", "NOPERM", "script"},
		{"NoAuth", guarded, anybody, Read, "x", "NOAUTH", l.NoAuth},
		{"WrongPass", guarded, Client{Password: "guess"}, Read, "x", "WRONGPASS", "invalid"},
		{"OutOfMemory", full, anybody, write, "x", "OOM", "maxmemory"},
		{"ReadOnly", replica, anybody, write, "x", "READONLY", "read only replica"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := l.store(t, test.server.Addr(), test.client)
			_, err := s.Run(t.Context(), test.action, []string{test.key}, nil)
			var refused *store.ServerError
			assert.MustTrue(t, errors.As(err, &refused), "got %v", err)
			assert.True(t, refused.Code == test.code && strings.Contains(refused.Message, test.says),
				"got %+v", refused)
			assert.False(t, refused.MayHaveRun && test.action != custom && test.action != bare, "got %+v", refused)
		})
	}
}

// A library may remove the code ERR from its errors; the message of the refusal has it.
func (l Library) unknownCommand(t *testing.T) {
	server := l.start(t, redistest.Args("--rename-command", "SUBSCRIBE", ""))
	_, err := l.store(t, server.Addr(), Client{}).Listen(t.Context(), "channel", store.Listener{})
	var refused *store.ServerError
	if !errors.As(err, &refused) || refused.Code != "ERR" ||
		!strings.HasPrefix(refused.Message, "ERR unknown command") {
		t.Errorf("got %v", err)
	}
}

func (l Library) refusedConnection(t *testing.T) {
	addr := redistest.ClosedAddr(t)
	s := l.store(t, addr, Client{})
	_, err := s.Run(t.Context(), Read, []string{"x"}, nil)
	var refused *store.ServerError
	assert.True(t, err != nil && !errors.As(err, &refused) && strings.Contains(err.Error(), addr), "Run: %v", err)
	_, err = s.Listen(t.Context(), "channel", store.Listener{})
	assert.True(t, err != nil && strings.Contains(err.Error(), addr), "Listen: %v", err)
	_, err = s.Server(t.Context())
	assert.True(t, err != nil && strings.Contains(err.Error(), addr), "Server: %v", err)
}

// tellsAProxy tests what a proxy answers when it has passed a request on and got no answer.
func (l Library) tellsAProxy(t *testing.T) {
	for _, said := range []string{"-ERR Connection timed out\r\n", "-upstream failure\r\n", "-ERR Proxy error\r\n"} {
		addr, asked := answers(t, map[string]string{"HELLO": "%1\r\n+proto\r\n:3\r\n", "EVALSHA": said})
		_, err := l.store(t, addr, Client{}).Run(t.Context(), Echo, nil, []string{"x"})
		var refused *store.ServerError
		assert.MustTrue(t, errors.As(err, &refused), "got %v", err)
		assert.True(t, refused.MayHaveRun && refused.Code == "ERR", "%q is read as %+v", said, refused)
		assert.Equal(t, len(asked["EVALSHA"]), 1, "how often the proxy was asked")
	}
}

// countsDisks tests which of WAITAOF's numbers is the primary's own disk. The servers of these tests may
// be too old for it, so the test is the server.
func (l Library) countsDisks(t *testing.T) {
	addr, asked := answers(t, map[string]string{
		"HELLO": "%1\r\n+proto\r\n:3\r\n", "EVALSHA": "+x\r\n", "WAITAOF": "*2\r\n:3\r\n:4\r\n",
	})
	s := l.store(t, addr, Client{}).(store.Acker)
	need := store.Acks{LocalAOF: 1, ReplicaAOF: 2}
	_, got, err := s.RunAcked(t.Context(), Echo, nil, []string{"x"}, need, time.Second)
	assert.Must(t, err)
	assert.Equal(t, redistest.Next(t, "a WAITAOF", asked["WAITAOF"]), "WAITAOF 1 2 1000", "the server was asked")
	assert.Equal(t, got, store.Acks{LocalAOF: 3, ReplicaAOF: 4}, "acknowledged")
}

// answers is a server that answers each command with these bytes, and all others with OK. It tells how it
// was asked.
func answers(t *testing.T, with map[string]string) (addr string, asked map[string]chan string) {
	t.Helper()
	asked = make(map[string]chan string)
	for name := range with {
		asked[name] = make(chan string, 100)
	}
	listener := redistest.Listen(t)
	t.Cleanup(func() { listener.Close() }) //nolint:errcheck // it ends the accepting, whatever it says
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn, with, asked)
		}
	}()
	return listener.Addr().String(), asked
}

func serve(conn net.Conn, with map[string]string, asked map[string]chan string) {
	defer conn.Close() //nolint:errcheck // the client has gone
	in := bufio.NewScanner(conn)
	for in.Scan() { // *COUNT, and then $LENGTH and a word for each: no word has a line end
		n, _ := strconv.Atoi(strings.TrimPrefix(in.Text(), "*"))
		words := make([]string, n)
		for i := range words {
			in.Scan()
			in.Scan()
			words[i] = in.Text()
		}
		name := strings.ToUpper(words[0])
		answer, known := with[name]
		if known {
			asked[name] <- strings.ToUpper(strings.Join(words, " "))
		} else {
			answer = "+OK\r\n"
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}
