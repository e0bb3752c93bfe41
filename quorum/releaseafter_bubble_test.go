package quorum_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestAWaiterIsGrantedWhenTheMinimumHoldIsOver(t *testing.T) {
	for _, dead := range []int{0, 2} {
		bubble(t, func(t *testing.T, w *world) {
			const least = 2 * ttl
			a, b := w.client(), w.client()
			l, err := a.Mutex("x", holdfast.MinHold(least)).Lock(t.Context())
			assert.Must(t, err)
			start := time.Now()
			tokens := make(chan uint64)
			go func() {
				m, err := b.Mutex("x").Lock(t.Context())
				if err != nil {
					t.Error(err)
					close(tokens)
					return
				}
				tokens <- m.Token()
				w.release(m)
				close(tokens)
			}()
			synctest.Wait() // it is in the queue
			for i := range dead {
				w.peers[i].kill()
			}
			w.release(l)
			assert.More(t, <-tokens, l.Token(), "token")
			if waited := time.Since(start); waited < least || waited > least+ttl {
				t.Errorf("let in after %v, not soon after %v", waited, least)
			}
			<-tokens
		})
	}
}

// A repeated release_after gets the same answer, so a lost answer costs only a second request.
func TestALostAnswerToAReleaseWithAMinimumHoldIsNoError(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.client()
		l, err := a.Mutex("x", holdfast.MinHold(time.Hour)).Lock(t.Context())
		assert.Must(t, err)
		for _, p := range w.peers[:3] {
			p.slow(0, time.Minute) // the action runs, and its answer is lost
		}
		done := make(chan error)
		go func() { done <- l.Release(t.Context()) }()
		time.Sleep(time.Second / 4)
		for _, p := range w.peers[:3] {
			p.slow(0, 0)
		}
		assert.NoError(t, <-done)
		time.Sleep(2 * ttl)
		assert.True(t, assert.Err(w.client().Mutex("x").TryLock(t.Context())) != nil, "let in")
	})
}
