package rules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// Rule 11, design section 7. The server has no memory left and evicts nothing. A holder
// goes on, a waiter goes on waiting and gets the lock, and everybody can leave. Only a
// new attempt is refused, and is told why.
func TestOutOfMemoryCostsNoLease(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		cfg := holdfast.Config{TTL: 3 * time.Second}
		a, seenA := w.local(t, cfg)
		b, seenB := w.local(t, cfg)
		w.warm(t, a)
		l := harness.Lock(t, a.Mutex("x"))
		got := harness.Waiting(t, seenB, b.Mutex("x"))
		w.Do(t, "SET", "filler", strings.Repeat("x", 1<<20))
		w.Do(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
		w.Do(t, "CONFIG", "SET", "maxmemory", "1mb")

		seenA.Renewed(t, "x")
		seenA.Renewed(t, "x")
		assert.NoError(t, l.Extend(harness.Within(t), time.Second))
		_, err := a.Mutex("new").Lock(harness.Within(t))
		assert.True(t, refused(err, "OOM") && strings.Contains(err.Error(), `"new"`), "Lock of a new name: %v", err)
		assert.Contains(t, holdfast.Hint(err), "maxmemory")
		// An attempt that would have to wait is refused too, and leaves nothing.
		c, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		_, err = c.Mutex("x").Lock(harness.Within(t))
		assert.True(t, refused(err, "OOM"), "Lock of a held name: %v", err)
		s := state(t, b, "x")
		assert.True(t, len(s.Waiters) == 1 && s.Waiters[0].ClientID == b.ID(), "the queue is %+v", s.Waiters)
		harness.Release(t, l)
		next := harness.Granted(t, got)
		seenB.Renewed(t, "x")
		harness.Release(t, next)
		s = state(t, b, "x")
		assert.True(t, !s.Held() && len(s.Waiters) == 0, "the state is %+v", s)
		w.Do(t, "CONFIG", "SET", "maxmemory", "0")
		harness.Release(t, harness.Lock(t, a.Mutex("new")))
	})
}

// The same for a waiter whose heartbeats fall into the time without memory:
// it goes on waiting, and follows a holder that has died.
func TestOutOfMemoryCostsNoPosition(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		cfg := holdfast.Config{TTL: 2 * time.Second, RequestTimeout: time.Second} // a lease that a busy machine keeps
		a, _ := w.local(t, cfg)
		b, seen := w.local(t, cfg)
		l := harness.Lock(t, a.Mutex("x"))
		got := harness.Waiting(t, seen, b.Mutex("x"))
		w.Do(t, "CONFIG", "SET", "maxmemory", "1")
		for n := 1; n <= 2; n++ { // it asks, and finds that the holder goes on
			seen.Await(t, observe.EventWake, "x", n)
		}
		a.Abandon()
		next := harness.Granted(t, got)
		assert.More(t, next.Token(), l.Token(), "token")
		harness.Release(t, next)
	})
}

// A waiter whose poll the server refuses leaves the queue before it returns the error.
// Otherwise the lock would be granted to an attempt that is over.
func TestARefusedWaiterLeavesTheQueue(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Do(t, "ACL", "SETUSER", "ann", "on", ">pw", "~*", "&*", "+@all")
		holder, _ := w.local(t, holdfast.Config{TTL: 10 * time.Second})
		as := harness.Login{User: "ann", Password: "pw"}
		b, seen := harness.Client(t, w.open(t, as), holdfast.Config{TTL: time.Second})
		l := harness.Lock(t, holder.Mutex("x"))
		got := harness.Waiting(t, seen, b.Mutex("x"))
		// From now on ann may not do what a poll needs and a cancel does not.
		w.Do(t, "ACL", "SETUSER", "ann", "-pexpire")
		o := redistest.Next(t, "Lock", got)
		assert.True(t, refused(o.Err, "NOPERM"), "Lock: %v", o.Err)
		redistest.Await(t, "it has left", func() bool { return len(state(t, holder, "x").Waiters) == 0 })
		harness.Release(t, l)
	})
}
