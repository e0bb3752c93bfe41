package moving

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store/goredis"
	"github.com/holdfast-go/holdfast/tests/moving/setnx"
)

// way is a lock that programs write by hand, and what replaces it.
type way struct{ before, after enter }

// untilFree repeats a lock that gives up: by its answer before, by its error after.
func untilFree(try func() (locked bool, err error)) error {
	for {
		if locked, err := try(); !errors.Is(err, holdfast.ErrHeld) && (locked || err != nil) {
			return err
		}
	}
}

// nodes are three servers, with a client of go-redis and one of Holdfast for the first, and one for all.
func nodes(t *testing.T) (nodes []*redis.Client, client, several *holdfast.Client) {
	t.Helper()
	for _, addr := range redistest.Addrs(redistest.Primaries(t, 3)) {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { rdb.Close() })
		nodes = append(nodes, rdb)
	}
	several, err := setnx.Quorum(nodes, 0)
	assert.Must(t, err)
	t.Cleanup(func() { several.Close(context.Background()) })
	return nodes, clientOf(t, goredis.New(nodes[0])), several
}

// byHand are the ways of docs/moving/setnx.md. Each waits until it has the lock.
func byHand(t *testing.T) map[string]way {
	all, client, several := nodes(t)
	rdb := all[0]
	owners := new(atomic.Int64)
	owner := func() string { return fmt.Sprint("owner ", owners.Add(1)) }
	nothing := func(context.Context) error { return nil }
	type work = func(context.Context) error
	return map[string]way{
		"expire": {
			func(ctx context.Context, f work) error {
				return untilFree(func() (bool, error) { return setnx.BeforeExpire(ctx, rdb, "expire", 30, 10, 9, f) })
			},
			func(ctx context.Context, f work) error {
				return untilFree(func() (bool, error) {
					return true, setnx.AfterExpire(ctx, client, "expire", 30, 10, 9, f)
				})
			},
		},
		"getset": {
			func(ctx context.Context, f work) error {
				return untilFree(func() (bool, error) { return setnx.BeforeGetset(ctx, rdb, "getset", true, 9, f) })
			},
			func(ctx context.Context, f work) error {
				return untilFree(func() (bool, error) {
					return true, setnx.AfterGetset(ctx, client, "getset", true, 9, f)
				})
			},
		},
		"lua": {
			func(ctx context.Context, f work) error {
				return untilFree(func() (bool, error) {
					return setnx.BeforeLua(ctx, rdb, "lua", owner(), 30, f, nothing)
				})
			},
			func(ctx context.Context, f work) error {
				return untilFree(func() (bool, error) {
					return true, setnx.AfterLua(ctx, client, "lua", 30, f, nothing)
				})
			},
		},
		"setpx": {
			func(ctx context.Context, f work) error {
				return setnx.BeforeSetPX(ctx, rdb, "setpx", time.Minute, 9, f)
			},
			func(ctx context.Context, f work) error {
				return setnx.AfterSetPX(ctx, client, "setpx", time.Minute, 9, f)
			},
		},
		"hash": {
			func(ctx context.Context, f work) error {
				return setnx.BeforeHash(ctx, rdb, "hash", owner(), time.Minute, f)
			},
			func(ctx context.Context, f work) error {
				return setnx.AfterHash(ctx, client, "hash", owner(), time.Minute, f)
			},
		},
		"readwrite": {
			func(ctx context.Context, f work) error {
				return setnx.BeforeReadWrite(ctx, rdb, "readwrite", true, time.Minute, time.Minute, f)
			},
			func(ctx context.Context, f work) error {
				return setnx.AfterReadWrite(ctx, client, "readwrite", true, time.Minute, time.Minute, f)
			},
		},
		"redlock": {
			func(ctx context.Context, f work) error {
				return setnx.BeforeRedlock(ctx, all, "redlock", time.Minute, 5*time.Second, f)
			},
			func(ctx context.Context, f work) error {
				return setnx.AfterRedlock(ctx, several, "redlock", time.Minute, f)
			},
		},
	}
}

// While nothing fails, each way excludes, before and after.
func TestLocksByHandAndWhatReplacesThem(t *testing.T) {
	for name, way := range byHand(t) {
		for when, lock := range map[string]enter{"before": way.before, "after": way.after} {
			t.Run(name+"/"+when, func(t *testing.T) {
				t.Parallel()
				times, together := crowd(t, lock, lock)
				assert.True(t, times == 20 && !together, "%d times inside, want 20; two at once: %t", times, together)
				failed := errors.New("the card was refused")
				assert.Is(t, lock(t.Context(), func(context.Context) error { return failed }), failed)
			})
		}
	}
}

// The parameters keep their meaning.
func TestTheParametersOfLocksByHand(t *testing.T) {
	all, client, several := nodes(t)
	other := clientOf(t, goredis.New(all[0]))
	ctx, ran := t.Context(), 0
	count := func(context.Context) error { ran++; return nil }
	inside := func(name string, f func()) {
		assert.NoError(t, client.RWMutex(name).Do(ctx, func(context.Context) error { f(); return nil }))
	}
	inside("tries", func() {
		var held *holdfast.HeldError
		err := setnx.AfterExpire(ctx, other, "tries", 30, 1, 3, count)
		assert.True(t, errors.As(err, &held) && held.Tries == 3, "maxTryCount: %v", err)
	})
	inside("block", func() {
		assert.Is(t, setnx.AfterGetset(ctx, other, "block", false, 3600, count), holdfast.ErrHeld)
		assert.Is(t, setnx.AfterLua(ctx, other, "block", 30, count, count), holdfast.ErrHeld)
	})
	assert.Equal(t, ran, 0, "runs beside a holder")
	assert.NoError(t, setnx.AfterLua(ctx, other, "lua", 30, count, count))
	assert.NoError(t, setnx.AfterHash(ctx, client, "owner", "request 7", time.Minute, func(ctx context.Context) error {
		return setnx.AfterHash(ctx, other, "owner", "request 7", time.Minute, count) // of another client, too
	}))
	read := func(client *holdfast.Client, f func(context.Context) error) error {
		return setnx.AfterReadWrite(ctx, client, "readers", false, time.Hour, time.Minute, f)
	}
	assert.NoError(t, read(client, func(context.Context) error { return read(other, count) }))
	assert.NoError(t, setnx.AfterRedlock(ctx, several, "nodes", time.Minute, count))
	assert.Equal(t, ran, 5, "runs")
}

// Old programs and new ones on their keys exclude each other, without a stage in which both locks are held.
func TestLocksByHandThatCanBeShared(t *testing.T) {
	all, _, _ := nodes(t)
	one, err := setnx.Share(all[0])
	assert.Must(t, err)
	t.Cleanup(func() { one.Close(context.Background()) })
	three, err := setnx.ShareRedlock(all)
	assert.Must(t, err)
	t.Cleanup(func() { three.Close(context.Background()) })
	ways := byHandShared(all, one, three)
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			times, together := crowd(t, way.before, way.after)
			assert.True(t, times == 20 && !together, "%d times inside, want 20; two at once: %t", times, together)
		})
	}
}

func byHandShared(all []*redis.Client, one, three *holdfast.Client) map[string]way {
	type work = func(context.Context) error
	return map[string]way{
		"setpx": {
			func(ctx context.Context, f work) error {
				return setnx.BeforeSetPX(ctx, all[0], "setpx", time.Minute, 9, f)
			},
			func(ctx context.Context, f work) error { return setnx.AfterSetPX(ctx, one, "setpx", time.Minute, 9, f) },
		},
		"redlock": {
			func(ctx context.Context, f work) error {
				return setnx.BeforeRedlock(ctx, all, "redlock", time.Minute, 5*time.Second, f)
			},
			func(ctx context.Context, f work) error {
				return setnx.AfterRedlock(ctx, three, "redlock", time.Minute, f)
			},
		},
	}
}
