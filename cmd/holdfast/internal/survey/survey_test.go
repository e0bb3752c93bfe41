package survey

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func client(t *testing.T, addr string) redis.UniversalClient {
	rdb := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: redistest.TLS()})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func keys(t *testing.T, nodes ...redis.UniversalClient) (list []string) {
	t.Helper()
	err := ScanForeign(t.Context(), nodes, "p:*", new(atomic.Int64), func(found []Foreign) error {
		for _, f := range found {
			list = append(list, f.Key)
		}
		return nil
	})
	assert.Must(t, err)
	slices.Sort(list)
	return slices.Compact(list)
}

func TestScanGoesOverEveryNode(t *testing.T) {
	all := redistest.Primaries(t, 3, redistest.Allow("~p:*", "+@all"))
	var nodes []redis.UniversalClient
	for i, s := range all {
		s.Do(t, "SET", "p:everywhere", "x", "PX", "60000")
		s.Do(t, "SET", fmt.Sprint("p:only ", i), "x", "PX", "60000")
		nodes = append(nodes, client(t, s.Addr()))
	}
	got := keys(t, nodes...)
	assert.True(t, len(got) == 4, "found %q", got)
	all[2].Kill()
	got = keys(t, nodes...)
	assert.True(t, len(got) == 3, "with one node down: found %q", got)
	all[1].Kill()
	ignore := func([]Foreign) error { return nil }
	assert.True(t, ScanForeign(t.Context(), nodes, "p:*", new(atomic.Int64), ignore) != nil,
		"a majority is down, and there is no error")
}

func TestScanGoesOverACluster(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Allow("~p:*", "+@all"))
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), TLSConfig: redistest.TLS()})
	t.Cleanup(func() { _ = rdb.Close() })
	for i := range 20 {
		key := fmt.Sprintf("p:{%d}", i)
		c.Do(t, key, "SET", key, "x", "PX", "60000")
	}
	got := keys(t, rdb)
	assert.True(t, len(got) == 20, "found %q", got)
}

func TestLocksOfOtherLibrariesAreRecognised(t *testing.T) {
	s := redistest.Start(t, redistest.Allow("~*", "+@all"))
	const holder = "8743c9c0-0795-4907-87fd-6c719a6b4586:1"
	s.Do(t, "SET", "a", "3q2+7w3q2+7w3q2+7w3q2w==", "PX", "60000")
	s.Do(t, "SET", "b", "3q2-7w3q2_7w3q2-7w3q2w", "PX", "60000")
	s.Do(t, "SET", "c", "worker-7", "PX", "60000")
	s.Do(t, "SET", "no TTL", "worker-7")
	s.Do(t, "SET", "redisson_unlock_latch:{d}:00ff", "1", "PX", "60000")
	s.Do(t, "HSET", "d", holder, "2")
	s.Do(t, "PEXPIRE", "d", "30000")
	s.Do(t, "HSET", "e", "mode", "read", holder, "1")
	s.Do(t, "PEXPIRE", "e", "30000")
	s.Do(t, "SET", "f", "3q2-7w3q2_7w3q2-7w3q2w/12~250.3", "PX", "60000")
	for key, thread := range map[string]string{"g": "-7", "h": "7~250"} {
		s.Do(t, "HSET", key, holder[:len(holder)-1]+thread, "1")
		s.Do(t, "PEXPIRE", key, "30000")
	}
	s.Do(t, "HSET", "a hash", "field", "1")
	s.Do(t, "PEXPIRE", "a hash", "30000")
	s.Do(t, "RPUSH", "a list", "1")
	got := map[string]string{}
	err := ScanForeign(t.Context(), []redis.UniversalClient{client(t, s.Addr())}, "*", new(atomic.Int64),
		func(list []Foreign) error {
			for _, f := range list {
				assert.False(t, f.Remaining <= 0 || f.Remaining > time.Minute || f.Holder == "", "%+v", f)
				assert.True(t, f.Shared == (f.Key == "e"), "%+v", f)
				got[f.Key] = fmt.Sprint(f.Kind, f.Count)
			}
			return nil
		})
	want := map[string]string{"a": "redsync0", "b": "redislock0", "c": "string0", "d": "redisson2", "e": "redisson1",
		"f": "holdfast0", "g": "redisson1", "h": "redisson1"}
	assert.False(t, err != nil || fmt.Sprint(got) != fmt.Sprint(want), "%v, want %v; %v", got, want, err)
}

func TestScanEndsWithItsContext(t *testing.T) {
	s := redistest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := ScanForeign(ctx, []redis.UniversalClient{client(t, s.Addr())}, "*", new(atomic.Int64), nil)
	assert.True(t, err != nil, "no error")
}
