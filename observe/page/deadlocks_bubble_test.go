package page

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// Two clients hold a lock each and wait for that of the other. The stream tells what the waiters
// hold, and both locks are marked. Once an operator has evicted one holder, they are not.
func TestADeadlockIsShown(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		other := w.newClient("other")
		x := w.lock("x")
		y, err := other.Mutex("y").Lock(t.Context())
		assert.Must(t, err)
		w.lock("z")
		ended := make(chan error, 2)
		wait := func(ctx context.Context, m *holdfast.Mutex) {
			l, err := m.Lock(ctx)
			if err == nil {
				err = l.Release(context.Background())
			}
			ended <- err
		}
		go wait(x.Context(), w.client.Mutex("y"))
		go wait(y.Context(), other.Mutex("x"))
		s, known := w.view(), map[string]lockJSON{}
		shown := func(id string) lockJSON {
			replay(t, known, s.next())
			return known[id]
		}
		w.pass(5 * time.Second)
		if l := shown("lock:x"); len(l.Deadlock) != 0 || l.Deadlock == nil || len(l.Waiters[0].Holds) != 0 {
			t.Errorf("before it is known: %+v", l)
		}
		w.pass(15 * time.Second)
		for name, holds := range map[string]string{"x": "y", "y": "x"} {
			l := shown("lock:" + name)
			if len(l.Deadlock) != 2 || !slices.Equal(l.Waiters[0].Holds, []string{holds}) {
				t.Errorf("%s: %+v, the waiter holds %v", name, l.Deadlock, l.Waiters[0].Holds)
			}
			d := w.detail(name).Lock.Deadlock
			if len(d) != 2 || d[0].Holds != d[1].Name || d[1].Holds != d[0].Name || d[0].Client == d[1].Client {
				t.Errorf("the detail of %s: %+v", name, d)
			}
		}
		var list listJSON
		w.get("/api/locks", &list)
		assert.Equal(t, list.Totals.Deadlocks, 1, "deadlocks")
		assert.Contains(t, w.scrape(), "\nholdfast_server_deadlocks 1\n")
		l := shown("lock:z")
		assert.True(t, len(l.Deadlock) == 0, "another lock: %+v", l.Deadlock)
		who := holdfast.Eviction{By: "a test", Reason: "deadlock"}
		assert.Must(t, assert.Err(other.Evict(t.Context(), "x", who)))
		w.pass(20 * time.Second)
		<-ended
		<-ended
		l = shown("lock:y")
		assert.True(t, len(l.Deadlock) == 0, "after the end: %+v", l.Deadlock)
		text := w.scrape()
		assert.Contains(t, text, "\nholdfast_server_deadlocks 0\n")
		assert.Contains(t, text, "\nholdfast_server_evictions_total 1\n")
		w.release(y)
		s.leave()
		<-s.done
	})
}
