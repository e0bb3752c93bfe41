package contract_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// These tests are about what only looks like a deadlock: a client reports none, and no call fails.

// mortal is the connection of a process that may die: from then on the server hears nothing of
// it, and it hears nothing of the server.
type mortal struct {
	*network
	dead  atomic.Bool
	stuck atomic.Bool // it cannot withdraw anything: no cancel and no note arrives
}

func (m *mortal) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	if m.dead.Load() || m.stuck.Load() && (action == script.Cancel || action == script.RegisterClient) {
		return "", errLink
	}
	return m.network.Run(ctx, action, keys, args)
}

func (m *mortal) Listen(ctx context.Context, channel string, l store.Listener) (func(), error) {
	message := l.Message
	l.Message = func(payload string) {
		if !m.dead.Load() {
			message(payload)
		}
	}
	return m.network.Listen(ctx, channel, l)
}

// mortal makes a client whose process may die.
func (w *world) mortal(cfg holdfast.Config) (*holdfast.Client, *mortal) {
	w.t.Helper()
	m := &mortal{network: w.net}
	c, err := holdfast.New(m, cfg)
	assert.Must(w.t, err)
	w.t.Cleanup(c.Abandon)
	return c, m
}

// wantNoDeadlock asserts that nobody has reported one.
func wantNoDeadlock(t *testing.T, rec *recorder) {
	t.Helper()
	for _, e := range rec.all(holdfast.EventDeadlock) {
		t.Errorf("%v", e.Err)
	}
}

// A process dies while it holds one lock and waits for another. Its hold, its position and its
// note remain for a while. A waiter for that lock gets it when the lease ends, and not an
// error. It does not matter when the process dies, as long as no deadlock was there before.
func TestADeadProcessIsInNoDeadlock(t *testing.T) {
	for _, early := range []time.Duration{0, 8 * time.Second, 9900 * time.Millisecond} {
		bubble(t, func(t *testing.T, w *world) {
			rec := new(recorder)
			long := holdfast.Config{TTL: 10 * time.Minute}
			a, process := w.mortal(long)
			b := w.client(holdfast.Config{Observer: rec})
			y := mustLock(t, b.Mutex("y"))
			one := hold(t, nil, a.Mutex("x").Lock, a.Mutex("y").Lock)
			time.Sleep(3 * time.Minute) // its note is written
			if s := w.state("x"); len(s.Holders) != 1 || len(s.Holders[0].WaitsFor) != 1 {
				t.Fatalf("the note is not there: %+v", s.Holders)
			}
			outcome := make(chan error, 1)
			go func() {
				time.Sleep(time.Second)
				x, err := b.Mutex("x", breaks).Lock(y.Context())
				if err == nil {
					err = x.Release(t.Context())
				}
				outcome <- err
			}()
			if early == 0 {
				process.dead.Store(true)
			} else {
				time.Sleep(early)
				process.dead.Store(true)
			}
			err := <-outcome
			assert.True(t, err == nil, "died after %v: %v", early, err)
			wantNoDeadlock(t, rec)
			release(t, y)
			a.Abandon()
			<-one.ended
		})
	}
}

// A call has ended, and the server does not know: neither its cancel nor its note arrives. Its
// client goes on, and releases the lock in time.
func TestACallThatHasEndedIsInNoDeadlock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		rec := new(recorder)
		a, link := w.mortal(holdfast.Config{})
		b := w.client(holdfast.Config{Observer: rec})
		y := mustLock(t, b.Mutex("y"))
		x := mustLock(t, a.Mutex("x"))
		ctx, cancel := context.WithCancel(x.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := a.Mutex("y").Lock(ctx)
			ended <- err
		}()
		time.Sleep(25 * time.Second)
		link.stuck.Store(true)
		cancel()
		assert.Is(t, <-ended, context.Canceled)
		got := passing(y.Context(), b.Mutex("x", breaks))
		time.Sleep(2 * time.Minute)
		s := w.state("x")
		assert.True(t, len(s.Holders) == 1 && len(s.Holders[0].WaitsFor) == 1 && len(w.state("y").Waiters) == 1,
			"the server knows that the call has ended: %+v", s)
		release(t, x)
		assert.NoError(t, <-got)
		wantNoDeadlock(t, rec)
		release(t, y)
	})
}

// passing acquires the lock under ctx and releases it, in another goroutine.
func passing(ctx context.Context, m *holdfast.Mutex) <-chan error {
	passed := make(chan error, 1)
	go func() {
		l, err := m.Lock(ctx)
		if err == nil {
			err = l.Release(context.WithoutCancel(ctx))
		}
		passed <- err
	}()
	return passed
}

// A reader's lease ends while a call under it waits, and another reader of the process keeps the
// hold. The call waits for the same lock as before, and holds less.
func TestAHoldThatPassesOnIsInNoDeadlock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		rec := new(recorder)
		cfg := holdfast.Config{Observer: rec}
		a, b := w.client(cfg), w.client(cfg)
		y := mustLock(t, b.Mutex("y"))
		x := must(t, a.RWMutex("x").RLock)
		inner, err := a.Mutex("inner").Lock(x.Context())
		assert.Must(t, err)
		// It has written its note, and writes it again only a minute later.
		waits := w.waiting(a.Mutex("y", breaks, holdfast.TTL(10*time.Minute)), inner.Context())
		time.Sleep(61 * time.Second)
		beside, err := a.RWMutex("x").RLock(t.Context())
		assert.MustTrue(t, err == nil && beside.HolderID() == x.HolderID(), "the readers share no hold: %v", err)
		release(t, x)
		got := passing(y.Context(), b.Mutex("x", breaks))
		time.Sleep(2 * time.Minute)
		release(t, beside)
		assert.NoError(t, <-got)
		wantNoDeadlock(t, rec)
		release(t, y)
		release2(t, <-waits)
		release(t, inner)
	})
}

// A waiter in front has died. Its position remains for a while, and only that makes the cycle.
func TestADeadWaiterInFrontIsInNoDeadlock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		rec := new(recorder)
		cfg := holdfast.Config{Observer: rec}
		a, b := w.client(cfg), w.client(cfg)
		dying, process := w.mortal(holdfast.Config{})
		y := mustLock(t, b.Mutex("y"))
		x := must(t, a.RWMutex("x").RLock)
		writer := w.waiting(dying.Mutex("x"), t.Context())
		reader := func(ctx context.Context) (*holdfast.Lease, error) { return b.RWMutex("x", breaks).RLock(ctx) }
		one := w.waiting(a.Mutex("y", breaks), x.Context())
		process.dead.Store(true)
		got, err := reader(y.Context()) // behind the writer, until its position ends
		assert.Must(t, err)
		wantNoDeadlock(t, rec)
		release(t, got)
		release(t, y)
		release2(t, <-one)
		release(t, x)
		dying.Abandon()
		<-writer
	})
}

// The server has lost all notes: the deadlock is found all the same.
func TestADeadlockIsFoundAlthoughNotesAreLost(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		release := make(chan struct{})
		one := hold(t, release, a.Mutex("x").Lock, a.Mutex("y", breaks).Lock)
		two := hold(t, release, b.Mutex("y").Lock, b.Mutex("x", breaks).Lock)
		time.Sleep(10 * time.Second)
		for _, c := range []*holdfast.Client{a, b} {
			_, err := w.Run(t.Context(), script.RegisterClient, []string{"holdfast:client:" + c.ID()},
				[]string{"1", "a", "h", "1", "v", "1"})
			assert.Must(t, err)
		}
		start := time.Now()
		select {
		case err := <-one.ended:
			wantDeadlock(t, err, "y", "x")
		case err := <-two.ended:
			wantDeadlock(t, err, "x", "y")
		case <-time.After(time.Hour):
			t.Fatal("the deadlock is not found in an hour")
		}
		assert.AtMost(t, time.Since(start), 2*ttl, "found after")
		close(release)
		synctest.Wait()
	})
}

// A lock may have any name.
func TestADeadlockOfLocksWithOddNames(t *testing.T) {
	odd := []string{"a,b;c=d&e > f", "line\nbreak %41 +~{}|\x00\"'日本語"}
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		release := make(chan struct{})
		one := hold(t, release, a.Mutex(odd[0]).Lock, a.Mutex(odd[1], breaks).Lock)
		time.Sleep(100 * time.Millisecond)
		two := hold(t, release, b.Mutex(odd[1]).Lock, b.Mutex(odd[0], breaks).Lock)
		var dead *holdfast.DeadlockError
		if err := two.end(t); !errors.As(err, &dead) || len(dead.Cycle) != 2 || dead.Cycle[0].Name != odd[0] ||
			dead.Cycle[0].Holds != odd[1] {
			t.Errorf("%v", err)
		}
		assert.False(t, strings.Contains(dead.Error(), "\n"), "the error has several lines: %v", dead)
		close(release)
		assert.NoError(t, one.end(t))
	})
}

// A lease of several locks is one hold of each. The call that waits under it is seen under all.
func TestALeaseOfSeveralLocksInADeadlock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		release := make(chan struct{})
		both, err := a.MultiMutex([]string{"p", "x"}).Lock(t.Context())
		assert.Must(t, err)
		two := hold(t, release, b.Mutex("y").Lock, b.Mutex("p", breaks).Lock)
		time.Sleep(2 * time.Second)
		ctx, cancel := context.WithTimeout(both.Context(), time.Hour)
		defer cancel()
		got, err := a.Mutex("y", breaks).Lock(ctx)
		assert.MustTrue(t, err != nil, "the lock was free %v", got)
		wantDeadlock(t, err, "y", "p")
		assert.NoError(t, both.Release(t.Context()))
		close(release)
		assert.NoError(t, two.end(t))
	})
}

// Many chains acquire locks of every kind in a random order, each under the one before. Every
// wait ends, although nobody knows an order, and every error names waits that were there.
func TestDeadlocksAreTrue(t *testing.T) {
	for seed := range uint64(15) {
		bubble(t, func(t *testing.T, w *world) { randomChains(t, w, rand.New(rand.NewPCG(seed, 7)), seed) })
	}
}

// truth is what chains really do.
type truth struct {
	mu    sync.Mutex
	waits map[string]string    // by the client's ID: the lock that it waits for
	left  map[string]time.Time // when it last began not to wait
}

func (tr *truth) set(client, name string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.waits[client] = name; name == "" {
		tr.left[client] = time.Now()
	}
}

// check asserts that the waits of a cycle are there, or that they ended a moment ago.
func (tr *truth) check(t *testing.T, seed uint64, dead *holdfast.DeadlockError) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, one := range dead.Cycle {
		assert.False(t, tr.waits[one.ClientID] != one.Name && time.Since(tr.left[one.ClientID]) > ttl,
			"seed %d: %s does not wait for %q: %v", seed, one.ClientID, one.Name, dead)
	}
}

func randomChains(t *testing.T, w *world, r *rand.Rand, seed uint64) {
	tr := &truth{waits: map[string]string{}, left: map[string]time.Time{}}
	var all sync.WaitGroup
	var found atomic.Int64
	for range 8 {
		c, r := w.client(), rand.New(rand.NewPCG(r.Uint64(), 1))
		all.Go(func() {
			for range 6 {
				ctx := t.Context()
				var leases []*holdfast.Lease
				for _, n := range r.Perm(4)[:1+r.IntN(3)] {
					tr.set(c.ID(), fmt.Sprint(n))
					l, err := anyKind(c, r, n)(ctx)
					tr.set(c.ID(), "")
					var dead *holdfast.DeadlockError
					var held *holdfast.HeldError
					switch {
					case errors.As(err, &dead):
						found.Add(1)
						tr.check(t, seed, dead)
					case errors.As(err, &held) && held.Waited < forEver-time.Minute:
					case err != nil:
						t.Errorf("seed %d: %v", seed, err)
					}
					if err != nil {
						break
					}
					leases, ctx = append(leases, keep(l)), l.Context()
					time.Sleep(time.Duration(r.IntN(int(5 * time.Second))))
				}
				for _, l := range leases {
					release(t, l)
				}
				time.Sleep(time.Duration(r.IntN(int(time.Second))))
			}
		})
	}
	all.Wait()
	for n := range 4 {
		w.wantFree(fmt.Sprint(n))
	}
	assert.True(t, found.Load() != 0, "seed %d: the chains made no deadlock", seed)
}

// forEver is longer than any wait may last.
const forEver = 2 * time.Hour

// anyKind is a lock of a random kind: 0 and 1 are read-write locks, 2 is a mutex, 3 a semaphore.
func anyKind(c *holdfast.Client, r *rand.Rand, n int) locker {
	name := fmt.Sprint(n)
	wait := forEver
	if r.IntN(4) == 0 {
		wait = time.Duration(r.IntN(int(time.Minute)))
	}
	options := []any{breaks, holdfast.MaxWait(wait)}
	switch {
	case n == 3:
		s := c.Semaphore(name, 3, as[holdfast.SemaphoreOption](options)...)
		return func(ctx context.Context) (*holdfast.Lease, error) { return s.Acquire(ctx, 1+r.IntN(3)) }
	case n == 2:
		return c.Mutex(name, as[holdfast.MutexOption](options)...).Lock
	case r.IntN(2) == 0:
		return c.RWMutex(name, as[holdfast.RWMutexOption](options)...).RLock
	}
	return c.RWMutex(name, as[holdfast.RWMutexOption](options)...).Lock
}

// as are options for one kind.
func as[T any](options []any) (list []T) {
	for _, o := range options {
		list = append(list, o.(T))
	}
	return list
}
