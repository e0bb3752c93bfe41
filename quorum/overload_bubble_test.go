package quorum_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// machine is what all servers and clients run on. It serves one request or answer at a time,
// in order of arrival, whether anybody still waits for it or not.
type machine struct {
	turn chan struct{}
	each atomic.Int64 // what one takes
}

func (m *machine) work() {
	if m == nil {
		return
	}
	m.turn <- struct{}{}
	time.Sleep(time.Duration(m.each.Load()))
	<-m.turn
}

// onOneMachine lets all servers share a machine.
func (w *world) onOneMachine(each time.Duration) *machine {
	m := &machine{turn: make(chan struct{}, 1)}
	m.each.Store(int64(each))
	for _, p := range w.peers {
		p.mu.Lock()
		p.machine = m
		p.mu.Unlock()
	}
	return m
}

// crowd is many goroutines of some processes that want one lock again and again.
type crowd struct {
	granted atomic.Int64
	inside  atomic.Int64
	all     sync.WaitGroup
}

func (w *world) crowd(ctx context.Context, processes, each int, ttl time.Duration) *crowd {
	c := new(crowd)
	for range processes {
		client := w.clientWith(w.store(), holdfast.Config{TTL: ttl, MaxLocalHandOvers: -1})
		for range each {
			c.all.Go(func() {
				for ctx.Err() == nil {
					l, err := client.Mutex("x").Lock(ctx)
					if err == nil {
						c.granted.Add(1)
						assert.False(w.t, c.inside.Add(1) > 1 && l.Err() == nil, "two holders")
						time.Sleep(5*time.Millisecond + rand.N(5*time.Millisecond))
						c.inside.Add(-1)
						_ = l.Release(context.WithoutCancel(ctx)) // done, or under way
					}
					time.Sleep(rand.N(time.Second))
				}
			})
		}
	}
	return c
}

// overloaded lets 200 goroutines of four processes use one lock on one machine, and returns how
// often they got it in each second. each says what a request takes in that second.
func (w *world) overloaded(seconds int, each func(second int) time.Duration) (granted []int64) {
	ctx, cancel := context.WithCancel(w.t.Context())
	m := w.onOneMachine(each(0))
	c := w.crowd(ctx, 4, 50, 3*time.Second)
	for i := range seconds {
		m.each.Store(int64(each(i)))
		before := c.granted.Load()
		time.Sleep(time.Second)
		granted = append(granted, c.granted.Load()-before)
	}
	m.each.Store(int64(time.Microsecond))
	cancel()
	c.all.Wait()
	w.t.Log("granted in each second:", granted)
	return granted
}

// wantProgress wants so many grants in each second from the first one on.
func wantProgress(t *testing.T, granted []int64, first int, least int64) {
	t.Helper()
	for i, n := range granted[first:] {
		assert.AtLeast(t, n, least, "granted in second %d", first+i)
	}
}

// A machine was too busy for a while. What the clients did meanwhile does not keep the lock from
// them afterwards: neither requests for which nobody waits, nor waiters in the queues of several
// coordinators.
func TestAfterAnOverloadTheLockIsGrantedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		granted := w.overloaded(20, func(second int) time.Duration {
			if second >= 5 && second < 10 {
				return 4 * time.Millisecond
			}
			return 200 * time.Microsecond
		})
		wantProgress(t, granted, 15, 20)
	})
}

// A machine is too slow for the first requests of all waiters. They slow down, and the lock goes
// from one to the next.
func TestOnASlowMachineTheLockIsGranted(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		wantProgress(t, w.overloaded(25, func(int) time.Duration { return 500 * time.Microsecond }), 18, 5)
	})
}

// Coordinators were away for a while, so waiters are in the queues of several nodes. The heads of
// these queues do not keep each other from the lock: all but one make way.
func TestWaitersOfSeveralCoordinatorsMakeWay(t *testing.T) {
	for range 3 { // chance decides who is in whose way
		identifiedBubble(t, severalCoordinators)
	}
}

func severalCoordinators(t *testing.T, w *world) {
	for _, p := range w.peers {
		p.slow(time.Millisecond, time.Millisecond)
	}
	const each = 30
	order := coordinators("x")
	holder := w.lock(w.client(), "x")
	w.peers[order[0]].kill()
	w.peers[order[1]].kill()
	var all sync.WaitGroup
	for _, back := range []int{1, 0, -1} {
		got := w.waiters("x", each)
		if back >= 0 {
			w.peers[order[back]].revive(false)
			time.Sleep(ttl) // the lease is restored there
		}
		all.Go(func() { w.drain(got, each) })
	}
	synctest.Wait()
	for _, i := range order[:3] {
		w.wantWaiters(i, "x", each)
	}
	start := time.Now()
	w.release(holder)
	all.Wait()
	assert.AtMost(t, time.Since(start), 3*each*20*time.Millisecond, "90 hand-overs took")
}

// wantWaiters wants so many waiters in the queue of a server.
func (w *world) wantWaiters(server int, name string, n int) {
	w.t.Helper()
	s, err := w.clientOf(w.peers[server].Store).Inspect(w.t.Context(), name)
	assert.Must(w.t, err)
	assert.Equal(w.t, len(s.Waiters), n, "waiters of server %d", server)
}

// A server that answers a later request is late and not silent, so its queue stays where it is.
func TestALateAnswerDoesNotMakeAServerSilent(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := w.store()
		c := w.clientOf(s)
		w.release(w.lock(c, "x"))
		synctest.Wait()
		w.peers[4].lateNext("acquire", time.Millisecond, 10*time.Second)
		l := w.lock(c, "x")
		time.Sleep(100 * time.Millisecond)
		m := w.lock(c, "y") // answered meanwhile
		time.Sleep(time.Second)
		for _, n := range s.Nodes() {
			assert.True(t, n.Answers, "a server is silent: %+v", n)
		}
		w.release(l)
		w.release(m)
	})
}
