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

// A pause longer than the lease shows both: who goes on after it, and who deletes what is another's.
func fleetOf(t *testing.T, ours, original string) Report {
	t.Helper()
	n := Neighbour{Name: "string", Original: here(original), Ours: here(ours), Servers: 1, Long: true}
	report, err := Both(t.Context(), n, Options{
		TTL: 150 * time.Millisecond, Duration: 6 * time.Second, Seed: 7,
		Clients: 4, Threads: 2, Locks: []string{"l1", "l2"},
		Faults: []string{"stop", "kill", "server-kill", "cut"}, Tell: func(string, ...any) {},
	})
	assert.Must(t, err)
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
	report := fleetOf(t, "careful", "careful")
	bad := report.Bad()
	assert.True(t, len(bad) == 0 && len(report.Mixed.Violations) == 0, "%v, %v", bad, report.Mixed.Violations)
	assert.True(t, report.Mixed.Holds["careful"] >= 100, "%d holds", report.Mixed.Holds["careful"])
}

func TestWhatACarelessLibraryDoesIsFound(t *testing.T) {
	t.Parallel()
	report := fleetOf(t, "careless", "careful")
	mixed := report.Mixed
	if mixed.Of("careless", Overstayed) == 0 || mixed.Of("careful", Taken)+mixed.Of("careless", Taken) == 0 {
		t.Errorf("%v", mixed.Violations)
	}
	assert.True(t, len(report.Bad()) != 0, "the run is good")
	assert.True(t, len(report.Alone.Violations) == 0, "the careful alone: %v", report.Alone.Violations)
}
