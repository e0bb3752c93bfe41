package lineage_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// hashLock is the way of Redisson, in short: a hash with one field, the owner,
// that counts how often he has entered; a release that is published, upon
// which every process that waits tries again.
type hashLock struct {
	rdb   *redis.Client
	ttl   time.Duration
	owner string // process and thread
}

var (
	enter = redis.NewScript(`
		if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
			return 0
		end
		redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
		redis.call('PEXPIRE', KEYS[1], ARGV[2])
		return 1`)
	leave = redis.NewScript(`
		if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then return 0 end
		redis.call('DEL', KEYS[1])
		redis.call('PUBLISH', KEYS[1] .. ':released', '')
		return 1`)
)

func (l *hashLock) lock(ctx context.Context) (bool, error) {
	return enter.Run(ctx, l.rdb, []string{lockName}, l.owner, l.ttl.Milliseconds()).Bool()
}

// unlock leaves once, and reports whether the lock is free now.
func (l *hashLock) unlock(ctx context.Context) (bool, error) {
	return leave.Run(ctx, l.rdb, []string{lockName}, l.owner).Bool()
}

// wait is lock, until it succeeds or ctx ends: subscribe, then try on each
// message.
func (l *hashLock) wait(ctx context.Context, subscribed func(), tried func(bool)) error {
	releases := l.rdb.Subscribe(ctx, lockName+":released")
	defer releases.Close()
	if _, err := releases.Receive(ctx); err != nil {
		return err
	}
	subscribed()
	for messages := releases.Channel(); ; { // subscribed again by the client if the connection breaks
		select {
		case <-messages:
		case <-ctx.Done():
			return ctx.Err()
		}
		ok, err := l.lock(ctx)
		tried(ok)
		if ok || err != nil {
			return err
		}
	}
}

// One lock is released and twenty processes wait for it. The old way wakes
// all twenty, which ask twenty times, nineteen of them in vain; the fastest gets
// it. With Holdfast the release itself grants it to the first in the queue, and
// wakes no other.
func TestOneReleaseWakesEverybody(t *testing.T) {
	const waiters = 20
	halves(t, func(t *testing.T, s *redistest.Server) {
		holder := &hashLock{connect(t, s.Addr()), time.Minute, "holder"}
		takes(t, "the holder", holder.lock)
		ctx, cancel := context.WithCancel(harness.Within(t))
		defer cancel()
		var waiting sync.WaitGroup
		var woken, got atomic.Int32
		ready := make(chan struct{}, waiters)
		for n := range waiters {
			l := &hashLock{connect(t, s.Addr()), time.Minute, fmt.Sprintf("waiter %d", n)}
			waiting.Go(func() {
				l.wait(ctx, func() { ready <- struct{}{} }, func(ok bool) {
					woken.Add(1)
					if ok {
						got.Add(1)
					}
				})
			})
		}
		for range waiters {
			redistest.Next(t, "a subscription", ready)
		}
		free, err := holder.unlock(harness.Within(t))
		assert.MustTrue(t, free && err == nil, "unlock: %v, %v", free, err)
		redistest.Await(t, "all have tried", func() bool { return woken.Load() == waiters })
		assert.Equal(t, got.Load(), 1, "clients that got the lock")
		cancel()
		waiting.Wait()
	}, func(t *testing.T, s *redistest.Server) {
		holder, _ := client(t, s.Addr(), holdfast.Config{TTL: time.Hour})
		l := harness.Lock(t, holder.Mutex(lockName))
		var seen []*harness.Watch
		var got []<-chan harness.Outcome
		for range waiters {
			c, watch := client(t, s.Addr(), holdfast.Config{TTL: time.Hour})
			got, seen = append(got, harness.Acquiring(harness.Within(t), c.Mutex(lockName).Lock)), append(seen, watch)
			watch.Await(t, observe.EventWait, lockName, 1)
			// It is in the queue before the next one asks.
			redistest.Await(t, "its position", func() bool {
				state, err := holder.Inspect(harness.Within(t), lockName)
				return err == nil && len(state.Waiters) == len(got)
			})
		}
		woken := func() (sum int) {
			for _, w := range seen {
				sum += len(w.Of(observe.EventWake, lockName))
			}
			return sum
		}
		for n := range waiters { // in order of arrival, one at a time
			harness.Release(t, l)
			l = harness.Granted(t, got[n])
			sum := woken()
			assert.True(t, sum == n+1, "after %d releases %d have woken up", n+1, sum)
		}
		harness.Release(t, l)
	})
}

// The subscription of a waiter breaks for a moment, in which the lock is
// released. The old way sleeps on, next to a free lock, until a timer as long
// as the lease wakes it. With Holdfast a waiter asks as soon as it is
// subscribed again.
func TestAMissedMessageLeavesAWaiterAsleep(t *testing.T) {
	halves(t, func(t *testing.T, s *redistest.Server) {
		proxy := redistest.NewProxy(t, s.Addr())
		holder := &hashLock{connect(t, s.Addr()), time.Minute, "holder"}
		waiter := &hashLock{connect(t, proxy.Addr()), time.Minute, "waiter"}
		takes(t, "the holder", holder.lock)
		ctx, cancel := context.WithCancel(harness.Within(t))
		defer cancel()
		ready, done := make(chan struct{}, 1), make(chan error, 1)
		var tried atomic.Int32
		go func() {
			done <- waiter.wait(ctx, func() { ready <- struct{}{} }, func(bool) { tried.Add(1) })
		}()
		redistest.Next(t, "the subscription", ready)
		proxy.RefuseNew(true)
		s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		subscribers := func() any { return s.Do(t, "PUBSUB", "NUMSUB", lockName+":released").([]any)[1] }
		redistest.Await(t, "nobody listens", func() bool { return subscribers() == int64(0) })
		free, err := holder.unlock(harness.Within(t))
		assert.MustTrue(t, free && err == nil, "unlock: %v, %v", free, err)
		proxy.RefuseNew(false)
		redistest.Await(t, "the waiter listens again", func() bool { return subscribers() == int64(1) })
		assert.True(t, s.Do(t, "EXISTS", lockName) == int64(0), "the lock is not free: nothing is shown")
		// It listens, the lock is free, and it does not ask: only another
		// message wakes it.
		s.Do(t, "PUBLISH", lockName+":released", "")
		assert.Must(t, redistest.Next(t, "the waiter", done))
		assert.Equal(t, tried.Load(), 1, "tries of the waiter: the flaw is not seen")
	}, func(t *testing.T, s *redistest.Server) {
		proxy := redistest.NewProxy(t, s.Addr())
		a, _ := client(t, s.Addr(), holdfast.Config{TTL: time.Minute})
		b, seen := client(t, proxy.Addr(), holdfast.Config{TTL: time.Minute})
		l := harness.Lock(t, a.Mutex(lockName))
		got := harness.Waiting(t, seen, b.Mutex(lockName))
		proxy.RefuseNew(true)
		s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		channel := redistest.Prefix() + ":push:" + b.ID()
		redistest.Await(t, "nobody listens", func() bool {
			return s.Do(t, "PUBSUB", "NUMSUB", channel).([]any)[1] == int64(0)
		})
		harness.Release(t, l)
		proxy.RefuseNew(false)
		harness.Release(t, harness.Granted(t, got)) // long before any timer
	})
}
