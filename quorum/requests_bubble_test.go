package quorum_test

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/quorum"
)

// A pair over five servers is fifteen requests: each server is asked to acquire, to raise the
// token and tell its mark, and to release. A lock takes two round trips, and a release one.
// While no clock has to be compared, nothing else is sent.
func TestAPairIsThreeRequestsToEachServer(t *testing.T) {
	const trip = 10 * time.Millisecond
	bubble(t, func(t *testing.T, w *world) {
		// Clocks are compared every three minutes, and the pairs take less.
		a := w.clientOf(w.storeWith(quorum.Config{MaxTTL: time.Hour}))
		w.release(w.lock(a, "x"))
		synctest.Wait() // the client has made itself known
		for _, p := range w.peers {
			p.slow(trip/2, trip/2)
			p.mu.Lock()
			clear(p.sent)
			p.mu.Unlock()
		}
		const pairs = 100
		for range pairs {
			start := time.Now()
			l := w.lock(a, "x")
			assert.Equal(t, time.Since(start), 2*trip, "a lock took, with a round trip of %v", trip)
			start = time.Now()
			w.release(l)
			took := time.Since(start)
			assert.True(t, took == trip, "a release took %v, want a round trip of %v", took, trip)
		}
		synctest.Wait()
		want := map[string]int{"acquire": pairs, "raise_fence": pairs, "release": pairs}
		for _, p := range w.peers {
			p.mu.Lock()
			assert.True(t, maps.Equal(p.sent, want), "%d pairs were %v to %s, want %v", pairs, p.sent, p.name, want)
			p.mu.Unlock()
		}
	})
}
