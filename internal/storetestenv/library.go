package storetestenv

import (
	"context"
	"crypto/sha1" // it is how Redis names scripts
	"encoding/hex"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Library is a client library, as the tests of its store use it. Its methods are the tests
// that the stores on one server have in common. Each test starts servers of its own.
type Library struct {
	// Open returns a store on a new client, which is closed with the test. lent says how
	// many connections of the client's pool somebody has; nil: the library does not tell.
	Open func(t testing.TB, addr string, c Client) (s store.Store, lent func() int)

	Needs     []redistest.Option // what its clients need of a server, besides [Free]
	Protocols []string           // the ways to speak with a server that a client may choose
	Commands  []string           // what a user must be allowed for it, besides the tests' commands
	NoAuth    string             // what a server says to a client without the password

	// Replaces says that a subscription ends with its connection. Another one takes the
	// place of that, and the other subscriptions resume.
	Replaces bool
}

// Client says which client to open. The zero value is the library's default.
type Client struct {
	User, Password string
	Protocol       string // one of Library.Protocols
	Waits          bool   // for an answer as long as the context allows
}

// Free lets clients run the actions of these tests, which are none of the protocol's, on
// any key.
var Free = redistest.Allow("~*", "&*", "+incr", "+get", "+set", "+ping", "+unsubscribe")

// Actions of the tests.
var (
	Echo = action("return ARGV[1]")
	Incr = action("return tostring(redis.call('INCR', KEYS[1]))")
	Read = action("return redis.call('GET', KEYS[1])")

	write   = action("redis.call('SET', KEYS[1], 'x') return 'done'")
	publish = action("redis.call('PUBLISH', 'channel', 'x') return 'done'")
	crash   = action("local x = nil return x.y")
	custom  = action("return redis.error_reply('BADARG no such mode')")
	bare    = action("return {err = 'no code'}")
)

func action(text string) *script.Script {
	sum := sha1.Sum([]byte(text))
	return &script.Script{Name: "test", Text: text, SHA1: hex.EncodeToString(sum[:])}
}

// start starts a server for clients of the library.
func (l Library) start(t testing.TB, more ...redistest.Option) *redistest.Server {
	t.Helper()
	return redistest.Start(t, append(append([]redistest.Option{Free}, l.Needs...), more...)...)
}

// store is a store on a client of that kind.
func (l Library) store(t testing.TB, addr string, c Client) store.Store {
	t.Helper()
	s, _ := l.Open(t, addr, c)
	return s
}

// eachProtocol runs a test for each way to speak with a server.
func (l Library) eachProtocol(t *testing.T, test func(t *testing.T, c Client)) {
	t.Helper()
	for _, protocol := range l.Protocols {
		t.Run(protocol, func(t *testing.T) { test(t, Client{Protocol: protocol}) })
	}
}

// Limit is a context whose Done does not follow its Deadline, as the library's are.
type Limit struct {
	context.Context
	At time.Time
}

// Deadline implements [context.Context].
func (l Limit) Deadline() (time.Time, bool) { return l.At, true }

// Ear is a listener whose events a test awaits.
type Ear struct {
	Messages chan string
	Resumed  chan struct{}
}

// NewEar keeps so many messages that nobody awaits.
func NewEar(most int) *Ear { return &Ear{make(chan string, most), make(chan struct{}, 100)} }

// Listener tells the ear.
func (e *Ear) Listener() store.Listener {
	return store.Listener{
		Message: func(payload string) { e.Messages <- payload },
		Resumed: func() { e.Resumed <- struct{}{} },
	}
}

// Listen subscribes until the test ends, or stop is called.
func Listen(t *testing.T, s store.Store, channel string) (e *Ear, stop func()) {
	t.Helper()
	e = NewEar(100)
	stop, err := s.Listen(t.Context(), channel, e.Listener())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return e, stop
}

// Await waits for an event.
func Await[T any](t *testing.T, events <-chan T) T {
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
