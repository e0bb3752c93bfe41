package rules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// Rule 11. The holder's process is killed: the next is granted when the lease
// of the dead has ended, and not before.
func TestAKilledHolderIsFollowedWithinItsLease(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const ttl = 1500 * time.Millisecond
		dead := start(t, w.Addr(), "x", ttl)
		token := dead.Token(t, "held")
		b, seen := w.local(t, holdfast.Config{TTL: time.Minute}) // it would not poll before a minute
		got := harness.Waiting(t, seen, b.Mutex("x"))
		before := state(t, b, "x").Holders[0]
		dead.Kill()
		killed := time.Now()
		o := redistest.Next(t, "Lock", got)
		assert.Must(t, o.Err)
		if took := o.At.Sub(killed); took > redistest.Patience/2 {
			t.Errorf("granted %v after the holder's death, its lease was %v", took, ttl)
		}
		assert.True(t, before.Token>>10 == token>>10 && o.Lease.Token() > token,
			"tokens %d, then %d", token, o.Lease.Token())
		harness.Release(t, o.Lease)
	})
}

// Rules 1 and 11. The holder's process is stopped past its lease and goes on:
// what it writes then is refused by its token, and it learns that its lease
// has ended.
func TestAStoppedHolderIsRefusedWhenItGoesOn(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const ttl = time.Second
		var r resource
		stopped := start(t, w.Addr(), "x", ttl)
		token := stopped.Token(t, "held")
		assert.MustTrue(t, r.write(token), "the first write was refused")
		b, seen := w.local(t, holdfast.Config{TTL: time.Minute})
		got := harness.Waiting(t, seen, b.Mutex("x"))
		stopped.Stop(t)
		next := harness.Granted(t, got)
		assert.True(t, r.write(next.Token()), "token %d was refused after %d", next.Token(), token)
		stopped.Order("write") // it will read that first when it goes on
		stopped.Resume()
		if late := stopped.Token(t, "write"); late != token || r.write(late) {
			t.Errorf("the late write with token %d was accepted after %d", late, next.Token())
		}
		assert.Contains(t, stopped.Hear(t, "ended"), "lost")
		stopped.Order("release")
		assert.Contains(t, stopped.Hear(t, "released"), strings.TrimPrefix(holdfast.ErrNotHeld.Error(), "holdfast: "))
		assert.True(t, next.Err() == nil && state(t, b, "x").Holders[0].HolderID == next.HolderID(),
			"the stopped holder's release freed the next one's lock")
		harness.Release(t, next)
	})
}

// Rule 11. A waiter's process is stopped while the lock is granted to it: the lease that
// it cannot use expires, and the next waiter is served.
func TestAStoppedWaiterDelaysTheQueueByOneLease(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const ttl = time.Second
		holder, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		l := harness.Lock(t, holder.Mutex("x"))
		stopped := start(t, w.Addr(), "x", ttl)
		stopped.Hear(t, "client")
		redistest.Await(t, "the child waits", func() bool { return len(state(t, holder, "x").Waiters) == 1 })
		b, seen := w.local(t, holdfast.Config{TTL: time.Minute})
		got := harness.Waiting(t, seen, b.Mutex("x"))
		stopped.Stop(t)
		harness.Release(t, l) // its connection is open: the server cannot know
		next := harness.Granted(t, got)
		stopped.Resume()
		// Awake, it must not believe the push of a lease that is over.
		redistest.Await(t, "the child is in the queue again", func() bool {
			return len(state(t, holder, "x").Waiters) == 1
		})
		assert.NoError(t, next.Err())
		harness.Release(t, next)
		assert.More(t, stopped.Token(t, "held"), next.Token(), "token")
	})
}
