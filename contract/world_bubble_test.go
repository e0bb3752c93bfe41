package contract_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

const ttl = 30 * time.Second

// trusted is how long a client trusts a lease of ttl after its request.
const trusted = ttl - ttl/100 - 2*time.Millisecond

// world is a server, a network and clients, in one bubble of virtual time. If a test
// leaves a goroutine running, the bubble makes it fail.
type world struct {
	*memstore.Store
	net *network
	t   *testing.T
}

func bubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		w := &world{Store: s, net: &network{Store: s, sent: map[string]int{}}, t: t}
		t.Cleanup(w.net.under.Wait)
		f(t, w)
	})
}

// runBubble runs a subtest in a bubble of its own.
func runBubble(t *testing.T, name string, f func(t *testing.T, w *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { bubble(t, f) })
}

// client makes a client that is closed with the test.
func (w *world) client(configs ...holdfast.Config) *holdfast.Client {
	w.t.Helper()
	var cfg holdfast.Config
	if len(configs) > 0 {
		cfg = configs[0]
	}
	c, err := holdfast.New(w.net, cfg)
	assert.Must(w.t, err)
	w.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// state inspects a lock without the network, and without any fault but Stall.
func (w *world) state(name string) holdfast.LockInfo {
	w.t.Helper()
	c, err := holdfast.New(w.Store, holdfast.Config{})
	assert.Must(w.t, err)
	s, err := c.Inspect(context.Background(), name)
	assert.Must(w.t, err)
	return s
}

// wantFree asserts that nobody holds the lock and nobody waits for it.
func (w *world) wantFree(name string) {
	w.t.Helper()
	if s := w.state(name); s.Held() || len(s.Waiters) > 0 {
		w.t.Errorf("%q is held by %v, and waited for by %v", name, s.Holders, s.Waiters)
	}
}

// network is between the clients and the store. It counts requests, and delays each
// request and each answer. If the context of a caller ends, its request still arrives.
type network struct {
	*memstore.Store
	under sync.WaitGroup // requests and answers under way

	mu    sync.Mutex
	sent  map[string]int
	delay func(action string) (there, back time.Duration)
}

func (n *network) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	n.mu.Lock()
	n.sent[action.Name]++
	delay := n.delay
	n.mu.Unlock()
	if at, bounded := ctx.Deadline(); bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, at)
		defer cancel()
	}
	if delay == nil {
		return n.Store.Run(ctx, action, keys, args)
	}
	type reply struct {
		answer string
		err    error
	}
	there, back := delay(action.Name)
	replies := make(chan reply, 1)
	n.under.Go(func() {
		time.Sleep(there)
		answer, err := n.Store.Run(context.WithoutCancel(ctx), action, keys, args)
		time.Sleep(back)
		replies <- reply{answer, err}
	})
	select {
	case r := <-replies:
		return r.answer, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// slow sets the delays from now on.
func (n *network) slow(delay func(action string) (there, back time.Duration)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay = delay
}

// total is the number of all requests.
func (n *network) total() (sum int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, count := range n.sent {
		sum += count
	}
	return sum
}

// count is how often an action was sent.
func (n *network) count(action string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sent[action]
}

// kept are leases that a test may leave unreleased. The garbage collector must not find
// them, because its goroutine is outside of every bubble.
var kept struct {
	sync.Mutex
	leases []*holdfast.Lease
}

func keep(l *holdfast.Lease) *holdfast.Lease {
	kept.Lock()
	defer kept.Unlock()
	kept.leases = append(kept.leases, l)
	return l
}

// mustLock acquires the lock or fails the test.
func mustLock(t *testing.T, m *holdfast.Mutex) *holdfast.Lease {
	t.Helper()
	return must(t, m.Lock)
}

// mustAcquire acquires a lock of any kind or fails the test.
func must(t *testing.T, acquire func(context.Context) (*holdfast.Lease, error)) *holdfast.Lease {
	t.Helper()
	l, err := acquire(t.Context())
	assert.Must(t, err)
	return keep(l)
}

// release releases a lease. If that fails, it fails the test.
func release(t *testing.T, l *holdfast.Lease) {
	t.Helper()
	assert.NoError(t, l.Release(t.Context()))
}

// wantLost asserts that err is a loss for a reason.
func wantLost(t *testing.T, err error, reason holdfast.LossReason) {
	t.Helper()
	var lost *holdfast.LostError
	assert.True(t, errors.Is(err, holdfast.ErrLost) && errors.As(err, &lost) && lost.Reason == reason,
		"error %v is no loss for %q", err, reason)
}

// ended waits for the end of ctx and returns its cause.
func ended(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// recorder is an Observer that records its events.
type recorder struct {
	mu     sync.Mutex
	events []holdfast.Event
}

func (r *recorder) Observe(e holdfast.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// all returns the events so far. If kinds are given, it returns only these.
func (r *recorder) all(kinds ...holdfast.EventKind) (events []holdfast.Event) {
	synctest.Wait() // another goroutine reports a loss
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if len(kinds) == 0 {
			events = append(events, e)
		}
		for _, kind := range kinds {
			if e.Kind == kind {
				events = append(events, e)
			}
		}
	}
	return events
}

// errLink is the error of a broken connection.
var errLink = errors.New("connection reset by peer")

// only makes a fault hook that fails the first n requests of one action; all if n is negative.
func only(action string, n int, err error) func(string, []string) error {
	var mu sync.Mutex
	return func(name string, _ []string) error {
		mu.Lock()
		defer mu.Unlock()
		if name != action || n == 0 {
			return nil
		}
		n--
		return err
	}
}

// babbler is a network that gives its own answer to every request.
type babbler struct {
	*network
	answer string
}

func (b *babbler) say(answer string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer = answer
}

func (b *babbler) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	b.mu.Lock()
	answer := b.answer
	b.mu.Unlock()
	if answer != "" {
		return answer, nil
	}
	return b.network.Run(ctx, action, keys, args)
}

// described is a network to a server with the given description.
type described struct {
	*network
	info  store.ServerInfo
	err   error
	asked int
}

func (d *described) Server(context.Context) (store.ServerInfo, error) {
	d.asked++
	return d.info, d.err
}
