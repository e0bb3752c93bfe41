package lineage_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store/goredis"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

const setnxAndExpire = `
	if redis.call('SETNX', KEYS[1], ARGV[1]) == 0 then return 0 end
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
	return 1`

// luaSetAndExpire expects that a script does both or nothing.
func luaSetAndExpire(c *player) {
	for c.eval("SETNX, PEXPIRE", setnxAndExpire, []string{"x"}, c.name, 30000) != yes {
		c.sleep(10 * time.Second)
	}
	c.enter("holds")
}

// The server refuses the second command of a script: the user may not run it. The server
// keeps what the first one wrote. The old lock then has a holder that does not know it, and
// no end. Holdfast sets the lease before the record, and writes nothing if that is refused.
func TestAScriptThatFailsHalfWayKeepsWhatItWrote(t *testing.T) {
	t.Parallel()
	rules := []any{"ACL", "SETUSER", "ann", "on", ">pw", "~*", "&*", "+@all", "-pexpire"}
	halves(t, func(t *testing.T, s *redistest.Server) {
		s.Do(t, rules...)
		p := perform(t, s, scene{
			picture: "halfway",
			flaw:    "Nobody holds the lock, and the key x has no expiry.",
			clients: []actor{{name: "A", run: luaSetAndExpire, user: "ann"}, {name: "B", run: luaSetAndExpire}},
			turns:   "A B 24h B",
		})
		p.together()
		if owner, left := s.Do(t, "GET", lockName), s.Do(t, "PTTL", lockName); owner != "A" || left != int64(-1) {
			t.Errorf("the lock is %v's and ends in %v ms: the flaw is not seen", owner, left)
		}
	}, func(t *testing.T, s *redistest.Server) {
		s.Do(t, rules...)
		options := plain(s.Addr())
		options.Username, options.Password = "ann", "pw"
		rdb := redis.NewClient(options)
		t.Cleanup(func() { rdb.Close() })
		a, _ := harness.Client(t, goredis.New(rdb), holdfast.Config{})
		b, _ := client(t, s.Addr(), holdfast.Config{})
		l, err := a.Mutex(lockName).TryLock(harness.Within(t))
		assert.True(t, err != nil && !errors.Is(err, holdfast.ErrHeld) && strings.Contains(err.Error(), "pexpire"),
			"without the right to PEXPIRE: %v, %v", l, err)
		keys := s.Do(t, "DBSIZE")
		assert.True(t, keys == int64(0), "the refused script left %v keys", keys)
		harness.Release(t, harness.Lock(t, b.Mutex(lockName)))
	})
}
