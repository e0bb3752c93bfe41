package rules_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
	rueidisstore "github.com/holdfast-go/holdfast/store/rueidis"
	"github.com/holdfast-go/holdfast/verify/internal/leaks"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(envRole); role != "" {
		os.Exit(obey(role))
	}
	redis.SetLogger(quiet{}) // the tests that need no server would be reported
	// The tests mostly wait, for leases to end by the server's clock.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	leaks.Main(m)
}

// quiet is a logger of go-redis.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// login is how a client presents itself; the zero value is the default user.
type login struct{ user, password string }

// adapters make a store on the server at addr, with the two clients.
var adapters = []struct {
	name string
	open func(t testing.TB, addr string, as login) store.Store
}{
	{"goredis", openGoRedis},
	{"rueidis", openRueidis},
}

func openGoRedis(t testing.TB, addr string, as login) store.Store {
	rdb := redis.NewClient(&redis.Options{
		Addr: addr, Username: as.user, Password: as.password, TLSConfig: redistest.TLS(),
	})
	t.Cleanup(func() { rdb.Close() })
	return goredis.New(rdb)
}

// openRueidis connects at once, as rueidis does: there must be a server.
func openRueidis(t testing.TB, addr string, as login) store.Store {
	rdb, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, Username: as.user, Password: as.password, TLSConfig: redistest.TLS(),
		DisableCache: true, ForceSingleClient: true, ConnWriteTimeout: 2 * time.Second,
	})
	if err != nil {
		t.Fatalf("rueidis: %v", err)
	}
	t.Cleanup(rdb.Close)
	return rueidisstore.New(rdb)
}

// world is a server and one of the clients to reach it with.
type world struct {
	*redistest.Server
	adapter string
	open    func(t testing.TB, addr string, as login) store.Store
}

// each runs a test with each of the clients, on a server of its own. The two
// run side by side, and beside those of other tests: all spend their time
// waiting.
func each(t *testing.T, test func(t *testing.T, w *world)) {
	t.Parallel()
	apart(t, test)
}

// apart is each for a test that judges how soon something happens: it has no
// company but itself, with the other client.
func apart(t *testing.T, test func(t *testing.T, w *world)) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			test(t, &world{Server: redistest.Start(t), adapter: a.name, open: a.open})
		})
	}
}

// client makes a client with a connection of its own to addr, which is
// closed with the test.
func (w *world) client(t testing.TB, addr string, cfg holdfast.Config) (*holdfast.Client, *watch) {
	t.Helper()
	return on(t, w.open(t, addr, login{}), cfg)
}

// local makes a client with a connection of its own straight to the server.
func (w *world) local(t testing.TB, cfg holdfast.Config) (*holdfast.Client, *watch) {
	t.Helper()
	return w.client(t, w.Addr(), cfg)
}

// on makes a client of a store.
func on(t testing.TB, s store.Store, cfg holdfast.Config) (*holdfast.Client, *watch) {
	t.Helper()
	seen := newWatch()
	cfg.Observer = seen
	cfg.Prefix = cmp.Or(cfg.Prefix, redistest.Prefix())
	cfg.App = cmp.Or(cfg.App, "rules")
	c, err := holdfast.New(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A link that is still silent must not hold the test up.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		c.Close(ctx)
	})
	return c, seen
}

// warm gives the scripts to the server, opens the connection and lets the
// client make itself known, so that from now on every action is one EVALSHA.
func (w *world) warm(t testing.TB, c *holdfast.Client) {
	t.Helper()
	for _, s := range script.All() {
		w.Do(t, "SCRIPT", "LOAD", s.Text)
	}
	release(t, lock(t, c.Mutex("warm")))
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

// within is redistest.Patience, also for what cleans up after the test.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), redistest.Patience)
	t.Cleanup(cancel)
	return ctx
}

func lock(t testing.TB, m *holdfast.Mutex) *holdfast.Lease {
	t.Helper()
	l, err := m.Lock(within(t))
	if err != nil {
		t.Fatalf("Lock: %v", err)
	}
	return l
}

func release(t testing.TB, l *holdfast.Lease) {
	t.Helper()
	if err := l.Release(within(t)); err != nil {
		t.Errorf("Release: %v", err)
	}
}

// outcome is what Lock returned, and what was true at that moment.
type outcome struct {
	lease *holdfast.Lease
	err   error
	at    time.Time
}

// locking locks in a goroutine of its own.
func locking(ctx context.Context, m *holdfast.Mutex) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		l, err := m.Lock(ctx)
		done <- outcome{l, err, time.Now()}
	}()
	return done
}

// granted waits for an acquisition that must succeed.
func granted(t testing.TB, c <-chan outcome) *holdfast.Lease {
	t.Helper()
	o := redistest.Next(t, "Lock", c)
	if o.err != nil {
		t.Fatalf("Lock: %v", o.err)
	}
	return o.lease
}

// state inspects a lock.
func state(t testing.TB, c *holdfast.Client, name string) holdfast.LockInfo {
	t.Helper()
	s, err := c.Inspect(within(t), name)
	if err != nil {
		t.Fatalf("Inspect: %v", err)
	}
	return s
}

// lost waits for the end of a lease that nobody released, and checks that
// everything about it says why.
func lost(t testing.TB, l *holdfast.Lease, reason holdfast.LossReason) {
	t.Helper()
	redistest.Next(t, "the end of the lease", l.Context().Done())
	cause := context.Cause(l.Context())
	var why *holdfast.LostError
	if !errors.As(cause, &why) || why.Reason != reason || !errors.Is(cause, holdfast.ErrLost) {
		t.Errorf("the cause of the end is %v, want loss: %s", cause, reason)
	}
	if !errors.Is(l.Err(), holdfast.ErrLost) || l.Remaining() != 0 {
		t.Errorf("after the loss: Err %v, Remaining %v", l.Err(), l.Remaining())
	}
}

// refused reports that err is the server's definite answer, with this code.
func refused(err error, code string) bool {
	var answer *holdfast.ServerError
	return errors.As(err, &answer) && answer.Code == code && !errors.Is(err, holdfast.ErrUnknownOutcome)
}

// record is where a lock has its record.
func record(name string) string { return redistest.Prefix() + ":{" + name + "}" }

// pushes is what the channels of all clients begin with.
var pushes = redistest.Prefix() + ":push:"

// channel is where the pushes for a client arrive.
func channel(c *holdfast.Client) string { return pushes + c.ID() }

// listeners is how many connections listen to the client's pushes.
func (w *world) listeners(t testing.TB, c *holdfast.Client) int64 {
	t.Helper()
	reply, _ := w.Do(t, "PUBSUB", "NUMSUB", channel(c)).([]any)
	if len(reply) != 2 {
		t.Fatalf("PUBSUB NUMSUB: %v", reply)
	}
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
