package quorum_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestSeveralLocksAreAcquiredAllOrNone(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		names := []string{"x", "y", "z"}
		l, err := a.MultiMutex(names).TryLock(t.Context())
		assert.Must(t, err)
		for _, name := range names {
			w.wantOn(name, "11111")
		}
		w.kill(1, 3)
		time.Sleep(3 * ttl)
		assert.NoError(t, l.Err())
		_, err = b.MultiMutex([]string{"w", "z"}).TryLock(t.Context())
		var held *holdfast.HeldError
		assert.True(t, errors.As(err, &held) && held.Name == "z" && held.HeldBy != "",
			"want that z is held, and by whom, got %v", err)
		time.Sleep(time.Second)
		w.wantOn("w", "00000")
		assert.NoError(t, l.Release(t.Context()))
		for _, i := range []int{1, 3} {
			w.peers[i].revive(false)
		}
		time.Sleep(2 * time.Second) // failed cancels are sent again
		for _, name := range names {
			w.wantOn(name, "00000")
		}
	})
}

func TestAClientThatWantsSeveralLocksGetsThem(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		sets := [][]string{{"x", "y"}, {"y", "z"}, {"z", "x"}, {"x", "y", "z"}}
		inside, last := map[string]int{}, map[string]uint64{}
		var mu sync.Mutex
		var all sync.WaitGroup
		for _, set := range sets {
			c := w.client()
			all.Go(func() {
				for range 10 {
					l, err := c.MultiMutex(set).Lock(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					for _, name := range set {
						inside[name]++
						assert.True(t, inside[name] <= 1, "two have %s", name)
						if token := l.Token(name); token <= last[name] {
							t.Errorf("%s: token %d after %d", name, token, last[name])
						} else {
							last[name] = token
						}
					}
					mu.Unlock()
					time.Sleep(time.Millisecond)
					mu.Lock()
					for _, name := range set {
						inside[name]--
					}
					mu.Unlock()
					assert.NoError(t, l.Release(t.Context()))
				}
			})
		}
		all.Wait()
		synctest.Wait()
		for _, name := range []string{"x", "y", "z"} {
			w.wantOn(name, "00000")
		}
	})
}
