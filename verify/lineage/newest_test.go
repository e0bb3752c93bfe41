package lineage_test

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// newest needs no script on the newest servers. A release is one command, and so is a
// renewal: SET x A IFEQ A PX 30000.
func newest(c *player) {
	if c.do("SET", "x", c.name, "NX", "PX", 30000) == "OK" {
		c.enter("holds")
		c.do("SET", "file", c.name) // the work
		c.release("x", c.name)
		c.leave()
	}
}

// release deletes a key that has the value: by the command that the server knows, or by
// the script if it knows none.
func (c *player) release(key, value string) any {
	shown := fmt.Sprintf("delete %s if it is %s", key, value)
	for _, command := range [][]any{
		{"DELIFEQ", key, value},       // Valkey 9.0
		{"DELEX", key, "IFEQ", value}, // Redis 8.4
	} {
		if knows(c.play.t, c.play.s, command[0].(string)) {
			return c.send(shown, command)
		}
	}
	return c.send(shown, []any{"EVAL", deleteIfMine, 1, key, value})
}

func knows(t *testing.T, s *redistest.Server, command string) bool {
	t.Helper()
	info, _ := s.Do(t, "COMMAND", "INFO", command).([]any)
	return len(info) == 1 && info[0] != nil
}

// since reports whether the server is at least as new as the version that has a command,
// by what it says of itself.
func since(t *testing.T, s *redistest.Server, redisHas, valkeyHas string) bool {
	t.Helper()
	version, has := s.Info(t, "valkey_version"), valkeyHas
	if version == "" {
		version, has = s.Info(t, "redis_version"), redisHas
	}
	a, b := strings.Split(version, "."), strings.Split(has, ".")
	return cmp.Or(cmp.Compare(number(a[0]), number(b[0])), cmp.Compare(number(a[1]), number(b[1]))) >= 0
}

// On a server that has them the newest commands do the script's work. An older server
// refuses them, in its own words, and the script works there.
func checkNewestCommands(t *testing.T, s *redistest.Server) {
	t.Helper()
	rdb := connect(t, s.Addr())
	do := func(args ...any) any {
		reply, err := rdb.Do(harness.Within(t), args...).Result()
		if errors.Is(err, redis.Nil) {
			return nil
		} else if err != nil {
			return err.Error()
		}
		return reply
	}
	const key = "newest"
	for _, row := range []struct {
		redis, valkey string // the first versions
		foreign, mine []any  // with another's value, and with the key's own
		yes, refusal  any
	}{
		{
			redis: "8.4", valkey: "8.1",
			foreign: []any{"SET", key, "B", "IFEQ", "B", "PX", 30000},
			mine:    []any{"SET", key, "A", "IFEQ", "A", "PX", 30000},
			yes:     "OK", refusal: "ERR syntax error",
		},
		{
			redis: "8.4", valkey: "9.2",
			foreign: []any{"DELEX", key, "IFEQ", "B"}, mine: []any{"DELEX", key, "IFEQ", "A"},
			yes: yes, refusal: "ERR unknown command",
		},
		{
			redis: "99.0", valkey: "9.0",
			foreign: []any{"DELIFEQ", key, "B"}, mine: []any{"DELIFEQ", key, "A"},
			yes: yes, refusal: "ERR unknown command",
		},
		{foreign: []any{"EVAL", deleteIfMine, 1, key, "B"}, mine: []any{"EVAL", deleteIfMine, 1, key, "A"}, yes: yes},
	} {
		do("SET", key, "A", "PX", 20000)
		if row.redis != "" && !since(t, s, row.redis, row.valkey) {
			got, _ := do(row.mine...).(string)
			assert.True(t, strings.HasPrefix(got, row.refusal.(string)), "%v on an older server: %v", row.mine, got)
			t.Logf("%v: refused by this server", row.mine[0])
			continue
		}
		got := do(row.foreign...)
		assert.False(t, got != nil && got != no, "%v while the value is A: %v", row.foreign, got)
		assert.Equal(t, do("GET", key), "A", "after %v the key has", row.foreign)
		assert.Equal(t, do(row.mine...), row.yes, "%v while the value is A", row.mine)
		left, _ := do("PTTL", key).(int64)
		gone := row.yes == yes
		assert.False(t, gone && left != -2 || !gone && left <= 20000, "after %v the key has %d ms", row.mine, left)
		t.Logf("%v: done by this server", row.mine[0])
	}
}

// The newest servers release by one command, and leave no window between check and
// release. What was missing before is missing still: the holder is not told that it lost
// the lock, and nothing rejects its late write. Holdfast does both.
func TestAReleaseByOneCommandStillHasNoToken(t *testing.T) {
	t.Parallel()
	halves(t, func(t *testing.T, s *redistest.Server) {
		checkNewestCommands(t, s)
		perform(t, s, scene{
			picture: "newest",
			flaw:    "A wrote last, though B acquired the lock later.",
			clients: []actor{{name: "A", run: newest}, {name: "B", run: newest}},
			turns:   "A 30s B B A B A",
		}).together()
		assert.Equal(t, s.Do(t, "GET", "file"), "A", "the file: the flaw is not seen")
	}, func(t *testing.T, s *redistest.Server) {
		rdb := connect(t, s.Addr())
		a, _ := client(t, s.Addr(), holdfast.Config{TTL: 3 * time.Second})
		b, _ := client(t, s.Addr(), holdfast.Config{TTL: time.Minute})
		over := harness.Acquire(t, a.Mutex(lockName, holdfast.NoRenewal()).Lock)
		l, told := nextHolder(t, b, over.Err)
		assert.True(t, told != nil, "another was granted the lock before the holder knew")
		assert.Must(t, writeFenced(harness.Within(t), rdb, l, "B"))
		err := writeFenced(harness.Within(t), rdb, over, "A")
		assert.True(t, err != nil && strings.Contains(err.Error(), "STALE"),
			"the late write: %v; want STALE", err)
		late(t, over)
		harness.Release(t, l)
	})
}
