package rules_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// The server is out of memory: new acquisitions are refused as a whole, a leader goes on.
func TestOutOfMemoryTakesNoPartOfSeveralLocks(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		c, _ := w.local(t, holdfast.Config{TTL: 10 * time.Second})
		w.warm(t, c)
		harness.Release(t, harness.Lock(t, c.Mutex("b"))) // one of them has a record already
		lead, err := c.Election("e").Campaign(harness.Within(t), "one")
		assert.Must(t, err)
		w.Do(t, "CONFIG", "SET", "maxmemory", "1")
		_, err = c.MultiMutex([]string{"a", "b"}).Lock(harness.Within(t))
		assert.True(t, refused(err, "OOM"), "Lock of several: %v", err)
		turn, err := c.Periodic("job", time.Hour).Do(harness.Within(t), func(context.Context) error { return nil })
		assert.True(t, refused(err, "OOM") && !turn.Ran, "Do: %+v, %v; want OOM and no run", turn, err)
		assert.NoError(t, lead.Proclaim(harness.Within(t), "two"))
		assert.NoError(t, lead.Release(harness.Within(t)))
		w.Do(t, "CONFIG", "SET", "maxmemory", "0")
		for _, name := range []string{"a", "b"} {
			assert.False(t, state(t, c, name).Held(), "%s is held", name)
		}
		turn, err = c.Periodic("job", time.Hour).Do(harness.Within(t), func(context.Context) error { return nil })
		assert.True(t, turn.Ran, "Do: %+v, %v", turn, err)
	})
}

// The least user of the lock can do this too: no other command, key or channel.
func TestTheLeastUserCanHoldSeveralRunAndLead(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		as := w.user(t, "least", w.without(t, "")...)
		c, _ := harness.Client(t, w.open(t, as), holdfast.Config{TTL: 5 * time.Second})
		do := func(ctx context.Context) error { return ctx.Err() }
		assert.NoError(t, c.MultiMutex([]string{"a", "b"}).Do(harness.Within(t), do))
		failed := errors.New("no luck")
		for range 2 {
			turn, err := c.Periodic("job", time.Hour, holdfast.DoneOnSuccess(3)).Do(harness.Within(t),
				func(context.Context) error { return failed })
			assert.True(t, turn.Ran && errors.Is(err, failed) && !errors.Is(err, holdfast.ErrNotHeld),
				"Periodic: %+v, %v", turn, err)
		}
		ctx, cancel := context.WithCancel(harness.Within(t))
		defer cancel()
		err := c.Election("e").Do(ctx, "one", func(context.Context, *holdfast.Leadership) error {
			for l, err := range c.Election("e").Observe(ctx) {
				assert.True(t, err == nil && l.Value == "one",
					"want the leader with the value one, got %+v, %v", l, err)
				break
			}
			return nil
		})
		assert.NoError(t, err)
	})
}
