package moving

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	bsm "github.com/bsm/redislock"
	gored "github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	locker "github.com/redis/rueidis/rueidislock"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/bridge"
	compatredislock "github.com/holdfast-go/holdfast/compat/redislock"
	compatredsync "github.com/holdfast-go/holdfast/compat/redsync"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
	"github.com/holdfast-go/holdfast/tests/moving/redislock"
	"github.com/holdfast-go/holdfast/tests/moving/redisson"
	"github.com/holdfast-go/holdfast/tests/moving/redsync"
	"github.com/holdfast-go/holdfast/tests/moving/rueidislock"
)

// enter charges an order under some lock.
type enter func(ctx context.Context, charge func(context.Context) error) error

// stages are the three of a move.
type stages struct{ before, during, after enter }

func clientOf(t *testing.T, s store.Store) *holdfast.Client {
	t.Helper()
	client, err := holdfast.New(s, holdfast.Config{})
	assert.Must(t, err)
	t.Cleanup(func() { client.Close(context.Background()) })
	return client
}

// moves are the libraries that a Go program moves from.
func moves(t *testing.T) map[string]stages {
	t.Helper()
	addr := redistest.Start(t).Addr()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { rdb.Close() })
	client := clientOf(t, goredis.New(rdb))
	redsyncKeys := clientOf(t, compatredsync.NewStore(goredis.New(rdb)))
	redislockKeys := clientOf(t, compatredislock.NewStore(goredis.New(rdb)))
	rs := gored.New(pool.NewPool(rdb))
	locks := bsm.New(rdb)
	other, err := locker.NewLocker(locker.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}}, KeyMajority: 1, NoLoopTracking: true,
	})
	assert.Must(t, err)
	t.Cleanup(other.Close)
	return map[string]stages{
		"redsync": {
			func(ctx context.Context, f func(context.Context) error) error {
				return redsync.Before(ctx, rs, "redsync", f)
			},
			func(ctx context.Context, f func(context.Context) error) error {
				return redsync.During(ctx, bridge.Both, redsyncKeys, client, "redsync", f)
			},
			func(ctx context.Context, f func(context.Context) error) error {
				return redsync.After(ctx, client, "redsync", f)
			},
		},
		"redislock": {
			func(ctx context.Context, f func(context.Context) error) error {
				return redislock.Before(ctx, locks, "redislock", f)
			},
			func(ctx context.Context, f func(context.Context) error) error {
				return redislock.During(ctx, bridge.Both, redislockKeys, client, "redislock", f)
			},
			func(ctx context.Context, f func(context.Context) error) error {
				return redislock.After(ctx, client, "redislock", f)
			},
		},
		"rueidislock": {
			again(func(ctx context.Context, f func(context.Context) error) error {
				return rueidislock.Before(ctx, other, "rueidislock", f)
			}),
			again(func(ctx context.Context, f func(context.Context) error) error {
				return rueidislock.During(ctx, other, client, "rueidislock", f)
			}),
			func(ctx context.Context, f func(context.Context) error) error {
				return rueidislock.After(ctx, client, "rueidislock", f)
			},
		},
	}
}

// again asks once more if a wait lasts for long: under load rueidislock misses that a lock is released, and
// then waits for ever.
func again(stage enter) enter {
	return func(ctx context.Context, charge func(context.Context) error) error {
		for {
			ran := false
			limited, cancel := context.WithTimeout(ctx, time.Second)
			err := stage(limited, func(ctx context.Context) error { ran = true; return charge(ctx) })
			cancel()
			if ran || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
		}
	}
}

// crowd has goroutines of two stages enter again and again. It answers how often, and whether two
// were ever inside at once.
func crowd(t *testing.T, one, two enter) (times int, together bool) {
	t.Helper()
	var inside, entered, met atomic.Int64
	charge := func(context.Context) error {
		entered.Add(1)
		if inside.Add(1) > 1 {
			met.Add(1)
		}
		inside.Add(-1)
		return nil
	}
	var all sync.WaitGroup
	for _, stage := range []enter{one, two, one, two} {
		all.Go(func() {
			for range 5 {
				assert.NoError(t, stage(t.Context(), charge))
			}
		})
	}
	all.Wait()
	return int(entered.Load()), met.Load() > 0
}

// During excludes both neighbours. Before and After do not exclude each other: that is why a move
// has a stage between them.
func TestTheStagesOfAMoveExcludeTheirNeighbours(t *testing.T) {
	for name, s := range moves(t) {
		t.Run(name, func(t *testing.T) {
			for what, pair := range map[string][2]enter{
				"before and during": {s.before, s.during}, "during and after": {s.during, s.after},
				"during and during": {s.during, s.during}, "after and after": {s.after, s.after},
			} {
				if times, together := crowd(t, pair[0], pair[1]); times != 20 || together {
					t.Errorf("%s: %d times inside, want 20; two at once: %t", what, times, together)
				}
			}
			both := false
			err := s.before(t.Context(), func(ctx context.Context) error {
				return s.after(ctx, func(context.Context) error { both = true; return nil })
			})
			assert.True(t, err == nil && both,
				"before and after exclude each other (%v): then the stage between them is not needed", err)
		})
	}
}

// Such a program needs no stage between it and the old one.
func TestOldProgramsAndThoseThatShareTheirKeysExcludeEachOther(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr()})
	t.Cleanup(func() { rdb.Close() })
	oldSync, oldLocks := gored.New(pool.NewPool(rdb)), bsm.New(rdb)
	shared := func(connect func(redis.UniversalClient) (*holdfast.Client, error)) *holdfast.Client {
		client, err := connect(rdb)
		assert.Must(t, err)
		t.Cleanup(func() { client.Close(context.Background()) })
		return client
	}
	newSync, newLocks := shared(redsync.Connect), shared(redislock.Connect)
	for name, pair := range map[string][2]enter{
		"redsync": {
			func(ctx context.Context, f func(context.Context) error) error {
				return redsync.Before(ctx, oldSync, "redsync", f)
			},
			func(ctx context.Context, f func(context.Context) error) error {
				return redsync.Shared(ctx, newSync, "redsync", f)
			},
		},
		"redislock": {
			func(ctx context.Context, f func(context.Context) error) error {
				return redislock.Before(ctx, oldLocks, "redislock", f)
			},
			func(ctx context.Context, f func(context.Context) error) error {
				return redislock.Shared(ctx, newLocks, "redislock", f)
			},
		},
	} {
		if times, together := crowd(t, pair[0], pair[1]); times != 20 || together {
			t.Errorf("%s: %d times inside, want 20; two at once: %t", name, times, together)
		}
	}
}

// What replaces the calls of the old libraries: it works if the lock is free, and says so if it is held, or if
// it is lost meanwhile.
func TestTheCallsThatReplaceTheOldOnes(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr()})
	t.Cleanup(func() { rdb.Close() })
	client := clientOf(t, goredis.New(rdb))
	nothing := func(context.Context) error { return nil }
	for name, calls := range map[string]func(context.Context, *holdfast.Client, func(context.Context) error) error{
		"redsync": redsync.Calls, "redislock": redislock.Calls,
	} {
		assert.NoError(t, calls(t.Context(), client, nothing))
		err := calls(t.Context(), client, func(context.Context) error {
			assert.Is(t, calls(t.Context(), clientOf(t, goredis.New(rdb)), nothing), holdfast.ErrHeld)
			_, err := client.Evict(t.Context(), "order/42", holdfast.Eviction{By: "a test", Reason: "a loss"})
			return err
		})
		assert.True(t, errors.Is(err, holdfast.ErrNotHeld), "%s: %v", name, err)
	}
	assert.NoError(t, redislock.Several(t.Context(), client, func(context.Context) error {
		assert.Is(t, assert.Err(client.Mutex("order/43").TryLock(t.Context())), holdfast.ErrHeld)
		return nil
	}))
}

// The work's error comes back through all stages, and both locks are free then.
func TestAnErrorOfTheWorkFreesBothLocks(t *testing.T) {
	failed := errors.New("the card was refused")
	for name, s := range moves(t) {
		for range 2 {
			err := s.during(t.Context(), func(context.Context) error { return failed })
			assert.True(t, errors.Is(err, failed), "%s: %v", name, err)
		}
	}
}

// A Go service on Redisson's keys waits for a Java service, and takes what that leaves.
func TestAJavaServiceIsWaitedFor(t *testing.T) {
	s := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { rdb.Close() })
	client, err := redisson.Connect(rdb)
	assert.Must(t, err)
	t.Cleanup(func() { client.Close(context.Background()) })
	s.Do(t, "HSET", "order:42", "b6a0f0c4-7d2f-4f1e-9a55-0c1d2e3f4a5b:77", "1")
	s.Do(t, "PEXPIRE", "order:42", "3600000")
	charged := make(chan error, 1)
	go func() {
		charged <- redisson.Shared(context.Background(), client, "42", func(context.Context) error { return nil })
	}()
	const channel = "redisson_lock__channel:{order:42}"
	redistest.Await(t, "the Go service waits", func() bool {
		return s.Do(t, "PUBSUB", "NUMSUB", channel).([]any)[1] == int64(1)
	})
	s.Do(t, "DEL", "order:42")
	s.Do(t, "PUBLISH", channel, "0")
	assert.NoError(t, redistest.Next(t, "the charge", charged))
}

// imports is what a Go file has before its first declaration. The pages leave it out.
var imports = regexp.MustCompile(`(?s)\Apackage \w+\n\n(import (\(.*?\n\)|"[^"]*")\n\n)?`)

// Each page shows its files as they are, but for the imports of Go.
func TestThePagesShowTheFiles(t *testing.T) {
	byHand, err := filepath.Glob("setnx/*.go")
	assert.Must(t, err)
	byHand = slices.DeleteFunc(byHand, func(file string) bool { return file == filepath.Join("setnx", "doc.go") })
	for page, files := range map[string][]string{
		"setnx.md":          byHand,
		"../zh-CN/setnx.md": byHand,
		"redsync.md":        {"redsync/before.go", "redsync/shared.go"},
		"redislock.md":      {"redislock/before.go", "redislock/shared.go"},
		"rueidislock.md":    {"rueidislock/before.go", "rueidislock/during.go", "rueidislock/after.go"},
		"redisson.md":       {"redisson/Before.java", "redisson/shared.go"},
		"flock.md":          {"shell/flock-before.sh", "shell/flock-during.sh", "shell/flock-after.sh"},
		"consul-lock.md":    {"shell/consul-before.sh", "shell/consul-during.sh", "shell/consul-after.sh"},
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", "moving", page))
		assert.Must(t, err)
		for _, file := range files {
			code, err := os.ReadFile(file)
			assert.Must(t, err)
			language := strings.TrimPrefix(filepath.Ext(file), ".")
			block := fmt.Sprintf("```%s\n%s```", language, imports.ReplaceAll(code, nil))
			assert.True(t, strings.Contains(string(text), block),
				"docs/moving/%s does not show %s as it is", page, file)
		}
	}
}

// shell runs one of the scripts in a directory where the job is, and tells whether the job ran.
func shell(t *testing.T, dir, script string) bool {
	t.Helper()
	ran := filepath.Join(dir, "ran")
	os.Remove(ran)
	cmd := exec.CommandContext(t.Context(), "sh", filepath.Join(dir, script))
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%s: %v\n%s", script, err, out)
	}
	_, err := os.Stat(ran)
	return err == nil
}

// buildTool builds the tool into dir, for a server at addr.
func buildTool(t *testing.T, dir, addr string) {
	t.Helper()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "holdfast"), ".")
	build.Dir = filepath.Join("..", "..", "cmd", "holdfast")
	out, err := build.CombinedOutput()
	assert.MustTrue(t, err == nil, "%v\n%s", err, out)
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("HOLDFAST_REDIS", "redis://"+addr)
}

// The scripts run with flock(1) and the tool. Each stage runs the job if its locks are free, and
// skips it if one of them is held.
func TestTheScriptsRun(t *testing.T) {
	dir, addr := t.TempDir(), redistest.Start(t).Addr()
	buildTool(t, dir, addr)
	for _, job := range []string{"report.sh", "worker.sh"} {
		code := []byte("#!/bin/sh\n: >ran\n")
		assert.Must(t, os.WriteFile(filepath.Join(dir, job), code, 0o755))
	}
	scripts, err := filepath.Glob("shell/*.sh")
	assert.MustTrue(t, err == nil && len(scripts) == 6, "%v, %v", scripts, err)
	file := filepath.Join(dir, "report.lock")
	for _, path := range scripts {
		code, err := os.ReadFile(path)
		assert.Must(t, err)
		moved := strings.ReplaceAll(string(code), "/var/lock/report.lock", file)
		assert.Must(t, os.WriteFile(filepath.Join(dir, filepath.Base(path)), []byte(moved), 0o600))
		out, err := exec.CommandContext(t.Context(), "sh", "-n", path).CombinedOutput()
		assert.True(t, err == nil, "%s: %s", path, out)
	}
	for _, script := range []string{"flock-before.sh", "flock-during.sh", "flock-after.sh", "consul-after.sh"} {
		assert.True(t, shell(t, dir, script), "%s has not run its job", script)
	}

	old, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	assert.Must(t, err)
	defer old.Close()
	assert.Must(t, syscall.Flock(int(old.Fd()), syscall.LOCK_EX))
	for script, want := range map[string]bool{
		"flock-before.sh": false, "flock-during.sh": false, "flock-after.sh": true,
	} {
		assert.True(t, shell(t, dir, script) == want, "under the old lock, %s: the job ran: %t", script, !want)
	}
	old.Close()

	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	client, err := holdfast.New(goredis.New(rdb), holdfast.Config{})
	assert.Must(t, err)
	defer client.Close(context.Background())
	lease, err := client.Mutex("report").Lock(t.Context())
	assert.Must(t, err)
	for script, want := range map[string]bool{
		"flock-before.sh": true, "flock-during.sh": false, "flock-after.sh": false,
	} {
		assert.True(t, shell(t, dir, script) == want, "under the new lock, %s: the job ran: %t", script, !want)
	}
	assert.NoError(t, lease.Release(t.Context()))
}
