//go:build redisson

package crossing

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A process of this library is this program again.
func TestMain(m *testing.M) {
	Driven()
	os.Exit(m.Run())
}

// long is a lease, in ms, that outlasts every wait of a test: whoever gets such a lock was told of its
// release.
const long = 10 * int64(redistest.Patience/time.Millisecond)

// short is a TTL, in ms, that a test can wait for. It is long beside what a busy machine delays.
const short = 1500

// side is one of the two libraries.
type side struct {
	name  string
	start func(Settings) (*Process, error)
}

// world is a server, and a process of each side. In a Cluster, there is no server.
type world struct {
	server  *redistest.Server
	cluster *redistest.Cluster
	a, b    *Process // a comes first: mostly it holds what b wants
}

// sides are the pairs that every crossing is tried with. Redisson beside itself shows what the test
// finds without this library.
func sides() [][2]side {
	redisson, holdfast := side{"redisson", StartJava}, side{"holdfast", StartGo}
	return [][2]side{{redisson, holdfast}, {holdfast, redisson}, {redisson, redisson}}
}

// crossed runs a test once for each pair of sides.
func crossed(t *testing.T, test func(t *testing.T, a, b side)) {
	t.Helper()
	for _, pair := range sides() {
		t.Run(pair[0].name+" and "+pair[1].name, func(t *testing.T) { test(t, pair[0], pair[1]) })
	}
}

// open starts a server and a process of each side.
func open(t *testing.T, a, b side, settings Settings) world {
	t.Helper()
	s := redistest.Start(t, redistest.Tenant(""))
	settings.Address = s.Addr()
	return world{server: s, a: run(t, a, settings), b: run(t, b, settings)}
}

// run starts a process that ends with the test.
func run(t *testing.T, s side, settings Settings) *Process {
	t.Helper()
	p, err := s.start(settings)
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	t.Cleanup(p.Destroy)
	return p
}

// say gives a process a command, and fails the test unless it is answered so.
func say(t *testing.T, want string, p *Process, thread string, words ...any) {
	t.Helper()
	is(t, want, p.Begin(thread, words...))
}

// is waits for an answer, and fails the test unless it is this one. What follows the first word, such
// as what has woken a waiter, need not be there.
func is(t *testing.T, want string, a *Answer) string {
	t.Helper()
	got, err := wait(t, a)
	assert.Must(t, err)
	if got != want && !strings.HasPrefix(got, want+" ") {
		t.Fatalf("%s: the answer is %q, not %q", a.command, got, want)
	}
	return got
}

// wait waits for an answer, and fails the test if there is none.
func wait(t *testing.T, a *Answer) (string, error) {
	t.Helper()
	limit, cancel := context.WithTimeout(t.Context(), redistest.Patience)
	defer cancel()
	select {
	case answer, ok := <-a.c:
		a.c = make(chan string, 1)
		if ok {
			a.c <- answer
		} else {
			close(a.c)
		}
		return a.Wait()
	case <-limit.Done():
		t.Fatalf("%s: no answer", a.command)
		return "", nil
	}
}

// none fails the test if the answer is there already.
func none(t *testing.T, a *Answer) {
	t.Helper()
	select {
	case answer := <-a.c:
		t.Fatalf("%s: the answer is there already: %q", a.command, answer)
	default:
	}
}

// do runs a command on the server that has a key.
func (w world) do(t *testing.T, key string, args ...any) any {
	t.Helper()
	if w.cluster != nil {
		return w.cluster.Do(t, key, args...)
	}
	return w.server.Do(t, args...)
}

// heard waits until n connections subscribe to a channel, sharded or not.
func (w world) heard(t *testing.T, channel string, n int64) {
	t.Helper()
	redistest.Await(t, fmt.Sprintf("%d subscriptions to %s", n, channel), func() bool {
		return w.subscribed(t, channel) >= n
	})
}

func (w world) subscribed(t *testing.T, channel string) (n int64) {
	t.Helper()
	if w.cluster == nil {
		return w.server.Do(t, "PUBSUB", "NUMSUB", channel).([]any)[1].(int64)
	}
	for _, s := range w.cluster.Nodes {
		n += s.Do(t, "PUBSUB", "NUMSUB", channel).([]any)[1].(int64)
		n += s.Do(t, "PUBSUB", "SHARDNUMSUB", channel).([]any)[1].(int64)
	}
	return n
}

// renewed waits until the TTL of a key has risen n times.
func (w world) renewed(t *testing.T, key string, n int) {
	t.Helper()
	last := w.do(t, key, "PTTL", key).(int64)
	rises := 0
	redistest.Await(t, fmt.Sprintf("%d renewals of %s", n, key), func() bool {
		left := w.do(t, key, "PTTL", key).(int64)
		assert.MustTrue(t, left >= 0, "%s has expired after %d renewals", key, rises)
		if left > last {
			rises++
		}
		last = left
		return rises >= n
	})
}

// channel is where a release of a lock is told.
func channel(name string) string { return tagged("redisson_lock__channel", name) }

// tagged is how Redisson names what belongs to a lock.
func tagged(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

var names atomic.Int64

// name returns a name that no other lock has.
func name() string { return fmt.Sprintf("lock-%d", names.Add(1)) }
