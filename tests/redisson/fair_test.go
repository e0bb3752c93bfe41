package redisson_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/redisson"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

const (
	lockChannel = "redisson_lock__channel:{turn}"
	queueKey    = "redisson_lock_queue:{turn}"
	timeoutKey  = "redisson_lock_timeout:{turn}"
)

// each makes every goroutine ask the server for itself.
func each(c *holdfast.Config) { c.MaxLocalHandOvers = -1 }

func fairClient(t *testing.T, addr string, wait time.Duration) *holdfast.Client {
	t.Helper()
	return connect(t, addr, redisson.Config{Kind: redisson.Fair, FairWait: wait}, each)
}

// waiting starts a call that waits for the lock, and returns when it is the n-th in the queue and
// hears its channel.
func waiting(t *testing.T, s *redistest.Server, c *holdfast.Client, n int64) (got chan *holdfast.Lease, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	got = make(chan *holdfast.Lease, 1)
	go func() {
		l, err := c.Mutex("turn", holdfast.TTL(time.Hour)).Lock(ctx)
		assert.False(t, err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, holdfast.ErrClosed),
			"%v", err)
		got <- l
	}()
	redistest.Await(t, "the waiter is in the queue", func() bool { return s.Do(t, "LLEN", queueKey) == n })
	last := s.Do(t, "LINDEX", queueKey, "-1").(string)
	redistest.Await(t, "the waiter hears", func() bool { return subscribers(t, s, lockChannel+":"+last) == 1 })
	return got, cancel
}

// score is the time at which a waiter is thought dead.
func score(t *testing.T, s *redistest.Server, waiter string) float64 {
	t.Helper()
	text, _ := s.Do(t, "ZSCORE", timeoutKey, waiter).(string)
	n, err := strconv.ParseFloat(text, 64)
	assert.MustTrue(t, err == nil, "the time of %s is %q", waiter, text)
	return n
}

// The first waiter's time is the rest of the lease and the wait; each next one's is a wait later.
// The release tells the first one only, on its own channel, and those behind are due earlier.
func TestTheFairQueueIsThatOfRedisson(t *testing.T) {
	s := start(t)
	const wait = 100 * time.Second
	a, b := fairClient(t, s.Addr(), wait), fairClient(t, s.Addr(), wait)
	plant(t, s, "turn", "50000")
	first, _ := waiting(t, s, a, 1)
	second, _ := waiting(t, s, b, 2)
	third, _ := waiting(t, s, a, 3)
	var names []string
	for _, one := range s.Do(t, "LRANGE", queueKey, "0", "-1").([]any) {
		names = append(names, one.(string))
	}
	now := float64(time.Now().UnixMilli())
	due := score(t, s, names[0]) - now
	assert.False(t, due > 150_000 || due < 100_000, "the first is due in %v ms", due)
	for i := range 2 {
		apart := score(t, s, names[i+1]) - score(t, s, names[i])
		assert.False(t, apart != 100_000, "the %d. and the next one are %v ms apart", i+1, apart)
	}
	before := score(t, s, names[1])

	s.Do(t, "DEL", "turn") // Java's release
	s.Do(t, "PUBLISH", lockChannel+":"+names[0], "0")
	l := redistest.Next(t, "the first", first)
	same(t, "the hash", hash(t, s, "turn"), []string{names[0] + "=1"})
	same(t, "the second is due earlier", before-score(t, s, names[1]), 100_000)
	assert.True(t, len(second) == 0 && len(third) == 0, "two have the lock")
	conn := listen(t, s, lockChannel+":"+names[1])
	release(t, l)
	same(t, "message", message(t, conn), "0")
	l = redistest.Next(t, "the second", second)
	release(t, l)
	release(t, redistest.Next(t, "the third", third))
	for _, key := range []string{"turn", queueKey, timeoutKey} {
		same(t, key, s.Do(t, "EXISTS", key), 0)
	}
}

// A waiter that gives up leaves the queue, and those behind it are due earlier.
func TestAFairWaiterThatGivesUpLeaves(t *testing.T) {
	s := start(t)
	const wait = 100 * time.Second
	c := fairClient(t, s.Addr(), wait)
	plant(t, s, "turn", "3600000")
	_, end := waiting(t, s, c, 1)
	second, _ := waiting(t, s, c, 2)
	behind := s.Do(t, "LINDEX", queueKey, "1").(string)
	before := score(t, s, behind)
	end()
	redistest.Await(t, "the waiter has left", func() bool { return s.Do(t, "LLEN", queueKey) == int64(1) })
	same(t, "the one behind is due earlier", before-score(t, s, behind), 100_000)
	s.Do(t, "DEL", "turn")
	s.Do(t, "PUBLISH", lockChannel+":"+behind, "0")
	release(t, redistest.Next(t, "the second", second))
}

// A waiter that was told and then gives up passes the message on.
func TestAMessageIsPassedOn(t *testing.T) {
	s := start(t)
	c := fairClient(t, s.Addr(), time.Hour)
	plant(t, s, "turn", "3600000")
	_, end := waiting(t, s, c, 1)
	second, _ := waiting(t, s, c, 2)
	s.Do(t, "DEL", "turn") // and the message to the first is lost
	end()
	release(t, redistest.Next(t, "the second", second))
}

// A dead waiter of Java holds the queue up until its time. Its successor asks now and then, and
// not without a pause.
func TestADeadWaiterIsPassedAtItsTime(t *testing.T) {
	s := start(t)
	c := fairClient(t, s.Addr(), time.Hour)
	s.Do(t, "RPUSH", queueKey, java)
	s.Do(t, "ZADD", timeoutKey, fmt.Sprint(time.Now().Add(1500*time.Millisecond).UnixMilli()), java)
	s.ResetStats(t)
	l := lock(t, c.Mutex("turn", holdfast.MaxWait(20*time.Second)))
	calls := s.CommandCalls(t)["evalsha"]
	assert.True(t, calls <= 12, "the waiter asked %d times", calls)
	left := s.Do(t, "LLEN", queueKey)
	assert.True(t, left == int64(0), "the queue has %v waiters", left)
	release(t, l)
}

// TryLock does not overtake a waiter, and joins no queue.
func TestATryDoesNotOvertake(t *testing.T) {
	s := start(t)
	c := fairClient(t, s.Addr(), time.Hour)
	s.Do(t, "RPUSH", queueKey, java)
	s.Do(t, "ZADD", timeoutKey, fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()), java)
	_, err := c.Mutex("turn").TryLock(t.Context())
	held(t, err)
	same(t, "the queue", s.Do(t, "LLEN", queueKey), 1)
	info, err := c.Inspect(t.Context(), "turn")
	assert.True(t, err == nil && !info.Held() && len(info.Waiters) == 1 && info.Waiters[0].HolderID == java,
		"Inspect: %+v, %v", info, err)
}

// Many goroutines of two processes get the lock in turn, and nothing is left.
func TestAFairLockExcludes(t *testing.T) {
	s := start(t)
	inside, done := make(chan struct{}, 1), make(chan error, 8)
	for range 2 {
		c := fairClient(t, s.Addr(), time.Hour)
		for range 4 {
			go func() { done <- work(t.Context(), c.Mutex("turn", holdfast.TTL(time.Hour)), 20, inside) }()
		}
	}
	for range cap(done) {
		assert.NoError(t, redistest.Next(t, "a worker", done))
	}
	for _, key := range []string{"turn", queueKey, timeoutKey} {
		same(t, key, s.Do(t, "EXISTS", key), 0)
	}
}
