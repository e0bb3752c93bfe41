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

// enterToRead checks and enters in one step, as enterToWrite does. The key's value is the
// mode.
const enterToRead = `
	if redis.call('GET', KEYS[1]) == 'write' then return 0 end
	redis.call('SET', KEYS[1], 'read', 'PX', ARGV[1])
	return 1`

const enterToWrite = `
	if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
	redis.call('SET', KEYS[1], 'write', 'PX', ARGV[1])
	return 1`

// readInOneStep enters by a script. Nothing counts the readers.
func readInOneStep(c *player) {
	if c.eval("enter to read", enterToRead, []string{"x"}, 30000) == yes {
		c.enter("reads")
		c.do("DEL", "x")
		c.leave()
	}
}

func writeInOneStep(c *player) {
	if c.eval("enter to write", enterToWrite, []string{"x"}, 30000) == yes {
		c.enter("writes")
		c.do("DEL", "x")
		c.leave()
	}
}

// Two clients read, and one leaves. The old lock has no count: it is free then, and a
// writer gets in. Holdfast's record has each reader.
func TestOneReadersExitLetsAWriterInBesideAnother(t *testing.T) {
	t.Parallel()
	halves(t, func(t *testing.T, s *redistest.Server) {
		perform(t, s, scene{
			picture: "rw-no-count",
			flaw:    "W writes while B reads.",
			clients: []actor{
				{name: "A", run: readInOneStep}, {name: "B", run: readInOneStep}, {name: "W", run: writeInOneStep},
			},
			turns: "A B A W",
		}).together("B", "W")
	}, func(t *testing.T, s *redistest.Server) {
		a, _ := client(t, s.Addr(), holdfast.Config{TTL: time.Minute})
		b, _ := client(t, s.Addr(), holdfast.Config{TTL: time.Minute})
		w, _ := client(t, s.Addr(), holdfast.Config{TTL: time.Minute})
		one, other := harness.Acquire(t, a.RWMutex(lockName).RLock), harness.Acquire(t, b.RWMutex(lockName).RLock)
		harness.Release(t, one)
		l, err := w.RWMutex(lockName).TryLock(harness.Within(t))
		assert.True(t, errors.Is(err, holdfast.ErrHeld), "a writer beside a reader: %v, %v", l, err)
		harness.Release(t, other)
		harness.Release(t, harness.Acquire(t, w.RWMutex(lockName).Lock))
	})
}

const enterTwoKeys = `
	if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
	redis.call('INCR', KEYS[1])
	redis.call('PEXPIRE', KEYS[1], ARGV[1])
	return 1`

// readWithTwoKeys has one key for the count of the readers, and one for the writer.
func readWithTwoKeys(c *player) {
	if c.eval("enter to read", enterTwoKeys, []string{"x:readers", "x:writer"}, 30000) == yes {
		c.enter("reads")
	}
}

// A script over two keys works on one server. In a Cluster the keys have different slots,
// and the server refuses every call. Holdfast's locks have one key.
func TestTwoKeysAnswerCROSSSLOTInACluster(t *testing.T) {
	t.Parallel()
	cluster := func(t *testing.T, s *redistest.Server) {
		assert.MustEqual(t, s.Do(t, "CLUSTER", "ADDSLOTSRANGE", 0, 16383), "OK", "s.Do")
		redistest.Await(t, "the Cluster is ready", func() bool {
			state, _ := s.Do(t, "CLUSTER", "INFO").(string)
			return strings.Contains(state, "cluster_state:ok")
		})
	}
	halves(t, func(t *testing.T, s *redistest.Server) {
		cluster(t, s)
		p := perform(t, s, scene{
			picture: "rw-crossslot",
			flaw:    "In a Cluster nobody ever gets the lock.",
			keys:    []string{"x:readers"},
			clients: []actor{{name: "R", run: readWithTwoKeys}},
			turns:   "R",
		})
		p.together()
		if refused, _ := p.by["R"].reply.(error); refused == nil || !strings.HasPrefix(refused.Error(), "CROSSSLOT") {
			t.Errorf("the server answered %v: the flaw is not seen", p.by["R"].reply)
		}
	}, func(t *testing.T, s *redistest.Server) {
		cluster(t, s)
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.Addr()}})
		t.Cleanup(func() { rdb.Close() })
		c, _ := harness.Client(t, goredis.New(rdb), holdfast.Config{TTL: time.Minute})
		reading := harness.Acquire(t, c.RWMutex(lockName).RLock)
		l, err := c.RWMutex(lockName).TryLock(harness.Within(t))
		assert.True(t, errors.Is(err, holdfast.ErrHeld), "a writer beside the reader: %v, %v", l, err)
		harness.Release(t, reading)
		harness.Release(t, harness.Acquire(t, c.RWMutex(lockName).Lock))
	}, redistest.BusPort(), redistest.Args("--cluster-enabled", "yes"))
}
