package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// late makes one in fifty requests and answers take longer than the timeout of a request.
func (w *world) late(random *rand.Rand) {
	upTo := func(most time.Duration) time.Duration { return time.Duration(random.Int64N(int64(most))) }
	way := func() time.Duration {
		if random.IntN(50) == 0 {
			return upTo(1500 * time.Millisecond)
		}
		return upTo(5 * time.Millisecond)
	}
	for _, p := range w.peers {
		p.setDelay(func(string) (there, back time.Duration) { return way(), way() })
	}
}

// Of five servers one is dead and one silent, and two of the others have come back empty:
// every grant needs each of the three. A late answer then costs another try, and no lease.
func TestLateAnswersCostNoLeaseWhereEveryServerIsNeeded(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				random := rand.New(&lockedSource{src: rand.NewPCG(seed, 7)})
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
							assert.AtMost(t, time.Since(start), ttl*2/3, "waited for")
							switch {
							case err == nil:
								_ = l.Release(t.Context()) // done, or under way
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

// Some acquires arrive after another one of the same attempt was answered, and after its grant
// was cancelled. Each of them is cancelled too.
func TestAcquiresThatArriveAfterTheReleaseAreCancelled(t *testing.T) {
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
		assert.NoError(t, err)
		got <- m
	}()
	time.Sleep(time.Second) // it is in the queue
	coordinator := w.coordinatorOf("y")
	slow := w.peers[(coordinator+1)%5]
	arrived := slow.count("acquire")
	slow.lateNext("acquire", time.Millisecond, arrive...) // long after everything else
	for _, p := range []*peer{w.peers[(coordinator+2)%5], w.peers[(coordinator+3)%5]} {
		p.kill() // so that every other server is needed
	}
	w.release(l)
	w.release(<-got)
	sent := slow.count("acquire") - arrived
	assert.MustTrue(t, sent > len(arrive), "%d acquires were sent: none was answered", sent)
	time.Sleep(arrive[len(arrive)-1] + 2*time.Second)
	synctest.Wait()
	if held := w.on("y"); held[(coordinator+1)%5] != '0' {
		t.Errorf("held on %s, and nobody holds on server %d", held, (coordinator+1)%5)
	}
}

// A request for a queue position arrives long after its attempt was cancelled. The position is
// cancelled when it is granted, and the next waiter does not wait for it.
func TestALateQueueEntryDelaysNobody(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		coordinator := w.peers[coordinators("x")[0]]
		a, b := w.client(), w.client()
		l := w.lock(a, "x")
		giveUp := func() {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := b.Mutex("x").Lock(ctx)
			assert.MustTrue(t, errors.Is(err, context.DeadlineExceeded), "what is held is locked: %v", err)
		}
		giveUp() // from now on the client listens, and its first request asks for a position
		coordinator.lateNext("acquire", 0, 2*ttl)
		giveUp()
		time.Sleep(2*ttl + time.Second)
		assert.MustEqual(t, w.coordinatorOf("x"), coordinators("x")[0], "the late request took no place")
		c, got := w.client(), make(chan *holdfast.Lease)
		go func() { got <- w.lock(c, "x") }()
		time.Sleep(time.Second) // it waits behind
		given := time.Now()
		w.release(l)
		m := <-got
		assert.AtMost(t, time.Since(given), time.Millisecond, "it waited for")
		w.release(m)
	})
}

// A poll that is answered late, by a node that answers others, says nothing of the waiter's position: it
// keeps that, and searches no other coordinator.
func TestALatePollKeepsThePosition(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		l := w.lock(a, "x")
		got := make(chan *holdfast.Lease)
		go func() { got <- w.lock(b, "x") }()
		time.Sleep(time.Second) // it waits
		pending := w.peers[w.coordinatorOf("x")].lateNext("poll", time.Millisecond, 10*time.Second)
		asked := w.sentEverywhere("acquire")
		for range 600 { // the node answers these
			_, err := b.Inspect(t.Context(), "z")
			assert.NoError(t, err)
			time.Sleep(100 * time.Millisecond)
		}
		assert.Equal(t, pending(), 0, "polls to come")
		assert.Equal(t, w.sentEverywhere("acquire"), asked, "requests to acquire")
		w.release(l)
		w.release(<-got)
	})
}

// sentEverywhere counts the requests of one action to all servers.
func (w *world) sentEverywhere(action string) (n int) {
	for _, p := range w.peers {
		n += p.count(action)
	}
	return n
}

// A majority answers each poll and loses the reply of what follows it. So with each try they
// stop to answer, and waiters are told to poll when a server stops to answer.
func TestServersThatAnswerEverySecondRequestAreNotPolledWithoutAPause(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		l := w.lock(a, "x")
		got := make(chan *holdfast.Lease)
		go func() { got <- w.lock(b, "x") }()
		time.Sleep(time.Second) // it waits
		const most = 2000       // about twice as many as are sent; then the test has failed, and may end
		var sent atomic.Int64
		for _, p := range w.peers[:3] {
			p.LoseReply(func(script string, _ []string) error {
				if sent.Add(1) > most {
					return nil
				}
				return failing("raise_fence", errReset)(script, nil)
			})
		}
		w.release(l)
		time.Sleep(10 * time.Second)
		assert.AtMost(t, sent.Load(), most, "requests in ten seconds")
		for _, p := range w.peers[:3] {
			p.LoseReply(nil)
		}
		w.release(<-got)
	})
}
