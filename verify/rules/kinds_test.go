package rules_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// take is an acquisition that must succeed.
func take(t testing.TB, acquire func(context.Context) (*holdfast.Lease, error)) *holdfast.Lease {
	t.Helper()
	l, err := acquire(within(t))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// taking acquires in a goroutine of its own.
func taking(t testing.TB, acquire func(context.Context) (*holdfast.Lease, error)) <-chan outcome {
	ctx, done := within(t), make(chan outcome, 1)
	go func() {
		l, err := acquire(ctx)
		done <- outcome{l, err, time.Now()}
	}()
	return done
}

// queued waits until so many stand in the line.
func queued(t testing.TB, c *holdfast.Client, n int) {
	t.Helper()
	redistest.Await(t, "the line is as long as it should be", func() bool { return len(state(t, c, "x").Waiters) == n })
}

// The readers of a process are one holder, a writer waits for those that are
// in and not for later ones, and those are let in together after it.
func TestReadersOfAProcessAreOneHolderOnTheServer(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const processes, each = 3, 100
		var clients []*holdfast.Client
		var readers []*holdfast.Lease
		for range processes {
			c, _ := w.local(t, holdfast.Config{})
			clients = append(clients, c)
			first := take(t, c.RWMutex("x").RLock)
			readers = append(readers, first)
			for range each {
				readers = append(readers, take(t, c.RWMutex("x").RLock))
			}
		}
		if n := len(state(t, clients[0], "x").Holders); n != processes {
			t.Errorf("%d holders of %d processes", n, processes)
		}
		writer := taking(t, clients[0].RWMutex("x").Lock)
		queued(t, clients[0], 1)
		// The other process learns of it with its next look.
		redistest.Await(t, "a later reader is kept out", func() bool {
			l, err := clients[1].RWMutex("x").TryRLock(within(t))
			if err == nil {
				release(t, l)
			}
			return errors.Is(err, holdfast.ErrHeld)
		})
		later := taking(t, clients[1].RWMutex("x").RLock)
		queued(t, clients[0], 2)
		for _, l := range readers {
			release(t, l)
		}
		wl := granted(t, writer)
		if wl.Token() <= readers[len(readers)-1].Token() {
			t.Error("the writer's token is no higher than a reader's before it")
		}
		release(t, wl)
		release(t, granted(t, later))
	})
}

// The share of a reader whose process is killed ends with its lease, and with
// nobody else's.
func TestAKilledReaderEndsAlone(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const ttl = 1500 * time.Millisecond
		dead := start(t, w.Addr(), "read:x", ttl)
		token := dead.Token(t, "held")
		c, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		l := take(t, c.RWMutex("x").RLock)
		dead.Kill()
		redistest.Await(t, "the dead reader's share is over", func() bool { return len(state(t, c, "x").Holders) == 1 })
		if l.Err() != nil {
			t.Errorf("the other reader: %v", l.Err())
		}
		if err := l.Upgrade(within(t)); err != nil || l.Token() <= token {
			t.Errorf("the only reader left steps up: %v, token %d after %d", err, l.Token(), token)
		}
		release(t, l)
	})
}

// Of readers that step up at once none waits for another, and a writer that
// steps down lets waiting readers in and no writer.
func TestStepsNeverWaitAndLetNobodyInBetween(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a, _ := w.local(t, holdfast.Config{})
		b, _ := w.local(t, holdfast.Config{})
		readers := []*holdfast.Lease{take(t, a.RWMutex("x").RLock), take(t, b.RWMutex("x").RLock)}
		var all sync.WaitGroup
		for _, l := range readers {
			all.Go(func() {
				if err := l.Upgrade(within(t)); !errors.Is(err, holdfast.ErrHeld) {
					t.Errorf("a step up beside a reader: %v", err)
				}
			})
		}
		all.Wait()
		release(t, readers[0])
		l := readers[1]
		if err := l.Upgrade(within(t)); err != nil {
			t.Fatal(err)
		}
		reader := taking(t, a.RWMutex("x").RLock)
		queued(t, a, 1)
		writer := taking(t, a.RWMutex("x").Lock)
		queued(t, a, 2)
		if err := l.Downgrade(within(t)); err != nil {
			t.Fatal(err)
		}
		other := granted(t, reader)
		if s := state(t, a, "x"); len(s.Holders) != 2 || len(s.Waiters) != 1 {
			t.Errorf("%d hold and %d wait", len(s.Holders), len(s.Waiters))
		}
		release(t, l)
		release(t, other)
		release(t, granted(t, writer))
	})
}

// Permits are within the limit, a limit is agreed on, and changed on purpose
// while it is in use.
func TestALimitIsAgreedOnAndChangedOnPurpose(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a, _ := w.local(t, holdfast.Config{})
		b, _ := w.local(t, holdfast.Config{})
		sem, other := a.Semaphore("x", 2), b.Semaphore("x", 2)
		permits := func(s *holdfast.Semaphore, n int) func(context.Context) (*holdfast.Lease, error) {
			return func(ctx context.Context) (*holdfast.Lease, error) { return s.Acquire(ctx, n) }
		}
		first := take(t, permits(sem, 2))
		var limit *holdfast.LimitError
		_, err := b.Semaphore("x", 9).Acquire(within(t), 1)
		if !errors.As(err, &limit) || limit.InUse != 2 || limit.Asked != 9 {
			t.Errorf("another limit: %v", err)
		}
		next := taking(t, permits(other, 2))
		queued(t, a, 1)
		if err := sem.SetLimit(within(t), 4); err != nil {
			t.Fatal(err)
		}
		second := granted(t, next)
		third := taking(t, permits(sem, 1))
		queued(t, a, 1)
		if err := sem.SetLimit(within(t), 2); err != nil {
			t.Fatal(err)
		}
		release(t, first)
		if s := state(t, a, "x"); len(s.Waiters) != 1 || s.Limit != 2 {
			t.Errorf("with all permits of %d held %d wait", s.Limit, len(s.Waiters))
		}
		release(t, second)
		release(t, granted(t, third))
	})
}
