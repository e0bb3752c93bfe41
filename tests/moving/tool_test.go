package moving

import (
	"bufio"
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"

	bsm "github.com/bsm/redislock"
	gored "github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// original tries to lock a key by the original library. held is true if somebody has it.
type original func(key string) (unlock func(), held bool)

// The tool and programs of the original libraries exclude each other, with and without a bridge.
func TestTheToolSharesTheLocksOfTheOriginals(t *testing.T) {
	addr := redistest.Start(t).Addr()
	buildTool(t, t.TempDir(), addr)
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { rdb.Close() })
	rs, locks := gored.New(pool.NewPool(rdb)), bsm.New(rdb)
	for wire, try := range map[string]original{
		"redsync": func(key string) (func(), bool) {
			m := rs.NewMutex(key, gored.WithExpiry(time.Minute))
			err := m.TryLockContext(t.Context())
			taken := (*gored.ErrTaken)(nil)
			assert.False(t, err != nil && !errors.As(err, &taken), "%v", err)
			return func() { _, _ = m.UnlockContext(context.Background()) }, err != nil
		},
		"redislock": func(key string) (func(), bool) {
			l, err := locks.Obtain(t.Context(), key, time.Minute, nil)
			assert.False(t, err != nil && !errors.Is(err, bsm.ErrNotObtained), "%v", err)
			return func() { _ = l.Release(context.Background()) }, err != nil
		},
	} {
		for _, more := range [][]string{nil, {"--bridge"}} {
			crossTool(t, try, append([]string{"run", "-q", "--wire", wire}, more...), wire)
		}
	}
}

func crossTool(t *testing.T, try original, run []string, key string) {
	t.Helper()
	unlock, held := try(key)
	assert.MustTrue(t, !held, "%s is held before", key)
	var exit *exec.ExitError
	busy := append(append([]string{}, run...), "-n", key, "--", "true")
	err := exec.CommandContext(t.Context(), "holdfast", busy...).Run()
	assert.True(t, errors.As(err, &exit) && exit.ExitCode() == 75, "%v beside the original: %v, want 75", busy, err)

	// The tool waits for the original, and the original finds it held then.
	wait := append(append([]string{}, run...), key, "--", "sh", "-c", "echo in; cat")
	tool := exec.CommandContext(t.Context(), "holdfast", wait...)
	in, err := tool.StdinPipe()
	assert.Must(t, err)
	out, err := tool.StdoutPipe()
	assert.Must(t, err)
	assert.Must(t, tool.Start())
	unlock()
	line, err := bufio.NewReader(out).ReadString('\n')
	assert.MustTrue(t, line == "in\n", "the tool's command said %q, %v", line, err)
	_, held = try(key)
	assert.True(t, held, "%v: the original got the lock, too", wait)
	in.Close()
	err = tool.Wait()
	assert.True(t, err == nil, "%v: %v", wait, err)
	unlock, held = try(key)
	assert.MustTrue(t, !held, "%v: the lock is held after the tool", wait)
	unlock()
}
