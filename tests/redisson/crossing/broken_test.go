//go:build redisson

package crossing

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// These tests show what Redisson does by itself, where docs/moving/sharing.md says that it is broken. When
// one of them fails with a newer Redisson, the page is out of date.

func TestRedissonTellsNobodyThatALeaseIsLost(t *testing.T) {
	s := redistest.Start(t, redistest.Tenant(""))
	java := run(t, side{"redisson", StartJava}, Settings{Address: s.Addr(), WatchdogMs: short})
	ours := run(t, side{"holdfast", StartGo}, Settings{Address: s.Addr(), WatchdogMs: short})
	mine, theirs := name(), name()
	say(t, "locked", ours, "1", "lock", "lock", mine, 0)
	say(t, "locked", java, "1", "lock", "lock", theirs, 0)
	s.Do(t, "DEL", mine, theirs)
	// The next renewal ends the context of our lease. RLock has nothing that could tell: only a question
	// to the server, or the unlock, shows it.
	redistest.Await(t, "the context of our lease ends", func() bool {
		answer, err := wait(t, ours.Begin("1", "held", "lock", mine))
		return err == nil && answer == "false"
	})
	say(t, "not-held", ours, "1", "unlock", "lock", mine)
	say(t, "not-held", java, "1", "unlock", "lock", theirs)
}

func TestAReleaseOfARedissonWriterThatReadsTellsNobody(t *testing.T) {
	s := redistest.Start(t, redistest.Tenant(""))
	w := world{server: s}
	java := run(t, side{"redisson", StartJava}, Settings{Address: s.Addr()})
	n := name()
	heard := s.Dial(t)
	heard.Do(t, "SUBSCRIBE", tagged("redisson_rwlock", n))
	say(t, "locked", java, "1", "lock", "write", n, long)
	say(t, "locked", java, "1", "lock", "read", n, long)
	say(t, "unlocked", java, "1", "unlock", "write", n) // from now on others may read, and nobody is told
	s.Do(t, "PUBLISH", tagged("redisson_rwlock", n), "7")
	message := heard.Receive(t).([]any)
	if got := message[len(message)-1]; got != "7" {
		t.Errorf("the message %v came before: the page is out of date", got)
	}
	assert.Equal(t, w.do(t, n, "HGET", n, "mode"), "read", "the mode")
}

func TestADeadWaiterInFrontKeepsRedissonBusy(t *testing.T) {
	s := redistest.Start(t, redistest.Tenant(""))
	settings := Settings{Address: s.Addr(), WatchdogMs: short}
	java := side{"redisson", StartJava}
	holder, dead, next := run(t, java, settings), run(t, java, settings), run(t, java, settings)
	n := name()
	queued := func(want int64) {
		redistest.Await(t, "the waiter is in the queue", func() bool {
			return s.Do(t, "LLEN", tagged("redisson_lock_queue", n)) == want
		})
	}
	say(t, "locked", holder, "1", "lock", "fair", n, 0)
	_ = dead.Begin("1", "lock", "fair", n, 0)
	queued(1)
	assert.Must(t, dead.Kill())
	waits := next.Begin("1", "lock", "fair", n, 0)
	queued(2)
	say(t, "unlocked", holder, "1", "unlock", "fair", n)
	s.ResetStats(t)
	// The lock is free, and the waiter asks for it again and again, without a pause.
	redistest.Await(t, "a thousand requests", func() bool { return s.CommandCalls(t)["evalsha"] > 1000 })
	none(t, waits)
	if held := s.Do(t, "EXISTS", n); held != int64(0) {
		t.Error("somebody has the lock")
	}
}

func TestUnlockingAnExpiredFairLockSucceedsInRedisson(t *testing.T) {
	s := redistest.Start(t, redistest.Tenant(""))
	java := run(t, side{"redisson", StartJava}, Settings{Address: s.Addr()})
	ours := run(t, side{"holdfast", StartGo}, Settings{Address: s.Addr()})
	for _, c := range []struct {
		p    *Process
		want string
	}{{java, "unlocked"}, {ours, "not-held"}} {
		n := name()
		say(t, "locked", c.p, "1", "lock", "fair", n, short)
		redistest.Await(t, "the lease is over", func() bool { return s.Do(t, "EXISTS", n) == int64(0) })
		say(t, c.want, c.p, "1", "unlock", "fair", n)
	}
}
