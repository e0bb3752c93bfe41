// Processes never deadlock each other with sets of locks (G19). Where they do otherwise, it is reported, and
// BreakDeadlock ends the youngest wait. What only looks like a deadlock is not reported, and no call fails.

package contract_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/script"
)

// locker is a lock of any kind.
type locker func(ctx context.Context) (*holdfast.Lease, error)

// chain acquires locks one under the context of the other, at a distance of a second. It ends
// with the outcome of the last one, and keeps what it holds until release is closed, or
// until it fails.
type chain struct {
	held  chan struct{}
	ended chan error
}

func hold(t *testing.T, release <-chan struct{}, locks ...locker) *chain {
	t.Helper()
	c := &chain{make(chan struct{}, len(locks)), make(chan error, 1)}
	go func() {
		ctx, err := t.Context(), error(nil)
		for i, lock := range locks {
			if i > 0 {
				time.Sleep(time.Second)
			}
			var l *holdfast.Lease
			if l, err = lock(ctx); err != nil {
				break
			}
			defer func() { _ = l.Release(context.Background()) }()
			ctx = l.Context()
			c.held <- struct{}{}
		}
		if err == nil {
			select {
			case <-release:
			case <-t.Context().Done(): // the test has failed
			}
		}
		c.ended <- err
	}()
	<-c.held
	return c
}

// end waits until the chain has ended, and returns its outcome.
func (c *chain) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-c.ended:
		return err
	case <-time.After(time.Hour):
		t.Fatal("the chain has not ended in an hour")
		return nil
	}
}

// wantDeadlock asserts that the error is a deadlock with a cycle of these locks.
func wantDeadlock(t *testing.T, err error, names ...string) *holdfast.DeadlockError {
	t.Helper()
	var dead *holdfast.DeadlockError
	assert.MustTrue(t, errors.As(err, &dead) && errors.Is(err, holdfast.ErrDeadlock), "%v is no deadlock", err)
	var got []string
	for _, w := range dead.Cycle {
		got = append(got, w.Name)
	}
	assert.Equal(t, strings.Join(got, " "), strings.Join(names, " "), "the cycle of %v", err)
	return dead
}

var breaks = holdfast.BreakDeadlock()

// A process that runs under a lock of another one waits for a lock whose holder waits for the first.
func TestADeadlockWithAProcessAroundThisOneIsFound(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		around, other := w.client(), w.client()
		outer := mustLock(t, around.Mutex("x"))
		child := w.client(holdfast.Config{Under: []holdfast.LeaseInfo{{Name: "x", HolderID: around.ID()}}})
		release := make(chan struct{})
		one := hold(t, release, other.Mutex("y").Lock, other.Mutex("x").Lock)
		time.Sleep(2 * time.Second)
		_, err := child.Mutex("y", breaks).Lock(t.Context())
		dead := wantDeadlock(t, err, "y", "x")
		assert.True(t, dead.Cycle[0].Holds == "x" && dead.Cycle[1].ClientID == other.ID(), "%+v", dead.Cycle)
		assert.NoError(t, outer.Release(t.Context()))
		<-one.held
		close(release)
		assert.NoError(t, one.end(t))
	})
}

// Each client holds a lock and waits for that of the other. The one that began to wait last
// is told within a heartbeat, and the other one gets the lock.
func TestADeadlockOfTwoClientsEndsForTheYoungest(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		rec, text := new(recorder), new(bytes.Buffer)
		a := w.client(holdfast.Config{App: "a", Observer: rec, Logger: slog.New(slog.NewTextHandler(text, nil))})
		b := w.client(holdfast.Config{App: "b"})
		release := make(chan struct{})
		one := hold(t, release, a.Mutex("x").Lock, a.Mutex("y", breaks).Lock)
		time.Sleep(100 * time.Millisecond)
		start := time.Now()
		two := hold(t, release, b.Mutex("y").Lock, b.Mutex("x", breaks).Lock)
		dead := wantDeadlock(t, two.end(t), "x", "y")
		assert.AtMost(t, time.Since(start), time.Second+ttl/2, "found after")
		if dead.Name != "x" || dead.Cycle[0].Holds != "y" || dead.Cycle[1].Holds != "x" ||
			dead.Cycle[0].ClientID != b.ID() || dead.Cycle[1].ClientID != a.ID() || !dead.Cycle[1].Breaks ||
			!strings.Contains(dead.Error(), `holds "y" and waits for "x"; a@`) {
			t.Errorf("%v: %+v", dead, dead.Cycle)
		}
		<-one.held // it has y now
		close(release)
		assert.NoError(t, one.end(t))
		for _, e := range rec.all(observe.EventDeadlock) {
			wantDeadlock(t, e.Err, "y", "x")
			assert.True(t, e.Name == "y" && e.Mode == "exclusive" && e.HolderID != "" && e.Wait >= ttl/3,
				"want the call that waited for y, got %+v", e)
		}
		assert.AtMost(t, len(rec.all(observe.EventDeadlock)), 1, "events")
		synctest.Wait()
	})
}

// Without the option the deadlock stays, and each client reports it once.
func TestADeadlockThatNobodyBreaksIsReportedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		rec, text := new(recorder), new(bytes.Buffer)
		cfg := holdfast.Config{Observer: rec, Logger: slog.New(slog.NewTextHandler(text, nil))}
		a, b := w.client(cfg), w.client(cfg)
		release := make(chan struct{})
		one := hold(t, release, a.Mutex("x").Lock, a.Mutex("y").Lock)
		two := hold(t, release, b.Mutex("y").Lock, b.Mutex("x").Lock)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		assert.Equal(t, len(rec.all(observe.EventDeadlock)), 2, "events")
		n := strings.Count(text.String(), "deadlock: calls are waiting for each other")
		assert.True(t, n == 2 && strings.Contains(text.String(), "same order everywhere"), "%d lines: %s", n, text)
		s := w.state("x")
		waits := s.Holders[0].WaitsFor
		assert.True(t, len(waits) == 1 && waits[0].Name == "y" && waits[0].Holds == "x" && waits[0].HolderID != "" &&
			waits[0].ClientID == s.Holders[0].ClientID, "%+v", waits)
		found := holdfast.Deadlocks([]holdfast.LockInfo{s, w.state("y")})
		assert.True(t, len(found) == 1 && len(found[0]) == 2, "%v", found)
		found = holdfast.Deadlocks([]holdfast.LockInfo{s})
		assert.True(t, found == nil, "in one of two locks: %v", found)
		// An operator breaks it.
		n, err := w.client().Evict(t.Context(), "x", holdfast.Eviction{By: "ann", Reason: "deadlock"})
		assert.True(t, n == 1, "%v %v", n, err)
		if err := one.end(t); !errors.Is(err, context.Canceled) { // the context of the evicted lease
			t.Error(err)
		}
		close(release)
		assert.NoError(t, two.end(t))
		assert.Equal(t, len(rec.all(observe.EventDeadlock)), 2, "events after its end")
	})
}

// The goroutines of one process wait for each other without the server.
func TestADeadlockInsideAProcess(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		release := make(chan struct{})
		one := hold(t, release, c.Mutex("x").Lock, c.Mutex("y", breaks).Lock)
		time.Sleep(100 * time.Millisecond)
		two := hold(t, release, c.Mutex("y").Lock, c.Mutex("x", breaks).Lock)
		dead := wantDeadlock(t, two.end(t), "x", "y")
		assert.True(t, dead.Cycle[0].HolderID == "" && dead.Cycle[0].ClientID == c.ID(), "%+v", dead.Cycle)
		close(release)
		assert.NoError(t, one.end(t))
	})
}

// A goroutine waits for another one of its process, which waits for another process.
func TestADeadlockThroughALocalQueue(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		release := make(chan struct{})
		two := hold(t, release, b.Mutex("y").Lock, b.Mutex("x").Lock)
		first := w.waiting(a.Mutex("y"), t.Context()) // has the turn, and waits for b
		one := hold(t, release, a.Mutex("x").Lock, a.Mutex("y", breaks).Lock)
		wantDeadlock(t, one.end(t), "y", "y", "x")
		close(release)
		assert.NoError(t, two.end(t))
		release2(t, <-first)
	})
}

func release2(t *testing.T, got outcome) {
	t.Helper()
	assert.Must(t, got.err)
	release(t, got.Lease)
}

func TestDeadlocksOfEveryKind(t *testing.T) {
	mutex := func(name string) func(c *holdfast.Client) locker {
		return func(c *holdfast.Client) locker { return c.Mutex(name, breaks).Lock }
	}
	writer := func(name string) func(c *holdfast.Client) locker {
		return func(c *holdfast.Client) locker { return c.RWMutex(name, breaks).Lock }
	}
	reader := func(name string) func(c *holdfast.Client) locker {
		return func(c *holdfast.Client) locker { return c.RWMutex(name, breaks).RLock }
	}
	permits := func(name string, n int) func(c *holdfast.Client) locker {
		return func(c *holdfast.Client) locker {
			return func(ctx context.Context) (*holdfast.Lease, error) {
				return c.Semaphore(name, 3, breaks).Acquire(ctx, n)
			}
		}
	}
	for name, chains := range map[string][][]func(c *holdfast.Client) locker{
		"three":               {{mutex("x"), mutex("y")}, {mutex("y"), mutex("z")}, {mutex("z"), mutex("x")}},
		"readers and writers": {{reader("x"), writer("y")}, {reader("y"), writer("x")}},
		"one of two readers":  {{reader("x"), mutex("y")}, {reader("x")}, {mutex("y"), writer("x")}},
		"permits":             {{permits("s", 3), mutex("y")}, {mutex("y"), permits("s", 1)}},
		"too few permits":     {{permits("s", 2), mutex("y")}, {mutex("y"), permits("s", 2)}},
		"permits of several": {
			{permits("s", 1), mutex("y")}, {permits("s", 2), mutex("y")}, {mutex("y"), permits("s", 1)},
		},
		"a writer in the queue": {{reader("x"), mutex("y")}, {mutex("z"), writer("x")}, {mutex("y"), reader("x")}},
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			release := make(chan struct{})
			var all []*chain
			for _, kinds := range chains {
				c := w.client()
				var list []locker
				for _, kind := range kinds {
					list = append(list, kind(c))
				}
				all = append(all, hold(t, release, list...))
				time.Sleep(10 * time.Millisecond)
			}
			last := all[len(all)-1]
			if name == "a writer in the queue" {
				// The reader stands behind a writer, which waits for the other reader.
				dead := wantDeadlock(t, last.end(t), "x", "x", "y")
				assert.True(t, dead.Cycle[1].Holds == "", "%+v", dead.Cycle)
			} else {
				assert.Is(t, last.end(t), holdfast.ErrDeadlock)
			}
			close(release)
			for i, other := range all[:len(all)-1] {
				err := other.end(t)
				assert.True(t, err == nil, "chain %d: %v", i, err)
			}
		})
	}
}

// What only looks like a deadlock is none.
func TestWhatIsNoDeadlock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		rec := new(recorder)
		cfg := holdfast.Config{Observer: rec}
		a, b, c := w.client(cfg), w.client(cfg), w.client(cfg)
		permit := func(c *holdfast.Client) locker {
			return func(ctx context.Context) (*holdfast.Lease, error) {
				return c.Semaphore("s", 2, breaks).Acquire(ctx, 1)
			}
		}
		release := make(chan struct{})
		works := hold(t, release, permit(c)) // it will give its permit back
		one := hold(t, release, permit(a), a.Mutex("y", breaks).Lock)
		two := hold(t, release, b.Mutex("y").Lock, permit(b))
		// A chain that ends in a call that works.
		three := hold(t, release, c.Mutex("z").Lock, c.Mutex("y", breaks).Lock)
		time.Sleep(10 * time.Minute)
		close(release)
		for _, each := range []*chain{works, one, two, three} {
			assert.NoError(t, each.end(t))
		}
		events := rec.all(observe.EventDeadlock)
		assert.True(t, events == nil, "%+v", events)
	})
}

// A deadlock that dissolves, because a wait ends by its limit, is no alarm afterwards.
func TestADeadlockThatDissolvesIsNotReported(t *testing.T) {
	for limit := 100 * time.Millisecond; limit < 8*time.Second; limit += 371 * time.Millisecond {
		bubble(t, func(t *testing.T, w *world) {
			rec := new(recorder)
			cfg := holdfast.Config{Observer: rec}
			a, b := w.client(cfg), w.client(cfg)
			release := make(chan struct{})
			one := hold(t, release, a.Mutex("x").Lock, a.Mutex("y", breaks).Lock)
			two := hold(t, release, b.Mutex("y").Lock, b.Mutex("x", holdfast.MaxWait(limit)).Lock)
			err := two.end(t)
			assert.True(t, errors.Is(err, holdfast.ErrHeld), "limit %v: %v", limit, err)
			<-one.held
			time.Sleep(time.Minute)
			close(release)
			err = one.end(t)
			assert.True(t, err == nil, "limit %v: %v", limit, err)
			events := rec.all(observe.EventDeadlock)
			assert.True(t, events == nil, "limit %v: %+v", limit, events)
		})
	}
}

// To watch for deadlocks costs no request on the way of a lock that is free, nor for a wait
// that is short, nor for one that holds nothing.
func TestWhatTheWatchForDeadlocksCosts(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		l := mustLock(t, a.Mutex("x"))
		time.Sleep(time.Second)
		before := w.net.total()
		inner, err := a.Mutex("y", breaks).Lock(l.Context())
		assert.Must(t, err)
		release(t, inner)
		assert.Equal(t, w.net.total()-before, 2, "requests for a lock and a release")
		other := mustLock(t, b.Mutex("y"))
		waits := make(chan error, 1)
		go func() {
			inner, err := a.Mutex("y", breaks).Lock(l.Context())
			_ = inner.Release(context.Background())
			waits <- err
		}()
		synctest.Wait()
		idle := w.waiting(w.client().Mutex("y", breaks), t.Context())
		time.Sleep(5 * time.Second)
		noted := w.net.count("inspect") + w.net.count("read_client")
		release(t, other)
		err = <-waits
		assert.True(t, err == nil && noted == 0, "%v, %d requests", err, noted)
		release2(t, <-idle)
		other = mustLock(t, b.Mutex("y"))
		idle = w.waiting(a.Mutex("y", breaks), t.Context())
		time.Sleep(10 * time.Minute)
		assert.Equal(t, w.net.count("inspect")+w.net.count("read_client"), 0,
			"requests for a wait that holds nothing")
		release(t, other)
		release2(t, <-idle)
		fields := w.Dump("holdfast:client:" + a.ID())
		for field := range fields {
			assert.False(t, strings.HasPrefix(field, "waits:"), "%s remains: %v", field, fields)
		}
	})
}

// Nobody waits for what a call holds: it is in no deadlock, and asks nothing. Its note is written
// once.
func TestAWaitUnderALeaseThatNobodyWantsIsCheap(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		x, y := mustLock(t, a.Mutex("x")), mustLock(t, b.Mutex("y"))
		waits := w.waiting(a.Mutex("y", breaks), x.Context())
		time.Sleep(time.Minute)
		notes := w.net.count("register_client")
		time.Sleep(3 * time.Minute) // before the clients register anew
		n := w.net.count("inspect") + w.net.count("read_client") + w.net.count("register_client") - notes
		assert.True(t, n == 0, "%d requests", n)
		if s := w.state("x"); len(s.Holders) != 1 || len(s.Holders[0].WaitsFor) != 1 {
			t.Errorf("the wait is not shown: %+v", s.Holders)
		}
		release(t, y)
		release2(t, <-waits)
		time.Sleep(time.Second)
		if s := w.state("x"); len(s.Holders) != 1 || len(s.Holders[0].WaitsFor) != 0 {
			t.Errorf("the wait is shown after its end: %+v", s.Holders)
		}
		for field := range w.Dump("holdfast:client:" + a.ID()) {
			assert.False(t, strings.HasPrefix(field, "waits:"), "%s remains", field)
		}
		release(t, x)
	})
}

// MultiMutex never deadlocks with its like, but with a nested lock it can.
func TestSeveralLocksInADeadlock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		release := make(chan struct{})
		held := mustLock(t, a.Mutex("w"))
		one := hold(t, release, b.Mutex("y").Lock, b.Mutex("w").Lock)
		ctx, cancel := context.WithTimeout(held.Context(), time.Hour)
		defer cancel()
		_, err := a.MultiMutex([]string{"x", "y"}, breaks).Lock(ctx)
		wantDeadlock(t, err, "y", "w")
		l := mustLock(t, b.Mutex("x")) // the call waited for y, and left x to others
		assert.NoError(t, l.Release(t.Context()))
		assert.NoError(t, held.Release(t.Context()))
		<-one.held
		close(release)
		assert.NoError(t, one.end(t))
		_, err = a.Mutex("w", breaks, holdfast.Tries(2, time.Second)).Lock(t.Context())
		assert.Is(t, err, holdfast.ErrInvalid)
	})
}

// wantNoDeadlock asserts that nobody has reported one.
func wantNoDeadlock(t *testing.T, rec *recorder) {
	t.Helper()
	for _, e := range rec.all(observe.EventDeadlock) {
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
				process.cut.Store(true)
			} else {
				time.Sleep(early)
				process.cut.Store(true)
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
		got := passing(y.Context(), b.Mutex("x", breaks).Lock)
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
		got := passing(y.Context(), b.Mutex("x", breaks).Lock)
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
		process.cut.Store(true)
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
		s := c.Semaphore(name, 3, each[holdfast.SemaphoreOption](options)...)
		return func(ctx context.Context) (*holdfast.Lease, error) { return s.Acquire(ctx, 1+r.IntN(3)) }
	case n == 2:
		return c.Mutex(name, each[holdfast.MutexOption](options)...).Lock
	case r.IntN(2) == 0:
		return c.RWMutex(name, each[holdfast.RWMutexOption](options)...).RLock
	}
	return c.RWMutex(name, each[holdfast.RWMutexOption](options)...).Lock
}
