package renewer

import (
	"container/heap"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/window"
)

// group is what the renewer knows of a group while requests to it are under way, or will soon be tried
// again. If the group is late, its leases that are due wait for room in order of their trust
// deadlines. The renewer's mutex guards it.
type group struct {
	name     string
	window   window.Window
	waiting  waitingLeases // empty unless the window is full
	answered time.Duration // when the request was sent that was sent last, of those that were answered
	ended    time.Duration // when the last request ended
}

// lastCall is the instant from which a lease waits no longer for room. One more request, with all
// of its time, fits into the lease.
func (r *Renewer) lastCall(it *Item) time.Duration { return it.Deadline() - r.cfg.Timeout }

// isLate reports whether renewals to the group may have to wait for room.
func (g *group) isLate() bool { return g != nil && g.window.Limited() }

// waitForRoom lets a lease of a late group that is due wait for room. After its last call it is sent
// with the most urgent ones, of which it is one.
func (r *Renewer) waitForRoom(g *group, it *Item, now time.Duration) {
	if it.step == waiting {
		r.start(g.name, r.mostUrgent(g, now))
		return
	}
	it.step = waiting
	it.next = r.lastCall(it)
	heap.Fix(&r.queue, int(it.index))
	heap.Push(&g.waiting, waitingLease{it, it.Deadline()})
}

// mostUrgent makes a batch of the waiting leases with the soonest trust deadlines.
func (r *Renewer) mostUrgent(g *group, now time.Duration) (batch []Asked) {
	for len(g.waiting) > 0 && len(batch) < batchMax {
		it := heap.Pop(&g.waiting).(waitingLease).Item
		if it.index >= 0 && it.step == waiting { // else it was removed, extended, or waits no longer
			batch = append(batch, r.ask(it, now))
		}
	}
	return batch
}

// start sends a batch.
func (r *Renewer) start(name string, batch []Asked) {
	g := r.groups[name]
	if g == nil {
		g = &group{name: name}
		r.groups[name] = g
	}
	g.window.Enter()
	r.work.Go(func() { r.renew(g, batch) })
}

// startWaiting sends what waits, as far as the window permits.
func (r *Renewer) startWaiting(g *group, now time.Duration) {
	for len(g.waiting) > 0 && !g.window.Full() {
		if batch := r.mostUrgent(g, now); batch != nil {
			r.start(g.name, batch)
		}
	}
}

// outcome says how a request ended. It is late only if it had all of the time of a request, and if no
// request that was sent well after it was answered. Otherwise the group answers, and has only lost this
// one.
func (r *Renewer) outcome(s *sending, now time.Duration, err error) window.Outcome {
	switch {
	case err == nil || now-s.sent < s.bound:
		return window.Answered
	case !s.whole || s.g.answered-s.sent > r.cfg.Timeout/4:
		return window.Neither
	}
	return window.Late
}

// leave notes that a request has ended. Renewals that wait for room take its place.
func (r *Renewer) leave(g *group, sent, now time.Duration, o window.Outcome) {
	if o == window.Answered {
		g.answered = max(g.answered, sent)
	}
	g.ended = now
	g.window.Leave(o, len(g.waiting) > 0)
	r.startWaiting(g, now)
	switch {
	case !g.window.Idle():
	case g.window.Limited():
		r.paused = append(r.paused, g)
	default:
		delete(r.groups, g.name)
	}
}

// forgetPaused forgets the late groups that have no lease whose renewal will be tried again.
func (r *Renewer) forgetPaused(now time.Duration) {
	r.paused = slices.DeleteFunc(r.paused, func(g *group) bool {
		over := now-g.ended > 2*leasetime.LongestPause
		if over && g.window.Idle() && r.groups[g.name] == g {
			delete(r.groups, g.name)
		}
		return over || !g.window.Idle()
	})
}

// stopWaiting ends the waiting of a lease whose deadline or renewal changes.
func (it *Item) stopWaiting() {
	if it.step == waiting {
		it.step = idle
	}
}

// waitingLease is a lease that waits for room. It has the trust deadline that the lease had when it began
// to wait, because one that changes would disorder the heap.
type waitingLease struct {
	*Item
	urgent time.Duration
}

// waitingLeases orders leases by their trust deadlines.
type waitingLeases []waitingLease

func (t waitingLeases) Len() int           { return len(t) }
func (t waitingLeases) Less(i, j int) bool { return t[i].urgent < t[j].urgent }
func (t waitingLeases) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *waitingLeases) Push(x any)        { *t = append(*t, x.(waitingLease)) }

func (t *waitingLeases) Pop() any {
	last := (*t)[len(*t)-1]
	(*t)[len(*t)-1] = waitingLease{}
	*t = (*t)[:len(*t)-1]
	return last
}
