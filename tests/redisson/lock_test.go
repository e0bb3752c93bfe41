package redisson_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/redisson"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A Mutex writes what RLock writes: a hash with the holder alone, and the TTL on the key. The
// release deletes it, says 0, and leaves the memory of the release for some seconds.
func TestALockIsAnRLock(t *testing.T) {
	s, c := serve(t, redisson.Config{})
	conn := listen(t, s, "redisson_lock__channel:{order:42}")

	l := lock(t, c.Mutex("order:42", holdfast.TTL(20*time.Second)))
	same(t, "keys", keysOf(t, s), []string{"order:42"})
	record := hash(t, s, "order:42")
	assert.MustTrue(t, len(record) == 1 && strings.HasSuffix(record[0], "=1"), "the hash is %v", record)
	field := strings.TrimSuffix(record[0], "=1")
	uuid, thread, _ := strings.Cut(field, ":")
	assert.True(t, len(uuid) == 36 && strings.Count(uuid, "-") == 4 && strings.ToLower(uuid) == uuid && thread != "",
		"the holder is %q", field)
	within(t, "TTL", s.Do(t, "PTTL", "order:42"), 20*time.Second)
	assert.True(t, l.Token() == 0, "an RLock has no token: %d", l.Token())

	release(t, l)
	same(t, "message", message(t, conn), "0")
	keys := keysOf(t, s)
	assert.True(t, len(keys) == 1 && strings.HasPrefix(keys[0], "redisson_unlock_latch:{order:42}:"),
		"after the release: %v", keys)
	everyKeyExpires(t, s)
}

// A hold of Java is respected, renewed by nobody, and shown with Java's name for it.
func TestAHoldOfJavaIsRespected(t *testing.T) {
	s, c := serve(t, redisson.Config{})
	s.Do(t, "HSET", "order", java, "2")
	s.Do(t, "PEXPIRE", "order", "20000")
	_, err := c.Mutex("order").TryLock(t.Context())
	var busy *holdfast.HeldError
	if !errors.As(err, &busy) || busy.HeldBy != java || busy.Remaining <= 0 || busy.Remaining > 20*time.Second {
		t.Errorf("TryLock: %v", err)
	}
	info, err := c.Inspect(t.Context(), "order")
	if err != nil || len(info.Holders) != 1 || info.Holders[0].HolderID != java || info.Holders[0].Entries != 2 {
		t.Errorf("Inspect: %+v, %v", info, err)
	}
	same(t, "the hash", hash(t, s, "order"), []string{java + "=2"})
}

// Java's release is a message. The waiter asks at once, long before the lease ends.
func TestTheMessageOfJavaWakesAWaiter(t *testing.T) {
	s, c := serve(t, redisson.Config{})
	wakes(t, s, "order", func(ctx context.Context) error { _, err := c.Mutex("order").Lock(ctx); return err })
}

// If nobody sends the message, the waiter asks when the lease of the holder has ended.
func TestALostMessageCostsTheRestOfTheLease(t *testing.T) {
	s, c := serve(t, redisson.Config{})
	plant(t, s, "order", "300")
	release(t, lock(t, c.Mutex("order")))
}

// Two clients of this library hand the lock to each other by the message.
func TestTwoClientsExcludeEachOther(t *testing.T) {
	s := start(t)
	const rounds = 200
	inside, done := make(chan struct{}, 1), make(chan error, 4)
	for range 2 {
		c := connect(t, s.Addr(), redisson.Config{}, func(c *holdfast.Config) { c.MaxLocalHandOvers = -1 })
		for range 2 {
			go func() { done <- work(t.Context(), c.Mutex("order", holdfast.TTL(time.Hour)), rounds/4, inside) }()
		}
	}
	for range cap(done) {
		assert.NoError(t, redistest.Next(t, "a worker", done))
	}
}

// If the answer to an acquire is lost, the call gives back what may have been granted, and asks anew.
func TestAnAcquireOfUnknownOutcomeIsCancelled(t *testing.T) {
	t.Parallel()
	s := start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := connect(t, p.Addr(), redisson.Config{})
	release(t, lock(t, c.Mutex("warm")))
	known(t, s, c)
	p.DropReplies(1, "EVALSHA")
	l, err := c.Mutex("order", holdfast.TTL(time.Hour)).TryLock(t.Context())
	assert.Must(t, err)
	release(t, l)
	redistest.Await(t, "the lock is free again", func() bool { return s.Do(t, "EXISTS", "order") == int64(0) })
}

// A release whose answer is lost is sent again, and finds its own result: the lease was not
// lost.
func TestARepeatedReleaseHasTheSameAnswer(t *testing.T) {
	t.Parallel()
	s := start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := connect(t, p.Addr(), redisson.Config{})
	release(t, lock(t, c.Mutex("warm")))
	known(t, s, c)
	l := lock(t, c.Mutex("order", holdfast.TTL(time.Hour)))
	p.DropReplies(1, "EVALSHA")
	assert.NoError(t, l.Release(t.Context()))
	same(t, "the lock", s.Do(t, "EXISTS", "order"), 0)
}

// A lease that is taken away ends its context, and its release says so. The new holder keeps
// the lock.
func TestALossIsToldByTheContext(t *testing.T) {
	t.Parallel()
	s, c := serve(t, redisson.Config{})
	l := lock(t, c.Mutex("order", holdfast.TTL(6*time.Second)))
	s.Do(t, "DEL", "order") // forceUnlock
	plant(t, s, "order", "3600000")
	<-l.Context().Done()
	assert.Is(t, context.Cause(l.Context()), holdfast.ErrLost)
	assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
	same(t, "the hash", hash(t, s, "order"), []string{java + "=1"})
}

// Renewal is that of every lease.
func TestALeaseIsRenewed(t *testing.T) {
	t.Parallel()
	_, c := serve(t, redisson.Config{})
	l := lock(t, c.Mutex("order", holdfast.TTL(6*time.Second)))
	awaitRenewal(t, l)
	release(t, l)
}

// A key of another kind is reported and left alone.
func TestAKeyOfAnotherKindIsLeftAlone(t *testing.T) {
	s, c := serve(t, redisson.Config{})
	s.Do(t, "SET", "order", "data")
	s.Do(t, "HSET", "user", "name", "ann")
	var refused *holdfast.ServerError
	for _, name := range []string{"order", "user"} {
		_, err := c.Mutex(name).TryLock(t.Context())
		assert.True(t, errors.As(err, &refused) && refused.Code == "WRONGTYPE", "TryLock of %s: %v", name, err)
		if _, err := c.Inspect(t.Context(), name); !errors.As(err, &refused) || refused.Code != "WRONGTYPE" {
			t.Errorf("Inspect of %s: %v", name, err)
		}
		_, err = c.Evict(t.Context(), name, holdfast.Eviction{By: "ann", Reason: "test", AtOnce: true})
		assert.True(t, errors.As(err, &refused) && refused.Code == "WRONGTYPE", "Evict of %s: %v", name, err)
	}
	same(t, "the string", s.Do(t, "GET", "order"), "data")
	same(t, "the hash", hash(t, s, "user"), []string{"name=ann"})
}

// The number of a thread is any that Java's caller passes, and the lease any that Redis keeps.
func TestAnyHolderOfJavaIsOne(t *testing.T) {
	s := start(t)
	for _, kind := range []redisson.Kind{redisson.Lock, redisson.Fair, redisson.Fenced, redisson.ReadWrite} {
		name, holder, field := kind.String(), strings.TrimSuffix(java, "77")+"-77", ""
		if kind == redisson.ReadWrite {
			field = ":write"
			s.Do(t, "HSET", name, "mode", "write")
		}
		s.Do(t, "HSET", name, holder+field, "2")
		s.Do(t, "PEXPIRE", name, "1000000000000000")
		c := connect(t, s.Addr(), redisson.Config{Kind: kind})
		_, err := c.Mutex(name).TryLock(t.Context())
		held(t, err)
		_, err = c.Mutex(name, holdfast.MaxWait(50*time.Millisecond)).Lock(t.Context())
		var told *holdfast.HeldError
		assert.True(t, errors.As(err, &told) && told.HeldBy == holder && told.Remaining > 99*365*24*time.Hour,
			"%s: %v", name, err)
		n, err := c.Evict(t.Context(), name, holdfast.Eviction{By: "ann", Reason: "test", AtOnce: true})
		assert.True(t, n == 1 && err == nil, "%s: Evict: %d, %v", name, n, err)
	}
}

// A refusal other than that of another kind of key does not say that a lease is gone.
func TestARefusedRenewalIsNoLoss(t *testing.T) {
	for kind, command := range map[redisson.Kind]string{
		redisson.Lock: "hexists", redisson.ReadWrite: "hexists", redisson.Semaphore: "zscore",
	} {
		s := start(t)
		s.Do(t, "ACL", "SETUSER", "ann", "reset", "on", ">pw", "~*", "&*", "+@all")
		user := &redis.Options{Addr: s.Addr(), MaxRetries: -1, Username: "ann", Password: "pw"}
		l, err := acquirer(clientOf(t, open(t, user), redisson.Config{Kind: kind}), kind)(t.Context())
		assert.Must(t, err)
		s.Do(t, "ACL", "SETUSER", "ann", "-"+command)
		err = l.Extend(t.Context(), 2*time.Hour)
		var refused *holdfast.ServerError
		assert.True(t, errors.As(err, &refused) && refused.Code == "NOPERM", "%s: %v", kind, err)
		assert.True(t, l.Err() == nil, "%s: lost: %v", kind, l.Err())
		s.Do(t, "ACL", "SETUSER", "ann", "+"+command)
		release(t, l)
	}
}

// What the format cannot carry is refused by name, and nothing is held.
func TestWhatTheFormatCannotCarryIsRefused(t *testing.T) {
	s, c := serve(t, redisson.Config{})
	ctx := t.Context()
	nothing := func(context.Context) error { return nil }
	for what, call := range map[string]func() error{
		"Owner":   func() error { _, err := c.Mutex("a", holdfast.Owner("ann")).TryLock(ctx); return err },
		"readers": func() error { _, err := c.RWMutex("b").RLock(ctx); return err },
		"permits": func() error { _, err := c.Semaphore("c", 3).TryAcquire(ctx, 1); return err },
		"Periodic": func() error {
			_, err := c.Periodic("d", time.Hour).Do(ctx, nothing)
			return err
		},
	} {
		err := call()
		hint := holdfast.Hint(err)
		assert.True(t, errors.Is(err, redisson.ErrUnsupported) && strings.Contains(err.Error(), what) && hint != "",
			"%s: %v; hint: %s", what, err, hint)
	}
	same(t, "keys", len(keysOf(t, s)), 0)
}

// Redisson and Redis find different tags in some names.
func TestANameWithAnotherTagIsRefused(t *testing.T) {
	s, c := serve(t, redisson.Config{})
	for _, name := range []string{"a{b", "a{}b", "a}b", "}{"} {
		_, err := c.Mutex(name).TryLock(t.Context())
		assert.True(t, errors.Is(err, redisson.ErrUnsupported), "%q: %v", name, err)
	}
	for name, channel := range map[string]string{
		"a":      "redisson_lock__channel:{a}",
		"a{b}c":  "redisson_lock__channel:a{b}c",
		"}{x}":   "redisson_lock__channel:}{x}",
		"a b/é%": "redisson_lock__channel:{a b/é%}",
	} {
		conn := listen(t, s, channel)
		release(t, lock(t, c.Mutex(name)))
		same(t, name, message(t, conn), "0")
	}
}

// MinHold keeps the lock held after the release, until its key expires.
func TestMinHoldOutlivesTheRelease(t *testing.T) {
	s, c := serve(t, redisson.Config{})
	release(t, lock(t, c.Mutex("order", holdfast.MinHold(time.Hour), holdfast.TTL(2*time.Hour))))
	within(t, "TTL", s.Do(t, "PTTL", "order"), time.Hour)
	_, err := connect(t, s.Addr(), redisson.Config{}).Mutex("order").TryLock(t.Context())
	held(t, err)
}

// A NameMapper makes the key, the channel and the latch.
func TestANameMapperMakesTheKey(t *testing.T) {
	s, c := serve(t, redisson.Config{NameMapper: func(name string) string { return "app:" + name }})
	conn := listen(t, s, "redisson_lock__channel:{app:order}")
	l := lock(t, c.Mutex("order"))
	same(t, "keys", keysOf(t, s), []string{"app:order"})
	release(t, l)
	same(t, "message", message(t, conn), "0")
}

// An operator's eviction is forceUnlock: the key goes, and the waiters hear of it.
func TestAnEvictionIsAForcedUnlock(t *testing.T) {
	s, c := serve(t, redisson.Config{})
	other := connect(t, s.Addr(), redisson.Config{})
	l := lock(t, c.Mutex("order"))
	conn := listen(t, s, "redisson_lock__channel:{order}")
	n, err := other.Evict(t.Context(), "order", holdfast.Eviction{By: "ann", Reason: "test", AtOnce: true})
	assert.True(t, n == 1 && err == nil, "Evict: %d, %v", n, err)
	same(t, "message", message(t, conn), "0")
	same(t, "the lock", s.Do(t, "EXISTS", "order"), 0)
	assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
}

// AwaitFree hears of a release by the same message.
func TestAwaitFreeHearsTheMessage(t *testing.T) {
	s, c := serve(t, redisson.Config{})
	wakes(t, s, "order", c.Mutex("order").AwaitFree)
}
