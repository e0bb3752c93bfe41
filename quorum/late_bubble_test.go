package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
)

// late lets one in fifty requests and answers take longer than a server is
// waited for.
func (w *world) late(random *rand.Rand) {
	upTo := func(most time.Duration) time.Duration { return time.Duration(random.Int64N(int64(most))) }
	way := func() time.Duration {
		if random.IntN(50) == 0 {
			return upTo(1500 * time.Millisecond)
		}
		return upTo(5 * time.Millisecond)
	}
	for _, p := range w.peers {
		p.mu.Lock()
		p.delay = func(string) (there, back time.Duration) { return way(), way() }
		p.mu.Unlock()
	}
}

// Of five servers one is dead and one silent, and two of the others have been
// away and come back empty: each is needed for every grant. What is late then
// costs another try, and no lease.
func TestWhatIsLateCostsNoLeaseWhereEveryServerIsNeeded(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				random := rand.New(&locked{src: rand.NewPCG(seed, 7)})
				clients := []*holdfast.Client{w.client(), w.client(), w.client()}
				w.release(w.lock(clients[0], "x"))
				time.Sleep(time.Minute)
				for _, p := range w.peers[:2] {
					p.kill()
					p.revive(true)
				}
				w.release(w.lock(clients[0], "x"))
				time.Sleep(time.Minute) // they count again
				defer w.peers[2].Stall()()
				w.peers[3].kill()
				w.late(random)
				var all sync.WaitGroup
				for _, c := range clients {
					all.Go(func() {
						for range 10 {
							start := time.Now()
							l, err := c.Mutex("x").Lock(t.Context())
							if took := time.Since(start); took > ttl*2/3 {
								t.Errorf("waited for %v", took)
							}
							switch {
							case err == nil:
								_ = l.Release(t.Context()) // done, or being done
							case !errors.Is(err, holdfast.ErrUnknownOutcome):
								t.Error(err)
							}
						}
					})
				}
				all.Wait()
			})
		})
	}
}

// Acquires that arrive when another one of their slot was answered, and what that
// took has been given back, are given back too: each of them.
func TestAcquiresThatArriveAfterTheReleaseAreGivenBack(t *testing.T) {
	for _, arrive := range [][]time.Duration{{20 * time.Second}, {20 * time.Second, 25 * time.Second}} {
		t.Run(fmt.Sprint(len(arrive)), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) { acquiresArriveLate(t, w, arrive) })
		})
	}
}

func acquiresArriveLate(t *testing.T, w *world, arrive []time.Duration) {
	a := w.client()
	w.release(w.lock(a, "x"))
	l := w.lock(a, "y")
	b := w.client()
	got := make(chan *holdfast.Lease)
	go func() {
		m, err := b.Mutex("y").Lock(t.Context())
		if err != nil {
			t.Error(err)
		}
		got <- m
	}()
	time.Sleep(time.Second) // it stands in line
	coordinator := w.lead("y")
	slow := w.peers[(coordinator+1)%5]
	late, arrived := arrive, slow.count("acquire")
	slow.mu.Lock()
	slow.delay = func(action string) (there, back time.Duration) {
		slow.mu.Lock()
		defer slow.mu.Unlock()
		if action == "acquire" && len(late) > 0 {
			there, late = late[0], late[1:]
			return there, 0 // long after all is over
		}
		return time.Millisecond, time.Millisecond
	}
	slow.mu.Unlock()
	for _, p := range []*peer{w.peers[(coordinator+2)%5], w.peers[(coordinator+3)%5]} {
		p.kill() // so that it is needed
	}
	w.release(l)
	w.release(<-got)
	if sent := slow.count("acquire") - arrived; sent <= len(arrive) {
		t.Fatalf("%d acquires were sent: none was answered", sent)
	}
	time.Sleep(arrive[len(arrive)-1] + 2*time.Second)
	synctest.Wait()
	if held := w.on("y"); held[(coordinator+1)%5] != '0' {
		t.Errorf("held on %s, and nobody holds on server %d", held, (coordinator+1)%5)
	}
}

// A request for a place arrives long after its attempt was given up and cancelled: the
// place is given back when it is granted, and whoever stands behind it does not wait.
func TestAPlaceThatComesLateDelaysNobody(t *testing.T) {
	founded(t, func(t *testing.T, w *world) {
		lead := w.peers[leads("x")[0]]
		a, b := w.client(), w.client()
		l := w.lock(a, "x")
		giveUp := func() {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if _, err := b.Mutex("x").Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("what is held is locked: %v", err)
			}
		}
		giveUp() // it listens from now on, and its first request is for a place
		late := true
		lead.mu.Lock()
		lead.delay = func(action string) (there, back time.Duration) {
			lead.mu.Lock()
			defer lead.mu.Unlock()
			if late && action == "acquire" {
				late = false
				return 2 * ttl, 0
			}
			return 0, 0
		}
		lead.mu.Unlock()
		giveUp()
		time.Sleep(2*ttl + time.Second)
		if w.lead("x") != leads("x")[0] {
			t.Fatal("the late request took no place")
		}
		c, got := w.client(), make(chan *holdfast.Lease)
		go func() { got <- w.lock(c, "x") }()
		time.Sleep(time.Second) // it stands behind
		given := time.Now()
		w.release(l)
		m := <-got
		if took := time.Since(given); took > time.Millisecond {
			t.Errorf("it waited for %v", took)
		}
		w.release(m)
	})
}
