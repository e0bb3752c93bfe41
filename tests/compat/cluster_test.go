package compat

import (
	"context"
	"errors"
	"testing"

	originalredislock "github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/redsync"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// In a Cluster the messages are in the slot of the key.
func TestInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.AllowAll())
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), TLSConfig: redistest.TLS()})
	t.Cleanup(func() { _ = rdb.Close() })
	s := redsync.NewStore(goredis.New(rdb))
	t.Cleanup(s.Close)
	ctx := t.Context()
	wakes := make(chan observe.Wake, 64)
	waits := make(chan struct{}, 64)
	a := native(t, s, holdfast.Config{})
	b := native(t, s, holdfast.Config{Observer: waitsAndWakes(waits, wakes)})
	pushed := 0
	for _, key := range []string{"key", "a{b}c", "one", "two", "three"} {
		lease, err := a.Mutex(key).Lock(ctx)
		must(t, err)
		_, err = originalredislock.Obtain(ctx, rdb, key, 1e9, nil)
		assert.True(t, errors.Is(err, originalredislock.ErrNotObtained), "%s: the original: %v", key, err)
		done := make(chan error, 1)
		go func() { done <- b.Mutex(key).Do(ctx, func(context.Context) error { return nil }) }()
		redistest.Next(t, "the wait", waits)
		must(t, lease.Release(ctx))
		must(t, redistest.Next(t, "the lock", done))
		for len(wakes) > 0 {
			if <-wakes == observe.WakePush {
				pushed++
			}
		}
	}
	assert.True(t, pushed != 0, "no waiter was woken by a message")
}
