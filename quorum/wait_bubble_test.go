package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// granted is a lock that a goroutine got.
type granted struct {
	who   int
	lease *holdfast.Lease
	err   error
}

// waiters starts n clients that wait for a lock, in this order.
func (w *world) waiters(name string, n int) <-chan granted {
	got := make(chan granted, n)
	for i := range n {
		c := w.client()
		go func() {
			ctx, cancel := w.boundedContext()
			defer cancel()
			l, err := c.Mutex(name).Lock(ctx)
			got <- granted{i, l, err}
		}()
		synctest.Wait()
		time.Sleep(100 * time.Millisecond) // its requests have been answered
	}
	return got
}

// drain releases the lock of the next n that get it, one after the other.
func (w *world) drain(got <-chan granted, n int) {
	w.t.Helper()
	for range n {
		g := <-got
		assert.Must(w.t, g.err)
		w.keep = append(w.keep, g.lease)
		w.release(g.lease)
	}
}

func TestWaitersAreWokenByAPushInOrderOfArrival(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for _, p := range w.peers {
			p.slow(time.Millisecond, time.Millisecond)
		}
		l := w.lock(w.client(), "x")
		got := w.waiters("x", 6)
		polls := 0
		for _, p := range w.peers {
			polls -= p.count("poll")
		}
		for i := range 6 {
			start := time.Now()
			w.release(l)
			g := <-got
			assert.MustTrue(t, g.err == nil && g.who == i, "waiter %d was granted before %d (%v)", g.who, i, g.err)
			// A round trip to the coordinator, one to the others, and one for the token.
			assert.AtMost(t, time.Since(start), 8*time.Millisecond, "the hand-over took")
			assert.More(t, g.lease.Token(), l.Token(), "token")
			l = g.lease
			w.keep = append(w.keep, l)
		}
		for _, p := range w.peers {
			polls += p.count("poll")
		}
		// Each server is polled once for what it has pushed.
		assert.AtMost(t, polls, 6*len(w.peers), "polls for 6 hand-overs")
		w.release(l)
		time.Sleep(time.Second)
		w.wantOn("x", "00000")
	})
}

func TestWaitersAreServedThoughTheServerWithTheQueueDies(t *testing.T) {
	for _, silent := range []bool{false, true} {
		bubble(t, func(t *testing.T, w *world) {
			l := w.lock(w.client(), "x")
			got := w.waiters("x", 3)
			coordinator := w.coordinatorOf("x")
			resume := func() {}
			if silent {
				resume = w.peers[coordinator].Stall()
			} else {
				w.peers[coordinator].kill()
			}
			start := time.Now()
			w.release(l)
			w.drain(got, 3)
			assert.AtMost(t, time.Since(start), ttl, "three hand-overs took")
			resume()
		})
	}
}

func TestWaitersAreServedThoughTheServerWithTheQueueForgetsIt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := w.lock(w.client(), "x")
		got := w.waiters("x", 3)
		w.peers[w.coordinatorOf("x")].Restart()
		time.Sleep(2 * ttl)
		assert.Must(t, l.Err())
		start := time.Now()
		w.release(l)
		w.drain(got, 3)
		assert.AtMost(t, time.Since(start), ttl, "three hand-overs took")
	})
}

func TestALostPushCostsAPollAndNeverTheLock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := w.lock(w.client(), "x")
		got := w.waiters("x", 2)
		for _, p := range w.peers {
			p.DropPushes(-1)
		}
		start := time.Now()
		w.release(l)
		w.drain(got, 2)
		assert.AtMost(t, time.Since(start), 2*ttl, "two hand-overs without pushes took")
	})
}

func TestAWaiterThatGivesUpLeavesNothingBehind(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := w.lock(w.client(), "x")
		b := w.client()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		assert.Is(t, assert.Err(b.Mutex("x").Lock(ctx)), context.DeadlineExceeded)
		synctest.Wait()
		s, err := b.Inspect(t.Context(), "x")
		assert.True(t, err == nil && len(s.Holders) == 1 && len(s.Waiters) == 0,
			"want one holder and no waiter, got %+v, %v", s, err)
		w.release(l)
		w.wantOn("x", "00000")
	})
}

func TestProcessesWithDifferentCoordinatorsStillGetTheLock(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		// By mistake each client names the servers in another order, so their waiters are in
		// different queues. That costs time and nothing else.
		got := make(chan granted, 5)
		inside := 0
		for i := range 5 {
			w.peers = append(w.peers[1:], w.peers[0])
			c := w.client()
			go func() {
				for range 4 {
					l, err := c.Mutex("x").Lock(t.Context())
					if err != nil {
						got <- granted{i, nil, err}
						return
					}
					inside++
					assert.True(t, inside <= 1, "two holders")
					time.Sleep(10 * time.Millisecond)
					inside--
					assert.NoError(t, l.Release(t.Context()))
				}
				got <- granted{who: i}
			}()
		}
		start := time.Now()
		for range 5 {
			g := <-got
			assert.MustTrue(t, g.err == nil, "%v", g.err)
		}
		assert.AtMost(t, time.Since(start), 20*ttl, "20 acquisitions took")
	})
}

func TestOneOfManyTriesGetsTheLock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for i, p := range w.peers {
			p.slow(time.Duration(i)*time.Millisecond, time.Millisecond)
		}
		for round := range 10 {
			name := fmt.Sprintf("lock %d", round)
			got := make(chan granted, 8)
			for i := range 8 {
				c := w.client()
				go func() {
					time.Sleep(time.Duration(i*(round%3)) * 300 * time.Microsecond)
					l, err := c.Mutex(name).TryLock(t.Context())
					got <- granted{i, l, err}
				}()
			}
			n := 0
			for range 8 {
				g := <-got
				switch {
				case g.err == nil:
					n++
					w.keep = append(w.keep, g.lease)
				case !errors.Is(g.err, holdfast.ErrHeld):
					t.Error(g.err)
				}
			}
			assert.Equal(t, n, 1, "clients of 8 with the lock")
		}
	})
}

func TestAFailedWaitNamesTheServersThatDoNotCount(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		w.release(w.lock(a, "y"))
		time.Sleep(time.Minute) // so that the quorum is not a new one
		w.lock(a, "x")
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
		defer cancel()
		failed := make(chan error)
		go func() {
			_, err := b.Mutex("x").Lock(ctx)
			failed <- err
		}()
		synctest.Wait()
		for _, p := range w.peers[:3] {
			p.kill()
			p.revive(true) // more than a minority: the lease is lost, and nobody gets another
		}
		err := <-failed
		assert.Is(w.t, err, context.DeadlineExceeded)
		assert.True(t, strings.Contains(err.Error(), "lost its memory, and takes part in new locks again in"),
			"error %q does not say why", err)
		assert.True(t, !errors.Is(err, context.Canceled) && !errors.Is(err, holdfast.ErrUnknownOutcome),
			"error %v", err)
	})
}

// A client that joins a queue cancels what other servers have granted. If one does not answer
// just then, the cancel is sent later, and does not wait for the end of the lease.
func TestAFailedCancelIsSentAgainLater(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		order := coordinators("x")
		coordinator, last := order[0], order[4]
		w.peers[last].kill()
		l := w.lock(a, "x")
		synctest.Wait() // the lease did not wait for the requests to dead servers: they fail first
		w.peers[last].revive(false)
		w.peers[last].FailRequest(failing("cancel", errReset))
		w.peers[coordinator].slow(time.Millisecond, time.Millisecond) // the last server grants before it answers
		next := make(chan *holdfast.Lease, 1)
		go func() { next <- w.lock(b, "x") }()
		time.Sleep(100 * time.Millisecond)
		w.wantOn("x", "11111") // there b holds
		w.peers[last].FailRequest(nil)
		time.Sleep(2 * time.Second)
		want := []byte("11111")
		want[last] = '0'
		w.wantOn("x", string(want))
		w.release(l)
		w.release(<-next)
	})
}

// A waiter holds nothing on the other servers: the holder's lease is restored on them, and the
// waiter whose turn it is finds them free.
func TestAWaiterHoldsNothingOnTheOtherServers(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		order := coordinators("x")
		for _, i := range order[3:] {
			w.peers[i].kill()
		}
		l := w.lock(w.client(), "x")
		synctest.Wait() // the lease did not wait for the requests to dead servers: they fail first
		before := w.on("x")
		for _, i := range order[3:] {
			w.peers[i].revive(false)
		}
		got := w.waiters("x", 1)
		w.wantOn("x", before)
		w.release(l)
		w.drain(got, 1)
	})
}

// A waiter holds on some servers, and polls. Servers whose answers are lost do not count for a
// lease that begins with the poll.
func TestAHoldFromBeforeThePollDoesNotCount(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		order := coordinators("x")
		for _, i := range order[3:] {
			w.peers[i].kill()
		}
		there := w.lock(w.clientOf(w.peers[order[2]].Store), "x")
		s := w.store()
		heard := make(chan string, 10)
		stop, err := s.Listen(t.Context(), "holdfast:push:A", store.Listener{
			Message: func(payload string) { heard <- payload }, Look: func(bool) {},
		})
		assert.Must(t, err)
		defer stop()
		answer := raw(t, s, script.Acquire, "A/1", 30_000, 630_000, "x", 180_000, "holdfast:push:")
		assert.MustTrue(t, strings.HasPrefix(answer, "queued 1 "), "answered %q", answer)
		for _, i := range order[:2] {
			w.peers[i].FailRequest(failing("poll", errReset))
		}
		time.Sleep(100 * time.Millisecond)
		raw(t, s, script.Poll, "A/1", 30_000, 600_000, 180_000, "holdfast:push:")
		w.release(there) // and A holds on the third server, too
		time.Sleep(100 * time.Millisecond)
		if len(heard) > 0 {
			t.Errorf("pushed %q", <-heard)
		}
		for _, i := range order[:2] {
			w.peers[i].FailRequest(nil)
		}
		answer = raw(t, s, script.Poll, "A/1", 30_000, 600_000, 180_000, "holdfast:push:")
		assert.True(t, strings.HasPrefix(answer, "granted "), "with all three: %q", answer)
	})
}

// An acquisition has a majority, and the client learns of it too late: its process stood
// still, or it could not trust the push. What is left on a minority is neither a lease nor a
// position, and must not keep the lock from others.
func TestALateGrantIsNotKeptOnAMinority(t *testing.T) {
	for _, test := range []struct {
		left   int // servers that still hold, because their clocks were set back
		silent int // servers that do not answer
	}{{0, 0}, {1, 0}, {2, 0}, {1, 2}, {2, 2}} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			identifiedBubble(t, func(t *testing.T, w *world) {
				s := w.store()
				answer := raw(t, s, script.Acquire, "A/1", 30_000, 630_000, "x", 180_000, "holdfast:push:")
				assert.MustTrue(t, strings.HasPrefix(answer, "granted "), "answered %q", answer)
				order := coordinators("x")
				for _, i := range order[:test.left] {
					w.peers[i].Advance(-10 * time.Second)
				}
				time.Sleep(ttl + time.Second)
				for _, i := range order[5-test.silent:] {
					w.peers[i].kill()
				}
				for range 2 {
					answer = raw(t, s, script.Poll, "A/1", 30_000, 600_000, 180_000, "holdfast:push:")
					assert.Equal(t, answer, "gone", "a poll for what is over")
				}
				w.wantOn("x", "00000")
			})
		})
	}
}

// A grant of the coordinator cannot be completed: a clock was set back, and too few of the others hold to tell
// which. Once all servers have been read again it is known, and the waiter gets the lock at once.
func TestAWaiterGoesOnOnceTheMarksAreCorrected(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		a := w.client()
		name := ""
		for n, coordinator := 0, -1; coordinator != 0; n++ {
			name = fmt.Sprint("lock ", n)
			l, got := w.lock(a, name), w.waiters(name, 1)
			coordinator = w.coordinatorOf(name)
			w.release(l)
			w.drain(got, 1)
		}
		// Somebody holds two servers for long.
		for _, i := range []int{3, 4} {
			w.lock(w.clientOf(w.peers[i].Store), name)
		}
		l := w.lock(a, name)
		got := w.waiters(name, 1)
		assert.Equal(t, w.coordinatorOf(name), 0, "coordinator")
		w.peers[1].Advance(-time.Hour)
		released := time.Now()
		w.release(l)
		w.drain(got, 1)
		assert.Equal(t, time.Since(released), 0, "the waiter held the lock after")
	})
}
