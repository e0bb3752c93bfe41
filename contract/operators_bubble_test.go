package contract_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/script"
)

// plantCrowd makes a record of a lock that a client holds and n others wait for, each with a name of its
// own.
func plantCrowd(t *testing.T, w *world, name string, n int) {
	t.Helper()
	now := time.Now().UnixMilli()
	fields := map[string]string{
		"lock":  fmt.Sprintf("%d000 600000 %s/1 +", now, id22(0)),
		"birth": fmt.Sprintf("%d000", now), "queue": fmt.Sprintf("%d 1 %d", n, n),
	}
	for i := 1; i <= n; i++ {
		attempt := id22(i) + "/1"
		fields[fmt.Sprintf("#%d", i)] = attempt
		fields["w:"+attempt] = fmt.Sprintf("%d x 1 30000 %d %d", i, now+600_000, now)
	}
	w.PlantRecord("holdfast:{"+name+"}", fields)
	for i := range n + 1 {
		_, err := w.Run(t.Context(), script.RegisterClient, []string{"holdfast:client:" + id22(i)},
			[]string{"900000", fmt.Sprintf("app%d", i), "host", "1", "v1", "5"})
		assert.Must(t, err)
	}
}

// id22 is a client's ID.
func id22(i int) string { return fmt.Sprintf("%022d", i) }

// What an operator asks costs few requests, however many wait: the holder costs two, and a name each
// for a thousand waiters a few dozen.
func TestOperatorsCallsCostFewRequests(t *testing.T) {
	for _, c := range []struct{ waiters, all, list int }{{1000, 25, 9}, {5000, 105, 25}} {
		bubble(t, func(t *testing.T, w *world) {
			plantCrowd(t, w, "a", c.waiters)
			client := w.client()
			release(t, mustLock(t, client.Mutex("warm")))
			requests := func() int { return w.net.count("inspect") + w.net.count("read_client") }
			before := requests()
			held, err := client.Holders(t.Context(), "a")
			assert.Must(t, err)
			assert.True(t, held.Waiting == c.waiters && len(held.Waiters) == 0 && held.Holders[0].Client.App == "app0",
				"%d waiting, %d shown, %v", held.Waiting, len(held.Waiters), held.Holders)
			assert.AtMost(t, requests()-before, 2, "requests for the holder")
			before = requests()
			all, err := client.Inspect(t.Context(), "a")
			assert.Must(t, err)
			last := all.Waiters[len(all.Waiters)-1]
			assert.True(t, len(all.Waiters) == c.waiters && last.Client.App == fmt.Sprintf("app%d", c.waiters),
				"%d waiters, the last is %v", len(all.Waiters), last.Client)
			assert.AtMost(t, requests()-before, c.all, "requests of Inspect")
			before = requests()
			for state, err := range client.List(t.Context(), "a") {
				assert.Must(t, err)
				assert.True(t, state.Waiters[99].Client != nil && state.Waiters[100].Client == nil, "who is named")
			}
			assert.AtMost(t, requests()-before, c.list, "requests of List")
		})
	}
}

// A client says what it likes of itself. Others keep two hundred bytes of each name.
func TestALongNameOfAClientIsCut(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		plantCrowd(t, w, "a", 1)
		_, err := w.Run(t.Context(), script.RegisterClient, []string{"holdfast:client:" + id22(0)},
			[]string{"900000", strings.Repeat("é", 5000), "host", "1", "v1", "5"})
		assert.Must(t, err)
		held, err := w.client().Holders(t.Context(), "a")
		assert.Must(t, err)
		assert.Equal(t, held.Holders[0].Client.App, strings.Repeat("é", 100)+"…", "the name")
	})
}

// A damaged record is refused with a hint, and only an eviction by force removes it. Guarantee: I14.
func TestADamagedRecordIsRemovedByForce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		endless := map[string]string{"lock": "5 0 - +", "birth": "5", "queue": "1 1 9007199254740992"}
		w.PlantRecord("holdfast:{a}", endless)
		_, err := c.Mutex("a").TryLock(t.Context())
		assert.True(t, strings.Contains(err.Error(), "is damaged: ") && strings.Contains(holdfast.Hint(err), "--force"),
			"%v; hint: %s", err, holdfast.Hint(err))
		_, err = c.Evict(t.Context(), "a", holdfast.Eviction{By: "ann", Reason: "broken", Force: true, Token: 5})
		assert.Is(t, err, holdfast.ErrInvalid)
		_, err = c.Evict(t.Context(), "a", holdfast.Eviction{By: "ann", Reason: "broken"})
		assert.True(t, err != nil, "an eviction without force has removed it")
		for _, ended := range []int{1, 0} {
			name := map[int]string{1: "a", 0: "nobody"}[ended]
			n, err := c.Evict(t.Context(), name, holdfast.Eviction{By: "ann", Reason: "broken", Force: true})
			assert.True(t, n == ended && err == nil, "%s: %d, %v", name, n, err)
		}
		info, err := c.Inspect(t.Context(), "a")
		assert.Must(t, err)
		assert.True(t, !info.Held() && info.LastEviction.Reason == "broken", "%+v", info)
		release(t, mustLock(t, c.Mutex("a")))
	})
}

// So it is with the record of a job, and a lock of the same name stays as it is.
func TestADamagedJobIsRemovedByForce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		l := mustLock(t, c.Mutex("a"))
		for field, value := range map[string]string{"period": "soon", "undone": "a b", "lock": "5 abc"} {
			damaged := map[string]string{"lock": "5", "birth": "5"}
			damaged[field] = value
			w.PlantRecord("holdfast:{a}:periodic", damaged)
			e := holdfast.Eviction{By: "ann", Reason: "broken", Job: true}
			_, err := c.Evict(t.Context(), "a", e)
			assert.Is(t, err, holdfast.ErrInvalid)
			e.Force = true
			n, err := c.Evict(t.Context(), "a", e)
			assert.True(t, n == 1 && err == nil, "%s: %d, %v", field, n, err)
			result, err := c.Periodic("a", time.Hour).Do(t.Context(), func(context.Context) error { return nil })
			assert.True(t, result.Ran && err == nil, "%s: %+v, %v", field, result, err)
		}
		release(t, l)
	})
}
