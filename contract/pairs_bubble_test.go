// Two calls on one lease at the same moment, under chance: a writer is alone (G24), tokens rise (G3), no call hangs,
// and nothing is left behind (G13).

package contract_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

var pairWorlds = flag.Int("pairs", 150, "how many worlds TestTwoCallsOnALeaseAtOnce lives through")

const (
	pairTTL  = time.Second
	pairLate = 400 * time.Millisecond // a release may take two requests, and look for an eviction
)

// held is what a Lease and a MultiLease have in common.
type held interface {
	Err() error
	Remaining() time.Duration
	Extend(ctx context.Context, ttl time.Duration) error
	Shorten(ctx context.Context, ttl time.Duration) error
	Release(ctx context.Context) error
}

// pairs is one world: goroutines of two clients that hold a lock and make two calls at the same moment.
type pairs struct {
	storm
	t       *testing.T
	kinds   []string // of the calls that acquire the lock
	holders []*actor
	newest  uint64 // the highest token of a writer
	evicts  bool   // an eviction lets two clients trust the lock for a while
	closes  bool   // a client closes, and then a call sends its last cancel itself
}

// pairKinds are the ways to acquire the lock. A writer and a reader are those of an RWMutex.
var pairKinds = []string{"writer", "reader", "several locks", "no renewal", "permits", "mutex", "mutex"}

// actor is a goroutine with a lease.
type actor struct {
	*pairs
	name     string
	client   *holdfast.Client
	kind     string
	read     time.Duration // the TTL of a reader
	all      held
	token    uint64
	one      *holdfast.Lease // nil if it holds several locks
	again    func(context.Context) (*holdfast.Lease, error)
	under    []*holdfast.Lease // acquired under the context of one, in this pair; guarded by mu
	writes   bool              // it surely writes; guarded by mu
	longer   atomic.Bool       // it was extended
	shorter  atomic.Bool       // it was shortened
	upgraded atomic.Bool       // in this pair
	lowered  atomic.Bool       // in this pair, perhaps
}

func (ps *pairs) n(n int) int {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.rng.IntN(n)
}

// together runs f in several goroutines. It reports a panic.
func (ps *pairs) together(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					ps.t.Errorf("panic: %v\n%s", p, debug.Stack())
				}
			}()
			f(i)
		})
	}
	all.Wait()
}

// hesitant is a context that makes its caller pause now and then, as a busy machine does.
type hesitant struct {
	context.Context
	of     *pairs
	paused atomic.Int64
}

func (h *hesitant) Err() error {
	if h.of.n(3) == 0 {
		d := h.of.upTo(500 * time.Microsecond)
		h.paused.Add(int64(d))
		time.Sleep(d)
	}
	return h.Context.Err()
}

// try makes a call with a context that ends: at its deadline, or without one. The call must be back by
// then, or late after that.
func (a *actor) try(what string, late time.Duration, f func(ctx context.Context) error) error {
	limit, start := max(a.upTo(30*time.Millisecond), 1), time.Now()
	ctx, cancel := context.WithCancel(a.t.Context())
	defer time.AfterFunc(limit, cancel).Stop()
	if a.n(2) == 0 {
		ctx, cancel = context.WithTimeout(a.t.Context(), limit)
	}
	defer cancel()
	h := &hesitant{Context: ctx, of: a.pairs}
	a.t.Logf("%s %s...", a.name, what)
	err := f(h)
	a.t.Logf("%s %s: %v", a.name, what, err)
	if a.closes {
		late = pairLate
	}
	if took := time.Since(start); took > limit+late+time.Duration(h.paused.Load()) {
		a.t.Errorf("%s: %s took %v with a context of %v: %v", a.name, what, took, limit, err)
	}
	return err
}

// in notes a holder. The lease is asked before and after another one is, so both were held at once.
func (a *actor) in(writes bool, token uint64) {
	a.mu.Lock()
	before, others := a.newest, slices.Clone(a.holders)
	a.holders = append(a.holders, a)
	if a.writes = writes; writes {
		a.newest = max(a.newest, token)
	}
	a.mu.Unlock()
	if a.evicts {
		return
	}
	if token != 0 && token <= before && a.all.Err() == nil {
		a.t.Errorf("%s has token %d after %d", a.name, token, before)
	}
	for _, o := range others {
		a.mu.Lock()
		alone := writes || o.writes
		a.mu.Unlock()
		if alone && o != a && a.all.Err() == nil && o.all.Err() == nil && a.all.Err() == nil {
			a.t.Errorf("%s and %s hold the lock", a.name, o.name)
		}
	}
}

// acquire acquires the lock.
func (a *actor) acquire(ctx context.Context) (err error) {
	m, rw := a.client.Mutex("a", holdfast.Reentrant()), a.client.RWMutex("a", holdfast.ReadTTL(a.read))
	lock := m.Lock
	a.again = m.Lock
	switch a.kind {
	case "writer":
		lock, a.again = rw.Lock, rw.RLock
	case "reader":
		lock, a.again = rw.RLock, rw.RLock
	case "permits":
		s := a.client.Semaphore("a", 3)
		lock = func(ctx context.Context) (*holdfast.Lease, error) { return s.Acquire(ctx, 2) }
		a.again = func(ctx context.Context) (*holdfast.Lease, error) { return s.TryAcquire(ctx, 1) }
	case "no renewal":
		lock = a.client.Mutex("a", holdfast.Reentrant(), holdfast.NoRenewal()).Lock
	case "several locks":
		l, err := a.client.MultiMutex([]string{"a", "b"}).Lock(ctx)
		if err == nil {
			a.all, a.token = l, l.Token("a")
		}
		return err
	}
	if a.one, err = lock(ctx); err == nil {
		a.all, a.token = keep(a.one), a.one.Token()
	}
	return err
}

// turn acquires the lock, makes pairs of calls on the lease, and releases it.
func (a *actor) turn() {
	time.Sleep(a.upTo(5 * time.Millisecond))
	if a.try("lock: "+a.kind, 0, a.acquire) != nil {
		return
	}
	a.in(a.kind != "reader" && a.kind != "permits", a.token)
	time.Sleep(a.upTo(2 * time.Millisecond))
	if left := a.all.Remaining(); a.kind != "reader" && left > pairTTL {
		a.t.Errorf("%s has %v, of the goroutine before", a.name, left)
	}
	if a.kind == "no renewal" && a.n(2) == 0 {
		time.Sleep(a.all.Remaining())
		_ = a.all.Err() // at the moment of its end
	}
	all := []held{a.all}
	if a.one != nil && a.n(2) == 0 {
		if inner, _ := a.again(a.one.Context()); inner != nil {
			all = append(all, keep(inner))
		}
	}
	for range 1 + a.n(2) {
		a.together(2, func(int) { a.op() })
		if up, down := a.upgraded.Swap(false), a.lowered.Swap(false); up && !down {
			a.in(true, 0) // its token is that of the reader
			a.noReaderBeside()
		}
		under := a.under
		a.under = nil
		a.together(len(under), func(i int) { _ = a.try("release another", pairLate, under[i].Release) })
	}
	a.together(len(all), func(i int) { _ = a.try("release", pairLate, all[i].Release) })
}

// noReaderBeside checks that no reader of the time before an upgrade is left beside the writer. A reader that
// was acquired under the writer has the token of that one.
func (a *actor) noReaderBeside() {
	for _, inner := range a.under {
		if inner.Token() < a.one.Token() && inner.Err() == nil && a.one.Err() == nil {
			a.t.Errorf("%s is a writer with token %d beside a reader with %d", a.name, a.one.Token(), inner.Token())
		}
	}
}

// pairCall is a call on a lease, with the name of its method.
type pairCall struct {
	name string
	of   func(a *actor) bool // whether the lease has the call; nil: every lease has
	do   func(a *actor)
}

func (a *actor) isOne() bool    { return a.one != nil }
func (a *actor) converts() bool { return a.kind == "writer" || a.kind == "reader" }

// pairCalls are all calls that may change a lease or what it holds. The second group is of calls that are no
// methods of a lease and meet it all the same.
var pairCalls = []pairCall{
	{"Extend", func(a *actor) bool { return a.kind != "reader" }, func(a *actor) {
		a.longer.Store(true)
		err := a.try("extend", 0, func(ctx context.Context) error { return a.all.Extend(ctx, 3*pairTTL) })
		if errors.Is(err, holdfast.ErrInvalid) && !a.shorter.Load() {
			a.t.Errorf("%s: a lease that was not shortened: %v", a.name, err)
		}
	}},
	{"Shorten", nil, func(a *actor) {
		a.shorter.Store(true)
		_ = a.try("shorten", 0, func(ctx context.Context) error { return a.all.Shorten(ctx, pairTTL/4) })
	}},
	{"Upgrade", (*actor).converts, func(a *actor) { a.convert(true) }},
	{"Downgrade", (*actor).converts, func(a *actor) { a.convert(false) }},
	{"KeepPermits", func(a *actor) bool { return a.kind == "permits" }, func(a *actor) {
		_ = a.try("keep permits", 0, func(ctx context.Context) error { return a.one.KeepPermits(ctx, 1) })
	}},
	{"ReleaseAfter", (*actor).isOne, func(a *actor) {
		_ = a.try("release after", pairLate, func(ctx context.Context) error {
			return a.one.ReleaseAfter(ctx, 20*time.Millisecond)
		})
	}},
	{"Release", nil, func(a *actor) { _ = a.try("release", pairLate, a.all.Release) }},

	{"join", (*actor).isOne, func(a *actor) {
		if inner, err := a.again(a.one.Context()); err == nil {
			a.mu.Lock()
			a.under = append(a.under, keep(inner))
			a.mu.Unlock()
		}
	}},
	{"evict", func(a *actor) bool { return a.evicts }, func(a *actor) {
		_ = a.try("evict", 0, func(ctx context.Context) error {
			_, err := a.client.Evict(ctx, "a", holdfast.Eviction{By: "op", Reason: "pairs"})
			return err
		})
	}},
}

// Every method of a lease that may ask the server is one of the calls that meet.
func TestEveryCallOnALeaseMeetsTheOthers(t *testing.T) {
	lease, ctx := reflect.TypeFor[*holdfast.Lease](), reflect.TypeFor[context.Context]()
	for i := range lease.NumMethod() {
		m := lease.Method(i)
		if m.Type.NumIn() < 2 || m.Type.In(1) != ctx {
			continue
		}
		known := slices.ContainsFunc(pairCalls, func(c pairCall) bool { return c.name == m.Name })
		assert.True(t, known, "Lease.%s is not in pairCalls: what if it meets another call?", m.Name)
	}
}

// op makes one call.
func (a *actor) op() {
	time.Sleep(a.upTo(200 * time.Microsecond))
	for {
		if c := pairCalls[a.n(len(pairCalls))]; c.of == nil || c.of(a) {
			c.do(a)
			return
		}
	}
}

// convert makes a writer of a reader, or a reader of a writer.
func (a *actor) convert(up bool) {
	a.mu.Lock()
	a.writes = false // until that is sure again
	a.mu.Unlock()
	if up {
		if a.try("upgrade", 0, a.one.Upgrade) == nil {
			a.upgraded.Store(true)
		}
		return
	}
	a.lowered.Store(true)
	err := a.try("downgrade", 0, a.one.Downgrade)
	was := a.kind == "writer" && !a.longer.Load()
	if left := a.one.Remaining(); err == nil && was && left > max(pairTTL, a.read) {
		a.t.Errorf("%s has %v as a reader, and asked for %v", a.name, left, a.read)
	}
}

// disturb makes the network slow, late or faulty, or leaves it as it is.
func (ps *pairs) disturb(seed int) {
	if seed%4 > 0 {
		ps.network(seed%4 == 3)
	}
	if seed%4 > 1 {
		ps.w.net.slow(func(string) (there, back time.Duration) {
			if ps.n(10) == 0 {
				return ps.upTo(200 * time.Millisecond), 0
			}
			return ps.upTo(time.Millisecond), ps.upTo(time.Millisecond)
		})
	}
}

// live is the whole life of a world.
func (ps *pairs) live(seed int) {
	w, t := ps.w, ps.t
	for range 1 + ps.n(4) {
		ps.kinds = append(ps.kinds, pairKinds[ps.n(len(pairKinds))])
	}
	ps.disturb(seed)
	clients := []*holdfast.Client{
		w.client(holdfast.Config{TTL: pairTTL, RequestTimeout: pairLate / 4}),
		w.client(holdfast.Config{
			TTL: pairTTL, RequestTimeout: pairLate / 4,
			MaxLocalHandOvers: []int{0, 2, -1}[ps.n(3)], Observer: &recorder{},
		}),
	}
	end := []func(){func() { _ = clients[1].Close(t.Context()) }, clients[1].Abandon}[ps.n(2)]
	if ps.closes = seed%5 == 0; ps.closes {
		time.AfterFunc(ps.upTo(30*time.Millisecond), end)
	}
	ps.together(6, func(i int) {
		for range 3 {
			(&actor{
				pairs: ps, name: fmt.Sprintf("goroutine %d of client %d", i/2, i%2), client: clients[i%2],
				kind: ps.kinds[ps.n(len(ps.kinds))], read: []time.Duration{pairTTL / 4, pairTTL, 3 * pairTTL}[ps.n(3)],
			}).turn()
		}
	})
	w.FailRequest(nil)
	w.LoseReply(nil)
	w.DropPushes(0)
	w.net.slow(nil)
	time.Sleep(time.Minute) // longer than any lease, and than what is under way
	synctest.Wait()
	if !ps.closes { // after a Close, a position may stay in the record until somebody asks for the lock
		w.wantFree("a")
		w.wantFree("b")
	}
	for i, c := range clients {
		if i == 0 || !ps.closes {
			release(t, must(t, c.Mutex("a").TryLock))
			release(t, must(t, c.RWMutex("a").TryRLock))
		}
		err, s := c.Close(t.Context()), c.Stats()
		assert.True(t, (err == nil || ps.closes) && s.Calls+s.Waiters+s.Holds+s.Cancels+s.Subscriptions == 0,
			"client %d keeps %+v: %v", i, s, err)
	}
}

// Guarantee: whatever two calls on a lease come at the same moment, a writer is alone, tokens rise, every
// call returns in time, and nothing stays behind. A failure prints its world, for -run, and the steps.
func TestTwoCallsOnALeaseAtOnce(t *testing.T) {
	for seed := range *pairWorlds {
		runBubble(t, fmt.Sprint(seed), func(t *testing.T, w *world) {
			ps := &pairs{t: t, evicts: seed%3 == 0}
			ps.w, ps.rng = w, rand.New(rand.NewPCG(uint64(seed), 13))
			defer time.AfterFunc(2*time.Minute, func() { panic(fmt.Sprint("a call hangs in world ", seed)) }).Stop()
			ps.live(seed)
		})
		if t.Failed() {
			return
		}
	}
}
