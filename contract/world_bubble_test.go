// The world of every test: a server in memory, a network, clients, and what several tests do with them. The faults
// of the network are in faults_bubble_test.go.

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
	"github.com/holdfast-go/holdfast/observe"
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
	return w.over(w.net, cfg)
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
	leases []any
}

// keep keeps a lease of any type.
func keep[L any](l L) L {
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

// must acquires a lock of any kind or fails the test.
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
	events []observe.Event
}

func (r *recorder) Observe(e observe.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// all returns the events so far. If kinds are given, it returns only these.
func (r *recorder) all(kinds ...observe.EventKind) (events []observe.Event) {
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

// over makes a client of a store, which is closed with the test.
func (w *world) over(s store.Store, cfg holdfast.Config) *holdfast.Client {
	w.t.Helper()
	c, err := holdfast.New(s, cfg)
	assert.Must(w.t, err)
	w.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func mustLockAll(t *testing.T, m *holdfast.MultiMutex) *holdfast.MultiLease {
	t.Helper()
	l, err := m.Lock(t.Context())
	assert.Must(t, err)
	return keep(l)
}

func releaseAll(t *testing.T, l *holdfast.MultiLease) {
	t.Helper()
	assert.NoError(t, l.Release(t.Context()))
}

func mustCampaign(t *testing.T, e *holdfast.Election, value string) *holdfast.Leadership {
	t.Helper()
	l, err := e.Campaign(t.Context(), value)
	assert.Must(t, err)
	return keep(l)
}

func resign(t *testing.T, l *holdfast.Leadership) {
	t.Helper()
	assert.NoError(t, l.Release(t.Context()))
}

// permits is an acquisition of n permits.
func permits(s *holdfast.Semaphore, n int) func(context.Context) (*holdfast.Lease, error) {
	return func(ctx context.Context) (*holdfast.Lease, error) { return s.Acquire(ctx, n) }
}

func evict(t *testing.T, c *holdfast.Client, name string, token uint64) {
	t.Helper()
	evictBy(t, c, name, holdfast.Eviction{Token: token})
}

// takeAway ends a hold at once, whether its holder is still at work or not.
func takeAway(t *testing.T, c *holdfast.Client, name string, token uint64) {
	t.Helper()
	evictBy(t, c, name, holdfast.Eviction{Token: token, AtOnce: true})
}

func evictBy(t *testing.T, c *holdfast.Client, name string, e holdfast.Eviction) {
	t.Helper()
	e.By, e.Reason = "ann", "the job {hangs}"
	n, err := c.Evict(t.Context(), name, e)
	assert.MustTrue(t, n == 1 && err == nil, "%d holds were evicted, %v", n, err)
}

// job counts the runs of one name.
type job struct {
	mu   sync.Mutex
	runs []time.Time
	busy bool
	t    *testing.T
	take time.Duration // of one run
	err  error         // of each
}

func (j *job) run(ctx context.Context) error {
	j.mu.Lock()
	assert.False(j.t, j.busy, "two runs at once")
	j.busy = true
	j.runs = append(j.runs, time.Now())
	j.mu.Unlock()
	if j.take > 0 {
		select {
		case <-time.After(j.take):
		case <-ctx.Done():
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.busy = false
	return j.err
}

func (j *job) count() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.runs)
}

// do runs the job if it is due.
func (j *job) do(p *holdfast.Periodic) holdfast.RunResult {
	j.t.Helper()
	turn, err := p.Do(j.t.Context(), j.run)
	assert.NoError(j.t, err)
	return turn
}

// loop runs a job in a loop for some time and returns its error.
func loop(t *testing.T, p *holdfast.Periodic, during time.Duration, f func(ctx context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), during)
	defer cancel()
	return p.Loop(ctx, f)
}

const limit = 500 * time.Millisecond

// waiting starts an acquisition that has to wait, and returns when it is in the wait
// queue. The lease, or the error, comes over the channel.
func (w *world) waiting(m *holdfast.Mutex, ctx context.Context) <-chan outcome { //nolint:revive // as m.Lock(ctx)
	return acquiring(ctx, m.Lock)
}

// passing acquires a lock of any kind and releases it. It returns when that is done or waits.
func passing[L interface{ Release(context.Context) error }](
	ctx context.Context, lock func(context.Context) (L, error),
) <-chan error {
	passed := make(chan error, 1)
	go func() {
		l, err := lock(ctx)
		if err == nil {
			err = l.Release(context.WithoutCancel(ctx))
		}
		passed <- err
	}()
	synctest.Wait()
	return passed
}

// outcome is how an acquisition ended.
type outcome struct {
	*holdfast.Lease
	err error
	at  time.Time
}

// taking starts an acquisition, and returns when it is done or waits.
func taking(t *testing.T, take func(context.Context) (*holdfast.Lease, error)) <-chan outcome {
	t.Helper()
	return acquiring(t.Context(), take)
}

// acquiring starts an acquisition, and returns when it is done or waits.
func acquiring(ctx context.Context, take func(context.Context) (*holdfast.Lease, error)) <-chan outcome {
	ch := make(chan outcome, 1)
	go func() {
		l, err := take(ctx)
		ch <- outcome{keep(l), err, time.Now()}
	}()
	synctest.Wait()
	return ch
}

// done returns the lease of an acquisition, and fails the test if it waits.
func done(t *testing.T, what string, ch <-chan outcome) *holdfast.Lease {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-ch:
		assert.MustTrue(t, got.err == nil, "%s: %v", what, got.err)
		return got.Lease
	default:
		t.Fatalf("%s waits", what)
		return nil
	}
}

// waits fails the test if an acquisition is done.
func waits(t *testing.T, what string, ch <-chan outcome) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-ch:
		t.Fatalf("%s is done: %v", what, got.err)
	default:
	}
}

// wantOver asserts that a wait ends after limit, or one last poll later. Its error must
// be ErrHeld, and neither a context's error nor an unknown outcome.
func wantOver(
	t *testing.T, limit time.Duration, lock func(context.Context) (*holdfast.Lease, error),
) *holdfast.HeldError {
	t.Helper()
	start := time.Now()
	l, err := lock(t.Context())
	took := time.Since(start)
	assert.True(t, l == nil && took >= limit && took <= limit+250*time.Millisecond,
		"%v, %v after %v, want the end of a wait of %v", l, err, took, limit)
	return wantHeld(t, err, took)
}

// wantHeld asserts that err is a HeldError, and neither a context's error nor an unknown
// outcome.
func wantHeld(t *testing.T, err error, took time.Duration) *holdfast.HeldError {
	t.Helper()
	held := &holdfast.HeldError{}
	assert.MustTrue(t, errors.Is(err, holdfast.ErrHeld) && errors.As(err, &held), "error %v is no HeldError", err)
	for _, lie := range []error{holdfast.ErrUnknownOutcome, context.DeadlineExceeded, context.Canceled} {
		assert.False(t, errors.Is(err, lie), "error %v is a %q, and no context of the caller's has ended", err, lie)
	}
	assert.True(t, held.Waited <= took, "it says that it waited %v, and took %v", held.Waited, took)
	return held
}

// margin is how long before the expiry a lease ends.
func margin(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// each converts options of every kind to options of one kind.
func each[O, Any any](options []Any) (of []O) {
	for _, option := range options {
		of = append(of, any(option).(O))
	}
	return of
}
