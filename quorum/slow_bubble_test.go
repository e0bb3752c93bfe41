package quorum_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// Every server answers, but later than a tenth of the lease: the machines are busy. The clients
// learn to wait for that long, so the lock goes from one to the next, and leases are renewed.
func TestServersThatAreAllSlowGrant(t *testing.T) {
	const short = 3 * time.Second
	for _, answers := range []time.Duration{320 * time.Millisecond, 400 * time.Millisecond} {
		t.Run(fmt.Sprint(answers), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				var clients []*holdfast.Client
				for range 4 {
					clients = append(clients, w.clientWith(w.store(), holdfast.Config{TTL: short}))
				}
				w.release(w.lock(clients[0], "x"))
				for _, p := range w.peers {
					p.slow(answers/2, answers/2)
				}
				start := time.Now()
				var all sync.WaitGroup
				for _, c := range clients {
					all.Go(func() {
						for range 3 {
							l := w.lock(c, "x")
							select {
							case <-time.After(2 * short): // so it is renewed
							case <-l.Context().Done():
								t.Error("lost:", l.Err())
							}
							w.release(l)
						}
					})
				}
				all.Wait()
				assert.AtMost(t, time.Since(start), 3*4*3*short, "12 holds of %v took", 2*short)
			})
		})
	}
}

// A minority that is slow changes nothing: nobody waits for it.
func TestOneSlowServerIsNotWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		w.release(w.lock(c, "x"))
		w.peers[4].slow(time.Minute, 0)
		for range 20 {
			w.release(w.lock(c, "x"))
		}
		start := time.Now()
		l := w.lock(c, "x")
		assert.AtMost(t, time.Since(start), 100*time.Millisecond, "a lock took")
		w.release(l)
	})
}
