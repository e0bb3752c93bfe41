package neighbours

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/history"
)

// The two libraries of this test keep a lock in a string. One deletes the key without a look at whose it
// is, so it lets others in beside a holder; the other does not.
func TestMain(m *testing.M) {
	lockers["careful"] = func(cfg Config) (Locker, error) { return openString(cfg, true), nil }
	lockers["careless"] = func(cfg Config) (Locker, error) { return openString(cfg, false), nil }
	if was, err := Worker(); was {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type stringLocker struct {
	rdb     *redis.Client
	ttl     time.Duration
	careful bool
	id      string
	last    atomic.Int64
}

func openString(cfg Config, careful bool) *stringLocker {
	return &stringLocker{
		rdb: redis.NewClient(&redis.Options{Addr: cfg.Address, TLSConfig: redistest.TLS()}),
		ttl: cfg.TTL(), careful: careful, id: fmt.Sprint(os.Getpid()),
	}
}

func (l *stringLocker) Lock(ctx context.Context, name string) (Hold, error) {
	value := fmt.Sprintf("%s:%d", l.id, l.last.Add(1))
	for {
		sent := time.Now()
		ok, err := l.rdb.SetNX(ctx, name, value, l.ttl).Result()
		switch {
		case err != nil:
			return nil, err
		case ok:
			return &stringHold{l, name, value, sent.Add(l.ttl * 9 / 10)}, nil
		case !history.Sleep(ctx, 3*time.Millisecond):
			return nil, ctx.Err()
		}
	}
}

type stringHold struct {
	*stringLocker

	name, value string
	till        time.Time
}

func (h *stringHold) Holds() bool    { return !h.careful || time.Now().Before(h.till) }
func (h *stringHold) Holder() string { return h.value }

func (h *stringHold) Unlock(ctx context.Context) string {
	if !h.careful {
		if h.rdb.Del(ctx, h.name).Err() != nil {
			return Unknown
		}
		return Released
	}
	const script = `if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('DEL', KEYS[1])`
	n, err := h.rdb.Eval(ctx, script, []string{h.name}, h.value).Int()
	switch {
	case err != nil:
		return Unknown
	case n == 0:
		return NotHeld
	}
	return Released
}

// A pause longer than the lease shows both: who goes on after it, and who deletes what is another's. On a busy machine
// the processes may get too little done in some seconds to show anything. Then the next run is longer.
func fleetOf(t *testing.T, ours, original string, enough func(mixed Result) bool) (report Report) {
	t.Helper()
	n := Neighbour{Name: "string", Original: here(original), Ours: here(ours), Servers: 1, Long: true}
	for seconds := 6; ; seconds *= 2 {
		var err error
		report, err = Both(t.Context(), n, Options{
			TTL: 150 * time.Millisecond, Duration: time.Duration(seconds) * time.Second, Seed: 7,
			Clients: 4, Threads: 2, Locks: []string{"l1", "l2"},
			Faults: []string{"stop", "kill", "server-kill", "cut"}, Tell: func(string, ...any) {},
		})
		assert.Must(t, err)
		if enough(report.Mixed) || len(report.Alone.Violations) > 0 || seconds >= 24 {
			break
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			var b strings.Builder
			_ = report.Write(&b)
			t.Log(b.String())
		}
	})
	return report
}

func TestAFleetOfTheCarefulHasNoViolation(t *testing.T) {
	t.Parallel()
	enough := func(mixed Result) bool {
		return mixed.Holds["careful"] >= 100 || len(mixed.Violations) > 0
	}
	report := fleetOf(t, "careful", "careful", enough)
	bad := report.Bad()
	assert.True(t, len(bad) == 0 && len(report.Mixed.Violations) == 0, "%v, %v", bad, report.Mixed.Violations)
	assert.True(t, enough(report.Mixed), "%d holds", report.Mixed.Holds["careful"])
}

func TestWhatACarelessLibraryDoesIsFound(t *testing.T) {
	t.Parallel()
	found := func(mixed Result) bool {
		return mixed.Of("careless", Overstayed) > 0 && mixed.Of("careful", Taken)+mixed.Of("careless", Taken) > 0
	}
	report := fleetOf(t, "careless", "careful", found)
	assert.True(t, found(report.Mixed), "%v", report.Mixed.Violations)
	assert.True(t, len(report.Bad()) != 0, "the run is good")
	assert.True(t, len(report.Alone.Violations) == 0, "the careful alone: %v", report.Alone.Violations)
}
