// Package adaptertest has the tests that the stores for client libraries share. A store's
// test describes its [Library], and runs them on real servers of every topology.
package adaptertest

import (
	"context"
	"crypto/sha1" // Redis names scripts by it
	"encoding/hex"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Library is a client library, as the tests of its store use it. Its methods are the tests
// that the stores share. Each test starts servers of its own.
type Library struct {
	// Open returns a store on a new client, which is closed with the test. lent returns how
	// many connections of the client's pool are in use; nil if the library does not tell.
	Open func(t testing.TB, addr string, c Client) (s store.Store, lent func() int)

	// OpenSentinel and OpenCluster return a store on a new client of several servers.
	OpenSentinel func(t testing.TB, group *redistest.Sentinel) store.Store
	OpenCluster  func(t testing.TB, cluster *redistest.Cluster) store.Store

	// OpenSentinelBehind and OpenClusterBehind do that with a router between the client and all servers.
	OpenSentinelBehind func(t testing.TB, router *redistest.Router, group *redistest.Sentinel) store.Store
	OpenClusterBehind  func(t testing.TB, router *redistest.Router, cluster *redistest.Cluster) store.Store

	// OpenRefused returns a store that finds a closed port when it connects again.
	OpenRefused func(t *testing.T) store.Store

	// OpenOccupied returns a store, and a function that occupies its client's pool for the
	// test.
	OpenOccupied func(t *testing.T, server *redistest.Server) (s store.Store, occupy func())

	// Unusable returns stores that were made without a client that can send, by name.
	Unusable func() map[string]store.Store

	Needs     []redistest.Option // what its clients need of a server, besides [Free]
	Commands  []string           // additional permissions of a user for the library
	NoAuth    string             // a server's answer to a client without the password
	Protocols []string           // the protocols that a client may choose
	Refused   []string           // those of Protocols that the tests with a refusing server use

	// ReplacesConnection says that a subscription ends with its connection. Another connection
	// replaces that one, and the other subscriptions resume.
	ReplacesConnection bool
}

// Client says which client to open. The zero value is the library's default.
type Client struct {
	User, Password string
	Protocol       string // one of Library.Protocols
	Waits          bool   // waits for an answer as long as the context allows
	Watched        bool   // its connections are watched, if the library needs that
}

// Free lets clients run the scripts of these tests, which are not Holdfast's, on any key.
var Free = redistest.Allow("~*", "&*", "+incr", "+get", "+set", "+ping", "+unsubscribe",
	"+wait", "+blpop")

// Scripts of the tests.
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
	return &script.Script{Name: "test", Text: text, SHA1: hex.EncodeToString(sum[:]), Repeats: true}
}

// start starts a server for clients of the library.
func (l Library) start(t testing.TB, more ...redistest.Option) *redistest.Server {
	t.Helper()
	return redistest.Start(t, append(append([]redistest.Option{Free}, l.Needs...), more...)...)
}

// store returns a store on such a client.
func (l Library) store(t testing.TB, addr string, c Client) store.Store {
	t.Helper()
	s, _ := l.Open(t, addr, c)
	return s
}

// eachProtocol runs a test with each protocol.
func (l Library) eachProtocol(t *testing.T, test func(t *testing.T, c Client)) {
	t.Helper()
	for _, protocol := range l.Protocols {
		t.Run(protocol, func(t *testing.T) { test(t, Client{Protocol: protocol}) })
	}
}

// Limit is a context whose Done does not follow its Deadline, like the library's contexts.
type Limit struct {
	context.Context
	At time.Time
}

// Deadline implements [context.Context].
func (l Limit) Deadline() (time.Time, bool) { return l.At, true }

// Recorder is a listener whose events a test awaits.
type Recorder struct {
	Messages chan string
	Resumed  chan struct{}
}

// NewRecorder makes a recorder that buffers that many messages.
func NewRecorder(most int) *Recorder {
	return &Recorder{make(chan string, most), make(chan struct{}, 100)}
}

// Listener returns the listener.
func (r *Recorder) Listener() store.Listener {
	return store.Listener{
		Message: func(payload string) { r.Messages <- payload },
		Look: func(restored bool) {
			if restored {
				r.Resumed <- struct{}{}
			}
		},
	}
}

// Listen subscribes until the test ends, or stop is called.
func Listen(t *testing.T, s store.Store, channel string) (r *Recorder, stop func()) {
	t.Helper()
	r = NewRecorder(100)
	stop, err := s.Listen(t.Context(), channel, r.Listener())
	assert.Must(t, err)
	t.Cleanup(stop)
	return r, stop
}
