package compat

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/redislock"
	"github.com/holdfast-go/holdfast/compat/redsync"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// refusedBy checks that a server has refused with a code.
func refusedBy(t *testing.T, what string, err error, code string) {
	t.Helper()
	var refused *holdfast.ServerError
	assert.True(t, errors.As(err, &refused) && refused.Code == code, "%s: %v", what, err)
}

// What other programs write as a holder is told by a try, by a wait and by Inspect in the same way, and of a value
// that is no lock only the beginning.
func TestAHolderIsNamedAsItNamesItself(t *testing.T) {
	onWires(t, func(t *testing.T, w world) {
		c := w.client(holdfast.Config{})
		for value, want := range map[string]string{
			"worker 7 %41": "worker 7 %41", "-": "-", strings.Repeat("v", 1000): strings.Repeat("v", 512),
		} {
			for _, server := range w.servers {
				server.Do(t, "SET", "key", value, "PX", "100000000000000000")
			}
			for _, options := range [][]holdfast.MutexOption{nil, {holdfast.MaxWait(50 * time.Millisecond)}} {
				m := c.Mutex("key", options...)
				lock := m.Lock
				if options == nil {
					lock = m.TryLock
				}
				var held *holdfast.HeldError
				_, err := lock(t.Context())
				assert.MustTrue(t, errors.As(err, &held), "%v", err)
				assert.Equal(t, held.HeldBy, want, "the holder of a HeldError")
				assert.True(t, held.Remaining > 99*365*24*time.Hour, "it remains for %v", held.Remaining)
			}
			info, err := c.Inspect(t.Context(), "key")
			must(t, err)
			assert.MustTrue(t, len(info.Holders) == 1, "%+v", info)
			assert.Equal(t, info.Holders[0].HolderID, want, "the holder that Inspect shows")
		}
	})
}

// A server that refuses a command, or has become a replica, does not say who has the lock. So no lock is taken for
// held, and no lease for lost.
func TestARefusalIsNoAnswerAboutTheLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.AllowAll())
	server.Do(t, "ACL", "SETUSER", "ann", "reset", "on", ">pw", "~*", "&*", "+@all")
	user := redis.NewClient(&redis.Options{Addr: server.Addr(), TLSConfig: redistest.TLS(), MaxRetries: -1,
		Username: "ann", Password: "pw"})
	t.Cleanup(func() { _ = user.Close() })
	s := redsync.NewStore(goredis.New(user))
	t.Cleanup(s.Close)
	c := native(t, s, holdfast.Config{TTL: time.Hour})
	lease, err := c.Mutex("key").Lock(t.Context())
	must(t, err)
	server.Do(t, "SET", "other", "x", "PX", "3600000")
	server.Do(t, "ACL", "SETUSER", "ann", "-get")
	refusedBy(t, "a try", assert.Err(c.Mutex("other").TryLock(t.Context())), "NOPERM")
	refusedBy(t, "an extension", lease.Extend(t.Context(), 2*time.Hour), "NOPERM")
	assert.True(t, lease.Err() == nil, "lost: %v", lease.Err())
	server.Do(t, "ACL", "SETUSER", "ann", "+get")
	must(t, lease.Extend(t.Context(), 2*time.Hour))

	server.Do(t, "DEL", "key") // as if the new primary had it
	server.Do(t, "REPLICAOF", "127.0.0.1", "1")
	refusedBy(t, "an extension by a replica", lease.Extend(t.Context(), 3*time.Hour), "READONLY")
	assert.True(t, lease.Err() == nil, "lost: %v", lease.Err())
	refusedBy(t, "a release by a replica", lease.Release(t.Context()), "READONLY")
}

// If somebody has taken the TTL of a key away, the next renewal gives it one again: a holder that dies must not keep
// the lock for ever.
func TestARenewalGivesAKeyItsTTLAgain(t *testing.T) {
	onWires(t, func(t *testing.T, w world) {
		lease, err := w.client(holdfast.Config{}).Mutex("key", holdfast.TTL(time.Hour)).Lock(t.Context())
		must(t, err)
		for _, server := range w.servers {
			server.Do(t, "PERSIST", "key")
		}
		must(t, lease.Extend(t.Context(), time.Hour))
		for _, server := range w.servers {
			assert.True(t, server.Do(t, "PTTL", "key").(int64) > 0, "the key has no TTL")
		}
		must(t, lease.Release(t.Context()))
	})
}

// Three servers of which each has another holder are not free: an acquisition cannot succeed.
func TestServersWithoutAMajorityAreNotFree(t *testing.T) {
	t.Parallel()
	servers := redistest.Primaries(t, 3, redistest.AllowAll())
	c := native(t, redsyncStore(t, redistest.Addrs(servers)), holdfast.Config{})
	free := func() error { return c.Mutex("key", holdfast.MaxWait(0)).AwaitFree(t.Context()) }
	servers[0].Do(t, "SET", "key", "a", "PX", "3600000")
	must(t, free())
	servers[1].Do(t, "SET", "key", "b", "PX", "3600000")
	assert.Is(t, assert.Err(c.Mutex("key").TryLock(t.Context())), holdfast.ErrHeld)
	assert.Is(t, free(), holdfast.ErrHeld)
	info, err := c.Inspect(t.Context(), "key")
	assert.True(t, err == nil && len(info.Holders) == 1 && info.Holders[0].HolderID == "unknown", "%v, %+v", err, info)
}

// On several servers, too, a holder has the ID of its lease and shows its tags. Only its own process can extend or
// release that lease, and the refusal says so: the lease is not lost.
func TestALeaseOnSeveralServersIsThatOfItsProcess(t *testing.T) {
	t.Parallel()
	servers := redistest.Primaries(t, 3, redistest.AllowAll())
	a := native(t, redsyncStore(t, redistest.Addrs(servers)), holdfast.Config{})
	b := native(t, redsyncStore(t, redistest.Addrs(servers)), holdfast.Config{})
	tags := holdfast.Tags(map[string]string{"order": "42"})
	lease, err := a.Mutex("key", holdfast.LockDelay(time.Minute), tags).Lock(t.Context())
	must(t, err)
	var held *holdfast.HeldError
	_, err = b.Mutex("key").TryLock(t.Context())
	assert.True(t, errors.As(err, &held) && held.HeldBy == lease.HolderID(), "%v, not %s", err, lease.HolderID())
	redistest.Await(t, "the tags", func() bool {
		info, err := b.Inspect(t.Context(), "key")
		must(t, err)
		h := info.Holders[0]
		assert.MustTrue(t, h.HolderID == lease.HolderID() && h.LockDelay == time.Minute, "%+v", h)
		return h.Tags["order"] == "42"
	})
	info, found := holdfast.LeaseOf(lease.Context())
	assert.MustTrue(t, found, "no lease")
	_, err = b.ExtendLease(t.Context(), info, time.Hour)
	assert.Is(t, err, holdfast.ErrInvalid)
	assert.Is(t, b.ReleaseLease(t.Context(), info), holdfast.ErrInvalid)
	must(t, lease.Release(t.Context()))
}

// A server that is missing, or that would vote twice, is found when the store is made, and not in a goroutine of the
// first request.
func TestAStoreNeedsItsServers(t *testing.T) {
	s := goredis.New(rdb(t, redistest.ClosedAddr(t)))
	for what, open := range map[string]func(){
		"none":  func() { redsync.NewStore() },
		"nil":   func() { redsync.NewStore(s, nil) },
		"twice": func() { redsync.NewStore(s, s) },
		"lock":  func() { redislock.NewStore(nil) },
	} {
		func() {
			defer func() { assert.True(t, recover() != nil, "%s: no panic", what) }()
			open()
		}()
	}
}
