package lineage_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// poll asks again and again until the lock is free.
func poll(c *player) {
	for c.do("SET", "x", c.name, "NX", "PX", 30000) != "OK" {
		c.sleep(100 * time.Millisecond)
	}
	c.enter("holds")
	c.eval("DEL if mine", deleteIfMine, []string{"x"}, c.name)
	c.leave()
}

const deleteIfMine = `
	if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
	return 0`

// B waits first, and C comes later. When the lock is free, the old way gives it to the
// client that happens to ask next. With Holdfast the clients have an order.
func TestAClientThatPollsIsOvertaken(t *testing.T) {
	t.Parallel()
	halves(t, func(t *testing.T, s *redistest.Server) {
		p := perform(t, s, scene{
			picture: "polling",
			flaw:    "B has waited longest. C overtakes it, and then D.",
			clients: []actor{
				{name: "A", run: poll}, {name: "B", run: poll}, {name: "C", run: poll}, {name: "D", run: poll},
			},
			turns: "A B 60ms C 40ms B A 60ms C 20ms D 20ms B C 80ms D",
		})
		p.together("D")
		for _, r := range p.rows {
			assert.Equal(t, r.inside["B"], "", "B got the lock: the flaw is not seen")
		}
	}, func(t *testing.T, s *redistest.Server) {
		a, _ := client(t, s.Addr(), holdfast.Config{})
		l := harness.Lock(t, a.Mutex(lockName))
		var waits []<-chan harness.Outcome
		for n := range 3 {
			c, _ := client(t, s.Addr(), holdfast.Config{})
			waits = append(waits, harness.Acquiring(harness.Within(t), c.Mutex(lockName).Lock))
			waiting(t, a, n+1)
		}
		for n, got := range waits {
			harness.Release(t, l)
			l = harness.Granted(t, got)
			for _, later := range waits[n+1:] {
				assert.Equal(t, len(later), 0, "a later client was granted the lock first")
			}
		}
		harness.Release(t, l)
	})
}

// waiting waits until n clients are in the wait queue.
func waiting(t *testing.T, c *holdfast.Client, n int) {
	t.Helper()
	redistest.Await(t, "the clients wait", func() bool {
		state, err := c.Inspect(context.Background(), lockName)
		return err == nil && len(state.Waiters) == n
	})
}
