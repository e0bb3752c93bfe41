package contract_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// Prefixes may consist of words of the protocol and contain each other. Their locks, jobs
// and elections are independent.
func TestPrefixesThatContainEachOtherAreSeparate(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		prefixes := []string{
			"app", "app:every", "app:watch", "app:push", "app:client", "app:quorum", "app:every:every",
			"app:watch:watch", "app:periodic", "app:",
		}
		names := []string{"job", "{job}", "}:periodic", "watch:job", "every:{job}", "job}:periodic", "push:job", "=job"}
		heard := make(map[string]*atomic.Int64)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		clients := make(map[string]*holdfast.Client)
		for _, prefix := range prefixes {
			clients[prefix] = w.client(holdfast.Config{Prefix: prefix})
			for _, name := range names {
				_, err := clients[prefix].Mutex(name).TryLock(ctx)
				assert.MustTrue(t, err == nil, "%s: Mutex(%q): %v", prefix, name, err)
			}
		}
		for prefix, c := range clients { // while all locks are held
			for _, name := range names {
				turn, err := c.Periodic(name, time.Hour).Do(ctx, func(context.Context) error { return nil })
				assert.MustTrue(t, err == nil && turn.Ran, "%s: Periodic(%q): %+v, %v", prefix, name, turn, err)
			}
			told := new(atomic.Int64)
			heard[prefix] = told
			go func() {
				for range c.Election("news:" + prefix).Observe(ctx) {
					told.Add(1)
				}
			}()
			synctest.Wait()
		}
		// An observer is told of its own election only.
		before := heard["app:watch"].Load()
		lead := mustCampaign(t, w.client(holdfast.Config{Prefix: "app"}).Election("news:app"), "one")
		synctest.Wait()
		if heard["app"].Load() == 0 || heard["app:watch"].Load() != before {
			t.Errorf("heard %d and %d times", heard["app"].Load(), heard["app:watch"].Load())
		}
		resign(t, lead)
		assert.Equal(t, w.Publish("app:watch=news:app", "leader 1"), 1, "observers of the election")
		cancel()
		synctest.Wait()
	})
}
