//go:build redisson

package crossing

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestTheFairQueueKeepsItsOrder(t *testing.T) {
	crossed(t, func(t *testing.T, a, b side) {
		w := open(t, a, b, Settings{})
		n := name()
		say(t, "locked", w.a, "1", "lock", "fair", n, long)
		// The goroutines of one process of this library are one waiter: each waiter needs its own.
		var waiters []*Process
		var queue []*Answer
		for i := range 6 {
			p := w.b
			if s := []side{b, a, a, b, a, b}[i]; s.name != "redisson" {
				p = run(t, s, Settings{Address: w.server.Addr()})
			} else if a.name == "redisson" {
				p = w.a
			}
			waiters = append(waiters, p)
			queue = append(queue, p.Begin(fmt.Sprint("waiter", i), "lock", "fair", n, long))
			redistest.Await(t, "the waiter is in the queue", func() bool {
				return w.do(t, n, "LLEN", tagged("redisson_lock_queue", n)) == int64(i+1)
			})
		}
		w.heardAll(t, channel(n)+":*", len(waiters))
		say(t, "unlocked", w.a, "1", "unlock", "fair", n)
		for i, p := range waiters {
			is(t, "locked", queue[i])
			for _, later := range queue[i+1:] {
				none(t, later)
			}
			say(t, "unlocked", p, fmt.Sprint("waiter", i), "unlock", "fair", n)
		}
		for _, key := range []string{n, tagged("redisson_lock_queue", n), tagged("redisson_lock_timeout", n)} {
			assert.True(t, w.do(t, n, "EXISTS", key) == int64(0), "%s is left", key)
		}
	})
}

// heardAll waits until n channels of a pattern have a subscription.
func (w world) heardAll(t *testing.T, pattern string, n int) {
	t.Helper()
	pattern = strings.NewReplacer("[", `\[`, "]", `\]`).Replace(pattern)
	redistest.Await(t, "subscriptions to "+pattern, func() bool {
		if w.cluster == nil {
			return len(w.server.Do(t, "PUBSUB", "CHANNELS", pattern).([]any)) >= n
		}
		found := 0
		for _, s := range w.cluster.Nodes {
			for _, of := range []string{"CHANNELS", "SHARDCHANNELS"} {
				found += len(s.Do(t, "PUBSUB", of, pattern).([]any))
			}
		}
		return found >= n
	})
}

func TestAWaiterThatGivesUpLeavesTheFairQueue(t *testing.T) {
	crossed(t, func(t *testing.T, a, b side) {
		w := open(t, a, b, Settings{})
		n := name()
		say(t, "locked", w.a, "1", "lock", "fair", n, long)
		say(t, "busy", w.b, "1", "try", "fair", n, 300, long)
		redistest.Await(t, "the queue is empty", func() bool {
			return w.do(t, n, "LLEN", tagged("redisson_lock_queue", n)) == int64(0)
		})
		waits := w.b.Begin("2", "lock", "fair", n, long)
		w.heardAll(t, channel(n)+":*", 1)
		say(t, "unlocked", w.a, "1", "unlock", "fair", n)
		is(t, "locked", waits)
	})
}

func TestReadersOfBothSidesAreInTogether(t *testing.T) {
	crossed(t, func(t *testing.T, a, b side) {
		w := open(t, a, b, Settings{})
		n := name()
		c := tagged("redisson_rwlock", n)
		say(t, "locked", w.a, "1", "lock", "read", n, long)
		say(t, "locked", w.b, "1", "lock", "read", n, long)
		say(t, "locked", w.b, "2", "lock", "read", n, long)
		writer := w.a.Begin("writer", "lock", "write", n, long)
		w.heard(t, c, 1)
		say(t, "unlocked", w.a, "1", "unlock", "read", n)
		say(t, "unlocked", w.b, "2", "unlock", "read", n)
		say(t, "busy", w.b, "3", "try", "write", n, 0, 0)
		none(t, writer)
		say(t, "unlocked", w.b, "1", "unlock", "read", n)
		is(t, "locked", writer)
		first, second := w.b.Begin("1", "lock", "read", n, long), w.a.Begin("1", "lock", "read", n, long)
		w.heard(t, c, 2)
		none(t, first)
		none(t, second)
		say(t, "unlocked", w.a, "writer", "unlock", "write", n)
		is(t, "locked", first)
		is(t, "locked", second)
		say(t, "unlocked", w.b, "1", "unlock", "read", n)
		say(t, "busy", w.b, "1", "try", "write", n, 0, 0)
		say(t, "unlocked", w.a, "1", "unlock", "read", n)
		say(t, "locked", w.b, "1", "try", "write", n, 0, 0)
	})
}

func TestAReadersReleaseDoesNotEndTheHoldOfAnother(t *testing.T) {
	crossed(t, func(t *testing.T, a, b side) {
		w := open(t, a, b, Settings{WatchdogMs: short})
		n := name()
		say(t, "locked", w.a, "1", "lock", "read", n, 0)
		say(t, "locked", w.b, "1", "lock", "read", n, 0)
		say(t, "unlocked", w.b, "1", "unlock", "read", n)
		w.renewed(t, n, 6)
		say(t, "busy", w.b, "1", "try", "write", n, 0, 0)
		say(t, "true", w.a, "1", "held", "read", n)
		say(t, "unlocked", w.a, "1", "unlock", "read", n)
		say(t, "locked", w.b, "1", "try", "write", n, 0, 0)
	})
}

func TestTokensRiseOverBothSides(t *testing.T) {
	crossed(t, func(t *testing.T, a, b side) {
		w := open(t, a, b, Settings{})
		n := name()
		last := int64(0)
		for i := range 20 {
			p := []*Process{w.a, w.b}[i%2]
			answer, err := wait(t, p.Begin("1", []string{"token", "try-token"}[i/2%2], n))
			assert.Must(t, err)
			token, err := strconv.ParseInt(answer, 10, 64)
			assert.MustTrue(t, err == nil && token > last, "token %q after %d", answer, last)
			last = token
			say(t, "unlocked", p, "1", "unlock", "fenced", n)
		}
	})
}

func TestPermitsAreCountedOverBothSides(t *testing.T) {
	crossed(t, func(t *testing.T, a, b side) {
		w := open(t, a, b, Settings{})
		n := name()
		say(t, "true", w.a, "1", "permits", n, 3)
		if answer, err := wait(t, w.b.Begin("1", "permits", n, 3)); err != nil {
			t.Fatal(answer, err)
		}
		say(t, "acquired", w.a, "1", "acquire", n, 2, 0)
		say(t, "acquired", w.b, "1", "acquire", n, 1, 0)
		say(t, "busy", w.a, "2", "acquire", n, 1, 0)
		say(t, "busy", w.b, "2", "acquire", n, 1, 50)
		say(t, "0", w.b, "3", "available", n)
		waits := w.b.Begin("2", "acquire", n, 2, -1)
		w.heard(t, tagged("redisson_sc", n), 1)
		none(t, waits)
		say(t, "released", w.a, "1", "release", n, 2)
		is(t, "acquired", waits)
		waits = w.a.Begin("2", "acquire", n, 3, -1)
		w.heard(t, tagged("redisson_sc", n), 1)
		say(t, "released", w.b, "1", "release", n, 1)
		say(t, "released", w.b, "2", "release", n, 2)
		is(t, "acquired", waits)
		say(t, "released", w.a, "2", "release", n, 3)
		assert.Equal(t, w.do(t, n, "GET", n), "3", "permits are free in the end")
	})
}

func TestSeveralLocksAtOnce(t *testing.T) {
	crossed(t, func(t *testing.T, a, b side) {
		w := open(t, a, b, Settings{})
		x, y, z := name(), name(), name()
		all := strings.Join([]string{x, y, z}, ",")
		say(t, "locked", w.a, "1", "lock", "multi", all, 0)
		for _, n := range []string{x, y, z} {
			say(t, "busy", w.b, "1", "try", "lock", n, 0, 0)
		}
		say(t, "busy", w.b, "1", "try", "multi", strings.Join([]string{z, y}, ","), 0, 0)
		say(t, "unlocked", w.a, "1", "unlock", "multi", all)
		say(t, "locked", w.b, "1", "try", "lock", y, 0, 0)
		say(t, "busy", w.a, "1", "try", "multi", all, 0, 0)
		say(t, "locked", w.a, "2", "try", "lock", x, 0, 0) // the failed try left nothing
		say(t, "locked", w.a, "2", "try", "lock", z, 0, 0)
		for _, n := range []string{x, z} {
			say(t, "unlocked", w.a, "2", "unlock", "lock", n)
		}
		waits := w.a.Begin("1", "lock", "multi", all, 0)
		w.heard(t, channel(y), 1)
		none(t, waits)
		say(t, "unlocked", w.b, "1", "unlock", "lock", y)
		is(t, "locked", waits)
	})
}
