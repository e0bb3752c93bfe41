package lineage_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store/goredis"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// timestampAsValue takes the time of its clock as the value that is its own.
func timestampAsValue(c *player) {
	mine := c.now()
	if c.do("SET", "x", mine, "NX", "PX", 30000) == "OK" {
		c.enter("holds")
		c.work()
		c.eval("DEL if mine", deleteIfMine, []string{"x"}, mine)
		c.leave()
	}
}

// Two clients come at the same time by their clocks: one clock is ahead. They have the
// same value, so the first one's late unlock frees the lock of the second. Holdfast's
// attempts have names that no clock makes.
func TestATimestampAsValueFreesTheLockOfAnother(t *testing.T) {
	t.Parallel()
	const ahead = 30
	halves(t, func(t *testing.T, s *redistest.Server) {
		perform(t, s, scene{
			picture: "timestamp",
			flaw:    "A has deleted B's lock: B and C both hold.",
			clients: []actor{
				{name: "A", run: timestampAsValue, ahead: ahead},
				{name: "B", run: timestampAsValue},
				{name: "C", run: timestampAsValue},
			},
			turns: "A A 30s B A C",
		}).together("B", "C")
	}, func(t *testing.T, s *redistest.Server) {
		fast := fastClock{goredis.New(connect(t, s.Addr())), time.Now(), ahead * time.Second}
		a, _ := harness.Client(t, fast, holdfast.Config{TTL: 3 * time.Second})
		b, _ := client(t, s.Addr(), holdfast.Config{TTL: time.Minute})
		c, _ := client(t, s.Addr(), holdfast.Config{TTL: time.Minute})
		over := harness.Acquire(t, a.Mutex(lockName, holdfast.NoRenewal()).Lock)
		l := harness.Lock(t, b.Mutex(lockName))
		late(t, over)
		held(t, c)
		harness.Release(t, l)
	})
}

// readUntil reads under a time-out that is kept as a time stamp, beside the writer's.
func readUntil(c *player) {
	if number(c.do("HGET", "x", "write until")) <= c.now() {
		c.do("HSET", "x", "read until", c.now()+60)
		c.enter("reads")
	}
}

// writeUntil compares the readers' time stamp with its own clock.
func writeUntil(c *player) {
	if number(c.do("HGET", "x", "read until")) <= c.now() && number(c.do("HGET", "x", "write until")) <= c.now() {
		c.do("HSET", "x", "write until", c.now()+60)
		c.enter("writes")
	}
}

// The writer's clock is ahead. For it the reader's time is over. With Holdfast only the
// server's clock ends a lease.
func TestTwoTimestampsLetAWriterInBesideAReader(t *testing.T) {
	t.Parallel()
	const ahead = 61
	halves(t, func(t *testing.T, s *redistest.Server) {
		perform(t, s, scene{
			picture: "rw-timestamps",
			flaw:    "The writer's clock is a minute ahead: W writes while R reads.",
			clients: []actor{{name: "R", run: readUntil}, {name: "W", run: writeUntil, ahead: ahead}},
			turns:   "R R W W W",
		}).together("R", "W")
	}, func(t *testing.T, s *redistest.Server) {
		r, _ := client(t, s.Addr(), holdfast.Config{TTL: time.Minute})
		fast := fastClock{goredis.New(connect(t, s.Addr())), time.Now(), ahead * time.Second}
		w, _ := harness.Client(t, fast, holdfast.Config{TTL: time.Minute})
		reading := harness.Acquire(t, r.RWMutex(lockName).RLock)
		l, err := w.RWMutex(lockName).TryLock(harness.Within(t))
		assert.True(t, errors.Is(err, holdfast.ErrHeld), "a writer beside the reader: %v, %v", l, err)
		harness.Release(t, reading)
	})
}
