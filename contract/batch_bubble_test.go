package contract_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// fleet calls f in n goroutines, each with its own lock.
func fleet(c *holdfast.Client, n int, f func(m *holdfast.Mutex)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(c.Mutex(fmt.Sprint("own-", i))) })
	}
	wg.Wait()
}

// Goroutines that want different locks at the same time share requests. Each gets its lock
// as if it had asked alone.
func TestManyAcquisitionsShareRequests(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		release(t, mustLock(t, c.Mutex("warm")))
		w.net.slow(func(string) (time.Duration, time.Duration) { return time.Millisecond, time.Millisecond })
		fleet(c, 100, func(m *holdfast.Mutex) {
			l, err := m.Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			if s := w.state(m.Name()); len(s.Holders) != 1 || s.Holders[0].HolderID != l.HolderID() {
				t.Errorf("%s is held by %v, not by %s", m.Name(), s.Holders, l.HolderID())
			}
			release(t, l)
			w.wantFree(m.Name())
		})
		asked := w.net.count("acquire") + w.net.count("acquire_free")
		freed := w.net.count("release") + w.net.count("release_idle")
		assert.True(t, asked <= 20 && freed <= 60,
			"100 locks took %d requests to acquire and %d to release", asked, freed)
	})
}

// If a batch gets no answer, the outcome of each of its requests is unknown, and each
// is cancelled. So is the second request of each call.
func TestALostAnswerToABatchIsCancelled(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		release(t, mustLock(t, c.Mutex("warm")))
		w.net.slow(func(string) (time.Duration, time.Duration) { return time.Millisecond, time.Millisecond })
		w.LoseReply(func(name string, _ []string) error {
			if strings.HasPrefix(name, "acquire") {
				return errLink
			}
			return nil
		})
		var mu sync.Mutex
		failed := 0
		fleet(c, 20, func(m *holdfast.Mutex) {
			l, err := m.TryLock(t.Context())
			if err != nil {
				assert.Is(t, err, holdfast.ErrUnknownOutcome, errLink)
				mu.Lock()
				failed++
				mu.Unlock()
				return
			}
			release(t, l)
		})
		assert.MustTrue(t, failed == 20 && w.net.count("acquire_free") > 0, "%d calls failed", failed)
		time.Sleep(time.Second)
		for i := range 20 {
			w.wantFree(fmt.Sprint("own-", i))
		}
	})
}

// An acquisition that is refused in a batch waits in the queue like any other.
func TestABatchQueuesForALockThatIsHeld(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		other, c := w.client(), w.client()
		held := mustLock(t, other.Mutex("own-15"))
		release(t, mustLock(t, c.Mutex("warm")))
		w.net.slow(func(string) (time.Duration, time.Duration) { return time.Millisecond, time.Millisecond })
		go func() {
			time.Sleep(time.Second)
			release(t, held)
		}()
		start := time.Now()
		fleet(c, 16, func(m *holdfast.Mutex) {
			l := mustLock(t, m)
			if waited := time.Since(start); (m.Name() == "own-15") != (waited >= time.Second) {
				t.Errorf("%s was acquired after %v", m.Name(), waited)
			}
			release(t, l)
		})
	})
}

// If the context ends before the batch is sent, the request is not sent.
func TestAContextThatEndsBeforeTheBatchIsSentSendsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		release(t, mustLock(t, c.Mutex("warm")))
		w.net.slow(func(string) (time.Duration, time.Duration) { return 5 * time.Millisecond, 0 })
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() { release(t, mustLock(t, c.Mutex(fmt.Sprint("own-", i)))) })
		}
		synctest.Wait()
		wg.Go(func() {
			_, err := c.Mutex("late").Lock(ctx)
			assert.Is(t, err, context.Canceled)
		})
		synctest.Wait()
		cancel()
		wg.Wait()
		if s := w.state("late"); s.Fence != 0 || w.net.count("cancel") != 0 {
			t.Errorf("it was sent: fence %d, %d cancels", s.Fence, w.net.count("cancel"))
		}
	})
}
