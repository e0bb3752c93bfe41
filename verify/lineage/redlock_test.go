package lineage_test

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// redlock is the lock over five servers that know nothing of each other, in
// its five steps.
type redlock struct {
	nodes []*redis.Client
	ttl   time.Duration
	value string
	until time.Time // the end of its validity
}

func (l *redlock) lock(ctx context.Context) (bool, error) {
	start := time.Now() // 1. the time
	l.value = rand.Text()
	granted := 0
	for _, node := range l.nodes { // 2. ask every node, with little patience for each
		asking, cancel := context.WithTimeout(ctx, l.ttl/20)
		if ok, err := node.SetNX(asking, lockName, l.value, l.ttl).Result(); ok && err == nil {
			granted++
		}
		cancel()
	}
	// 3. validity: what is left of the lease, less the drift of the clocks
	elapsed, drift := time.Since(start), l.ttl/100+2*time.Millisecond
	l.until = start.Add(l.ttl - drift)
	if granted > len(l.nodes)/2 && elapsed < l.ttl-drift {
		return true, nil // 4. a majority, in time
	}
	l.unlock(ctx) // 5. else give back what was granted, everywhere
	return false, nil
}

func (l *redlock) unlock(ctx context.Context) {
	var all sync.WaitGroup
	for _, node := range l.nodes {
		all.Go(func() {
			asking, cancel := context.WithTimeout(ctx, l.ttl/20)
			defer cancel()
			deleteMine.Run(asking, node, []string{lockName}, l.value)
		})
	}
	all.Wait()
}

// reaching is how one process sees the five: those that are not listed are cut
// off from it.
func reaching(t *testing.T, servers []*redistest.Server, reached ...int) []string {
	t.Helper()
	addrs := make([]string, len(servers))
	for i := range addrs {
		addrs[i] = redistest.ClosedAddr(t)
	}
	for _, i := range reached {
		addrs[i] = servers[i].Addr()
	}
	return addrs
}

func redlockOn(t *testing.T, addrs []string, ttl time.Duration) *redlock {
	t.Helper()
	l := &redlock{ttl: ttl}
	for _, addr := range addrs {
		l.nodes = append(l.nodes, connect(t, addr))
	}
	return l
}

// A holds the lock on three of five servers, for it cannot reach the others.
// One of the three restarts without its memory. The old way gives B a majority
// of its own, within the validity of A's. With Holdfast a server that has
// forgotten does not vote until all that it may have forgotten is over.
func TestANodeThatForgetsGivesASecondMajority(t *testing.T) {
	const ttl = 20 * time.Second
	t.Run("old way", func(t *testing.T) {
		t.Parallel()
		servers := redistest.Primaries(t, 5)
		a := redlockOn(t, reaching(t, servers, 0, 1, 2), ttl)
		b := redlockOn(t, reaching(t, servers, 0, 1, 2, 3, 4), ttl)
		takes(t, "A, on three of five", a.lock)
		refused(t, "B", b.lock)
		servers[2].Restart()
		takes(t, "B, on the other three", b.lock)
		if now := time.Now(); now.After(a.until) || now.After(b.until) {
			t.Errorf("A's lock ended at %v and B's at %v: the flaw is not seen", a.until, b.until)
		}
	})
	t.Run("Holdfast", func(t *testing.T) {
		t.Parallel()
		servers := redistest.Primaries(t, 5)
		a := quorumOn(t, reaching(t, servers, 0, 1, 2), ttl)
		b := quorumOn(t, reaching(t, servers, 0, 1, 2, 3, 4), ttl)
		l := harness.Lock(t, a.Mutex(lockName))
		held(t, b)
		servers[2].Restart()
		for range 10 { // B's connections break, and it meets the server anew
			l, err := b.Mutex(lockName).TryLock(harness.Within(t))
			assert.MustTrue(t, err != nil, "two majorities: %v", l)
		}
		assert.NoError(t, l.Err())
	})
}

// quorumOn is one process that uses Holdfast over five servers.
func quorumOn(t *testing.T, addrs []string, ttl time.Duration) *holdfast.Client {
	t.Helper()
	var nodes []store.Store
	for _, addr := range addrs {
		nodes = append(nodes, goredis.New(connect(t, addr)))
	}
	s, err := quorum.New(nodes, quorum.Config{MaxTTL: ttl})
	assert.Must(t, err)
	t.Cleanup(func() { s.Close() })
	c, _ := harness.Client(t, s, holdfast.Config{TTL: ttl})
	return c
}
