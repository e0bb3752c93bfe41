package rules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Rule 11, design section 7. The server has no memory left and evicts
// nothing: who holds goes on, who waits goes on waiting and is handed the
// lock, everybody can leave; only who comes new is refused, and told why.
func TestOutOfMemoryCostsNoLease(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		cfg := holdfast.Config{TTL: 1500 * time.Millisecond}
		a, seenA := w.local(t, cfg)
		b, seenB := w.local(t, cfg)
		w.warm(t, a)
		l := lock(t, a.Mutex("x"))
		got := locking(within(t), b.Mutex("x"))
		seenB.await(t, holdfast.EventWait, "x", 1)
		w.Do(t, "SET", "filler", strings.Repeat("x", 1<<20))
		w.Do(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
		w.Do(t, "CONFIG", "SET", "maxmemory", "1mb")

		seenA.renewed(t, "x")
		seenA.renewed(t, "x")
		if err := l.Extend(within(t), time.Second); err != nil {
			t.Errorf("Extend: %v", err)
		}
		_, err := a.Mutex("new").Lock(within(t))
		if !refused(err, "OOM") || !strings.Contains(err.Error(), `"new"`) {
			t.Errorf("Lock of a new name: %v", err)
		}
		if hint := holdfast.Hint(err); !strings.Contains(hint, "maxmemory") {
			t.Errorf("the hint is %q", hint)
		}
		// Who would have to join the line is refused too, and leaves nothing.
		c, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		if _, err := c.Mutex("x").Lock(within(t)); !refused(err, "OOM") {
			t.Errorf("Lock of a held name: %v", err)
		}
		if s := state(t, b, "x"); len(s.Waiters) != 1 || s.Waiters[0].ClientID != b.ID() {
			t.Errorf("the line is %+v", s.Waiters)
		}
		release(t, l)
		next := granted(t, got)
		seenB.renewed(t, "x")
		release(t, next)
		if s := state(t, b, "x"); s.Held() || len(s.Waiters) != 0 {
			t.Errorf("the state is %+v", s)
		}
		w.Do(t, "CONFIG", "SET", "maxmemory", "0")
		release(t, lock(t, a.Mutex("new")))
	})
}

// The same for a waiter whose heartbeats fall into the time without memory:
// it waits on, and follows a holder who has died.
func TestOutOfMemoryCostsNoPlaceInTheLine(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		cfg := holdfast.Config{TTL: 2 * time.Second, RequestTimeout: time.Second} // a lease that a busy machine keeps
		a, _ := w.local(t, cfg)
		b, seen := w.local(t, cfg)
		l := lock(t, a.Mutex("x"))
		got := locking(within(t), b.Mutex("x"))
		seen.await(t, holdfast.EventWait, "x", 1)
		w.Do(t, "CONFIG", "SET", "maxmemory", "1")
		for n := 1; n <= 2; n++ { // it looks, and finds that the holder goes on
			seen.await(t, holdfast.EventWake, "x", n)
		}
		a.Abandon()
		next := granted(t, got)
		if next.Token() <= l.Token() {
			t.Errorf("token %d after %d", next.Token(), l.Token())
		}
		release(t, next)
	})
}

// A waiter whose look the server refuses gives up its place with its error:
// otherwise the lock would be handed to somebody who has gone.
func TestARefusedWaiterLeavesTheLine(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Do(t, "ACL", "SETUSER", "ann", "on", ">pw", "~*", "&*", "+@all")
		holder, _ := w.local(t, holdfast.Config{TTL: 10 * time.Second})
		b, seen := on(t, w.open(t, w.Addr(), login{"ann", "pw"}), holdfast.Config{TTL: time.Second})
		l := lock(t, holder.Mutex("x"))
		got := locking(within(t), b.Mutex("x"))
		seen.await(t, holdfast.EventWait, "x", 1)
		// From now on ann may not do what a poll needs and a cancel does not.
		w.Do(t, "ACL", "SETUSER", "ann", "-pexpire")
		o := redistest.Next(t, "Lock", got)
		if !refused(o.err, "NOPERM") {
			t.Errorf("Lock: %v", o.err)
		}
		redistest.Await(t, "it has left", func() bool { return len(state(t, holder, "x").Waiters) == 0 })
		release(t, l)
	})
}
