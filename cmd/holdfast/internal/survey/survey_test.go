package survey

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func client(t *testing.T, addr string) redis.UniversalClient {
	rdb := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: redistest.TLS()})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func names(t *testing.T, nodes ...redis.UniversalClient) []string {
	t.Helper()
	var list []string
	err := Scan(t.Context(), nodes, "p", new(atomic.Int64), func(found []Found) error {
		for _, f := range found {
			list = append(list, fmt.Sprint(f.Name, f.Job))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list
}

func TestScanFindsRecordsAndNothingElse(t *testing.T) {
	s := redistest.Start(t, redistest.Allow("~p:*", "+@all"))
	for _, key := range []string{
		"p:{a}", "p:{a b%7D}", "p:{a}:periodic", "p:{x}:other", "p:client:{a}", "q:{b}", "p:push", "p:sub:{c}",
	} {
		s.Do(t, "HSET", key, "lock", "1")
	}
	for i := range 3000 {
		s.Do(t, "SET", fmt.Sprint("p:other:", i), "1")
	}
	want := []string{"a b}false", "afalse", "atrue"}
	if got := names(t, client(t, s.Addr())); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

func TestScanGoesOverEveryNode(t *testing.T) {
	all := redistest.Primaries(t, 3, redistest.Allow("~p:*", "+@all"))
	var nodes []redis.UniversalClient
	for i, s := range all {
		s.Do(t, "HSET", "p:{everywhere}", "lock", "1")
		s.Do(t, "HSET", fmt.Sprintf("p:{only %d}", i), "lock", "1")
		nodes = append(nodes, client(t, s.Addr()))
	}
	if got := names(t, nodes...); len(got) != 4 {
		t.Errorf("found %q", got)
	}
	all[2].Kill()
	if got := names(t, nodes...); len(got) != 3 {
		t.Errorf("with one node down: found %q", got)
	}
	all[1].Kill()
	err := Scan(t.Context(), nodes, "p", new(atomic.Int64), func([]Found) error { return nil })
	if err == nil {
		t.Error("a majority is down, and there is no error")
	}
}

func TestScanGoesOverACluster(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Allow("~p:*", "+@all"))
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), TLSConfig: redistest.TLS()})
	t.Cleanup(func() { _ = rdb.Close() })
	for i := range 20 {
		key := fmt.Sprintf("p:{%d}", i)
		c.Do(t, key, "HSET", key, "lock", "1")
	}
	if got := names(t, rdb); len(got) != 20 {
		t.Errorf("found %q", got)
	}
}

func TestLocksOfOtherLibrariesAreRecognised(t *testing.T) {
	s := redistest.Start(t, redistest.Allow("~*", "+@all"))
	const holder = "8743c9c0-0795-4907-87fd-6c719a6b4586:1"
	s.Do(t, "SET", "a", "3q2+7w3q2+7w3q2+7w3q2w==", "PX", "60000")
	s.Do(t, "SET", "b", "3q2-7w3q2_7w3q2-7w3q2w", "PX", "60000")
	s.Do(t, "SET", "c", "worker-7", "PX", "60000")
	s.Do(t, "SET", "no TTL", "worker-7")
	s.Do(t, "HSET", "d", holder, "2")
	s.Do(t, "PEXPIRE", "d", "30000")
	s.Do(t, "HSET", "e", "mode", "read", holder, "1")
	s.Do(t, "PEXPIRE", "e", "30000")
	s.Do(t, "HSET", "a hash", "field", "1")
	s.Do(t, "PEXPIRE", "a hash", "30000")
	s.Do(t, "RPUSH", "a list", "1")
	got := map[string]string{}
	err := ScanForeign(t.Context(), []redis.UniversalClient{client(t, s.Addr())}, "*", new(atomic.Int64),
		func(list []Foreign) error {
			for _, f := range list {
				if f.Remaining <= 0 || f.Remaining > time.Minute || f.Holder == "" {
					t.Errorf("%+v", f)
				}
				got[f.Key] = fmt.Sprint(f.Kind, f.Count)
			}
			return nil
		})
	want := map[string]string{"a": "redsync0", "b": "redislock0", "c": "string0", "d": "redisson2", "e": "redisson1"}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v; %v", got, want, err)
	}
}

func TestGlob(t *testing.T) {
	for pattern, want := range map[string]string{
		"": "a,ab,a/b,a*", "a": "a", "a*": "a,ab,a/b,a*", "a?": "ab,a*", `a\*`: "a*", "a[b-c]": "ab",
		"*b": "ab,a/b", "[^x]": "a",
	} {
		match, err := Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, name := range []string{"a", "ab", "a/b", "a*"} {
			if match(name) {
				got += "," + name
			}
		}
		if got != ","+want {
			t.Errorf("%q matches %q, want %q", pattern, got, want)
		}
	}
	for _, pattern := range []string{"[", "[b-a]", "a[b"} {
		if _, err := Glob(pattern); err == nil {
			t.Errorf("%q is accepted", pattern)
		}
	}
}

func TestScanEndsWithItsContext(t *testing.T) {
	s := redistest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := Scan(ctx, []redis.UniversalClient{client(t, s.Addr())}, "p", new(atomic.Int64), nil)
	if err == nil {
		t.Error("no error")
	}
}
