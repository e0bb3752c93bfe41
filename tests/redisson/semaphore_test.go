package redisson_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/redisson"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
)

var semaphores = redisson.Config{Kind: redisson.Semaphore}

func acquire(t testing.TB, s *holdfast.Semaphore, n int) *holdfast.Lease {
	t.Helper()
	l, err := s.Acquire(t.Context(), n)
	assert.Must(t, err)
	return l
}

// The key is the number of free permits. A release says the new number.
func TestASemaphoreIsOneOfRedisson(t *testing.T) {
	s, c := serve(t, semaphores)
	conn := listen(t, s, "redisson_sc:{api}")
	m := c.Semaphore("api", 5)
	l := acquire(t, m, 2)
	same(t, "message of trySetPermits", message(t, conn), "5")
	same(t, "the number", s.Do(t, "GET", "api"), "3")
	same(t, "keys", keysOf(t, s), []string{"api", "{api}:holdfast_held"})
	if n, err := m.Available(t.Context()); n != 3 || err != nil {
		t.Errorf("Available: %d, %v", n, err)
	}
	s.Do(t, "DECRBY", "api", "3") // Java takes the rest
	_, err := m.TryAcquire(t.Context(), 1)
	held(t, err)
	n, err := m.Available(t.Context())
	assert.True(t, n == 0 && err == nil, "Available: %d, %v", n, err)
	release(t, l)
	same(t, "message", message(t, conn), "2")
	same(t, "the number", s.Do(t, "GET", "api"), "2")
	everyKeyExpires(t, s, "api")
}

// The number that Java has set stays, whatever limit a client of this library has.
func TestTheNumberOfJavaStays(t *testing.T) {
	s, c := serve(t, semaphores)
	s.Do(t, "SET", "api", "1")
	l := acquire(t, c.Semaphore("api", 5), 1)
	_, err := c.Semaphore("api", 5).TryAcquire(t.Context(), 1)
	held(t, err)
	release(t, l)
	same(t, "the number", s.Do(t, "GET", "api"), "1")
	_, err = c.Semaphore("api", 5).TryAcquire(t.Context(), 6)
	assert.False(t, !errors.Is(err, holdfast.ErrInvalid) && !errors.Is(err, holdfast.ErrLimit),
		"more permits than there are: %v", err)
}

// A release of Java wakes a waiter.
func TestTheNumberOfJavaWakesAWaiter(t *testing.T) {
	s, c := serve(t, semaphores)
	s.Do(t, "SET", "api", "0")
	got := make(chan error, 1)
	go func() { _, err := c.Semaphore("api", 5).Acquire(context.Background(), 2); got <- err }()
	redistest.Await(t, "the waiter hears", func() bool { return subscribers(t, s, "redisson_sc:{api}") == 1 })
	redistest.Await(t, "the waiter waits", func() bool { return c.Stats().Waiters == 1 })
	s.Do(t, "INCRBY", "api", "2")
	s.Do(t, "PUBLISH", "redisson_sc:{api}", "2")
	assert.NoError(t, redistest.Next(t, "the permits", got))
	same(t, "the number", s.Do(t, "GET", "api"), "0")
}

// The permits of a client that is gone are given back by the next one, which Redisson would not
// do.
func TestThePermitsOfADeadClientComeBack(t *testing.T) {
	t.Parallel()
	s := start(t)
	dead, c := connect(t, s.Addr(), semaphores), connect(t, s.Addr(), semaphores)
	acquire(t, dead.Semaphore("api", 2, holdfast.TTL(3*time.Second)), 2)
	dead.Abandon()
	l := acquire(t, c.Semaphore("api", 2, holdfast.MaxWait(20*time.Second)), 1)
	same(t, "the number", s.Do(t, "GET", "api"), "1")
	release(t, l)
	same(t, "the number", s.Do(t, "GET", "api"), "2")
}

// They are free to a watcher, too: nobody else may come and give them back.
func TestThePermitsOfADeadClientAreFree(t *testing.T) {
	t.Parallel()
	s := start(t)
	dead, c := connect(t, s.Addr(), semaphores), connect(t, s.Addr(), semaphores)
	acquire(t, dead.Semaphore("api", 2, holdfast.TTL(3*time.Second)), 2)
	dead.Abandon()
	ctx, cancel := context.WithTimeout(t.Context(), redistest.Patience)
	defer cancel()
	m := c.Semaphore("api", 2)
	assert.NoError(t, m.AwaitFree(ctx, 1))
	n, err := m.Available(t.Context())
	assert.True(t, n == 2 && err == nil, "Available: %d, %v", n, err)
}

// A number that is gone is set anew: without what the living have, because they give that back, and without what the
// dead had. A semaphore that nobody has used yet is free to a watcher.
func TestANumberThatIsGoneIsSetWithoutWhatIsHeld(t *testing.T) {
	s := start(t)
	dead, c := connect(t, s.Addr(), semaphores), connect(t, s.Addr(), semaphores)
	m := c.Semaphore("api", 5)
	assert.Must(t, m.AwaitFree(t.Context(), 5))
	acquire(t, dead.Semaphore("api", 5, holdfast.TTL(300*time.Millisecond)), 1)
	dead.Abandon()
	l := acquire(t, m, 2)
	redistest.Await(t, "the permit of the dead to expire", func() bool {
		n, err := m.Available(t.Context())
		return err == nil && n == 3
	})
	s.Do(t, "DEL", "api")
	other := acquire(t, m, 1)
	same(t, "the number", s.Do(t, "GET", "api"), "2")
	release(t, l)
	release(t, other)
	same(t, "the number", s.Do(t, "GET", "api"), "5")
	s.Do(t, "SET", "api", "-1") // Java may take what is not there
	n, err := m.Available(t.Context())
	assert.True(t, n == 0 && err == nil, "Available: %d, %v", n, err)
}

// Of permits that Java has, nobody can tell when they come back, so a watcher waits for the message.
func TestAWatcherOfJavasPermitsDoesNotPoll(t *testing.T) {
	s := start(t)
	s.Do(t, "SET", "api", "0")
	answer, err := redisson.New(open(t, &redis.Options{Addr: s.Addr()}), semaphores).Run(t.Context(), script.AwaitFree,
		[]string{"holdfast:{api}"}, []string{"p:1:5", "1", "630000", "holdfast:push:"})
	assert.True(t, answer == fmt.Sprint("busy ", time.Hour.Milliseconds()) && err == nil, "%q, %v", answer, err)
}

// Permits are given back once, whatever is sent twice.
func TestPermitsAreGivenBackOnce(t *testing.T) {
	t.Parallel()
	s := start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := connect(t, p.Addr(), semaphores)
	m := c.Semaphore("api", 3, holdfast.TTL(time.Hour))
	release(t, acquire(t, m, 1))
	known(t, s, c)
	l := acquire(t, m, 2)
	p.DropReplies(1, "EVALSHA")
	assert.NoError(t, l.Release(t.Context()))
	same(t, "the number", s.Do(t, "GET", "api"), "3")
	p.DropReplies(1, "EVALSHA")
	l, err := m.TryAcquire(t.Context(), 2) // it gives back what may have been granted, and asks anew
	assert.Must(t, err)
	release(t, l)
	redistest.Await(t, "the permits are back", func() bool { return s.Do(t, "GET", "api") == "3" })
}

// A value that is no number is left alone.
func TestAValueThatIsNoSemaphoreIsLeftAlone(t *testing.T) {
	s, c := serve(t, semaphores)
	s.Do(t, "SET", "api", "text")
	s.Do(t, "HSET", "user", "name", "ann")
	for _, name := range []string{"api", "user"} {
		var refused *holdfast.ServerError
		_, err := c.Semaphore(name, 3).TryAcquire(t.Context(), 1)
		assert.True(t, errors.As(err, &refused) && refused.Code == "WRONGTYPE", "TryAcquire of %s: %v", name, err)
	}
	same(t, "the text", s.Do(t, "GET", "api"), "text")
	same(t, "the hash", hash(t, s, "user"), []string{"name=ann"})
}
