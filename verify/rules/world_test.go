package rules_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

func TestMain(m *testing.M) {
	// The tests mostly wait for leases to end by the server's clock.
	harness.Program{Child: obey, Parallel: 4}.Main(m)
}

// world is a server and one of the clients to reach it with.
type world struct {
	*redistest.Server
	adapter harness.Adapter
}

// each runs a test with each of the clients, on a server of its own. The two
// run side by side, and beside those of other tests: all spend their time
// waiting.
func each(t *testing.T, test func(t *testing.T, w *world)) {
	t.Parallel()
	for _, a := range harness.Adapters {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			test(t, &world{redistest.Start(t), a})
		})
	}
}

// open makes a store with a connection of its own straight to the server.
func (w *world) open(t testing.TB, as harness.Login) store.Store {
	t.Helper()
	return w.adapter.Server(t, w.Addr(), as, 0)
}

// client makes a client with a connection of its own to addr, which is
// closed with the test.
func (w *world) client(t testing.TB, addr string, cfg holdfast.Config) (*holdfast.Client, *harness.Watch) {
	t.Helper()
	return harness.Client(t, w.adapter.Server(t, addr, harness.Login{}, 0), cfg)
}

// local makes a client with a connection of its own straight to the server.
func (w *world) local(t testing.TB, cfg holdfast.Config) (*holdfast.Client, *harness.Watch) {
	t.Helper()
	return w.client(t, w.Addr(), cfg)
}

// warm gives the scripts to the server, opens the connection and lets the
// client make itself known, so that from now on every action is one EVALSHA.
func (w *world) warm(t testing.TB, c *holdfast.Client) {
	t.Helper()
	for _, s := range script.All() {
		w.Do(t, "SCRIPT", "LOAD", s.Text)
	}
	harness.Release(t, harness.Lock(t, c.Mutex("warm")))
	w.known(t, c)
}

// known waits until a client has made itself known, which it does once, beside
// its first acquisition.
func (w *world) known(t testing.TB, c *holdfast.Client) {
	t.Helper()
	redistest.Await(t, "the client is known", func() bool {
		return w.Do(t, "EXISTS", redistest.Prefix()+":client:"+c.ID()) == int64(1)
	})
}

// state inspects a lock.
func state(t testing.TB, c *holdfast.Client, name string) holdfast.LockInfo {
	t.Helper()
	s, err := c.Inspect(harness.Within(t), name)
	assert.Must(t, err)
	return s
}

// refused reports that err is the server's definite answer, with this code.
func refused(err error, code string) bool {
	var answer *holdfast.ServerError
	return errors.As(err, &answer) && answer.Code == code && !errors.Is(err, holdfast.ErrUnknownOutcome)
}

// pushes is what the channels of all clients begin with.
var pushes = redistest.Prefix() + ":push:"

// channel is where the pushes for a client arrive.
func channel(c *holdfast.Client) string { return pushes + c.ID() }

// listeners is how many connections listen to the client's pushes.
func (w *world) listeners(t testing.TB, c *holdfast.Client) int64 {
	t.Helper()
	reply, _ := w.Do(t, "PUBSUB", "NUMSUB", channel(c)).([]any)
	assert.MustEqual(t, len(reply), 2, "PUBSUB NUMSUB: %v", reply)
	return reply[1].(int64)
}

// is reports whether a request is the named action, by its digest.
func is(request []string, sha1 string) bool {
	return len(request) > 1 && strings.EqualFold(request[0], "EVALSHA") && request[1] == sha1
}

// keyOf is the key that a request is about, empty if it has none.
func keyOf(request []string) string {
	if len(request) < 4 || !strings.HasPrefix(strings.ToUpper(request[0]), "EVAL") {
		return ""
	}
	return request[3]
}
