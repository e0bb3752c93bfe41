package lineage_test

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
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

// five starts five servers.
func five(t *testing.T) []*redistest.Server {
	t.Helper()
	servers := make([]*redistest.Server, 5)
	var all sync.WaitGroup
	for i := range servers {
		all.Go(func() { servers[i] = server(t) })
	}
	all.Wait()
	return servers
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
