// Package renewer renews leases in time and says when one is lost.
//
// One Renewer serves all leases of a client with one timer: no goroutine per
// lease, none at all while nothing is due. Leases that are due travel in
// batches, one request per group (a server, or a slot of a Cluster) and batch,
// each in a goroutine of its own, so that a silent server delays nobody else's
// leases and never the signal that one is lost.
//
// What a request says is none of the renewer's business: it is given a function.
package renewer

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/leasetime"
)

// Reason says why a lease is lost.
type Reason string

// The reasons.
const (
	Expired Reason = "expired"  // no renewal was confirmed before the trust deadline
	NotHeld Reason = "not held" // the server says that it is not ours any more
	Evicted Reason = "evicted"  // an operator took it away
	Limit   Reason = "limit"    // it lasted as long as it may, see Item.NotAfter and Item.Renewals
)

// Outcome is what the server said of one lease.
type Outcome struct {
	Lost    Reason // empty: renewed
	Err     error  // nothing is known of this one, while others are
	Waiting int    // how many wait for the lock
}

// Config says how to renew. All functions are called without the renewer's
// mutex held.
type Config struct {
	// Now reads the clock by which trust is measured.
	Now func() time.Duration
	// Renew asks the server to extend the leases, all of one group. It
	// returns one outcome for each, or an error if nothing is known.
	Renew func(ctx context.Context, batch []*Item) ([]Outcome, error)
	// Renewed is told of each lease that was renewed, and how late the
	// renewal went out after it was due; or of a failed try.
	Renewed func(l *Item, waiting int, lag time.Duration, err error)
	// Lost is told once of each lease that is lost; the renewer has
	// forgotten it by then.
	Lost func(l *Item, reason Reason)
	// Timeout bounds one request; the old deadline of the leases in it
	// bounds it too.
	Timeout time.Duration
}

const (
	// batchMax bounds one request: more would hold up the server's other
	// clients for longer than a script should.
	batchMax = 128
	// maxSleep is the longest time between two looks while leases are held.
	// Timers do not count suspension, deadlines do: after the machine
	// wakes, losses are signalled within this time.
	maxSleep = time.Second
)

// Renewer looks after leases until it is stopped.
type Renewer struct {
	cfg  Config
	ctx  context.Context // ends all requests when the renewer stops
	stop context.CancelFunc
	work sync.WaitGroup // ticks and requests under way

	// mu guards everything below, and the unexported fields of each Item.
	// It is held for arithmetic only: never over I/O or a callback.
	mu      sync.Mutex
	queue   queue
	timer   *time.Timer
	armed   time.Duration // when the timer fires; never if 0
	stopped bool
}

// New makes a renewer. It starts nothing: the first lease does.
func New(cfg Config) *Renewer {
	k := &Renewer{cfg: cfg}
	k.ctx, k.stop = context.WithCancel(context.Background())
	return k
}

// Add takes a lease into care: granted for l.TTL by a request sent at sent,
// and it is now. It reports false when the renewer has stopped.
func (k *Renewer) Add(l *Item, sent, now time.Duration) bool {
	return k.add(l, sent, l.TTL, now)
}

// AddPushed takes a lease into care that answers no request: granted for ttl not
// before since, and it is now. A renewal confirms it at once: until then the
// client does not know that the push was true, and the server does not know that
// the client heard it. A lease that is removed before that is not confirmed.
func (k *Renewer) AddPushed(l *Item, since, ttl, now time.Duration) bool {
	l.unconfirmed = true
	return k.add(l, since, ttl, now)
}

func (k *Renewer) add(l *Item, since, ttl, now time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return false
	}
	l.extend(since, ttl)
	if l.unconfirmed {
		l.due, l.next = now, min(now, l.Deadline())
	}
	heap.Push(&k.queue, l)
	k.arm(now)
	return true
}

// Recheck renews at once the leases that match selects, unless they are never renewed
// or a renewal is under way: somebody says that they are lost.
func (k *Renewer) Recheck(match func(*Item) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return
	}
	now := k.cfg.Now()
	for _, l := range slices.Clone(k.queue) {
		if match(l) && !l.busy && !l.last() {
			l.next = min(l.next, now)
			heap.Fix(&k.queue, int(l.index))
		}
	}
	k.arm(now)
}

// Remove ends the care for a lease; false if it was not in care (any more): it
// is or was reported lost. A renewal that is under way has no effect on it.
func (k *Renewer) Remove(l *Item) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.index < 0 {
		return false
	}
	heap.Remove(&k.queue, int(l.index))
	return true
}

// Expire says of a lease whose deadline has passed, and that somebody has seen it, that
// it is lost: no renewal revives it from then on, and the timer, which is late, tells.
// It reports false if the lease has been renewed meanwhile.
func (k *Renewer) Expire(l *Item) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.index >= 0 && l.Deadline() > k.cfg.Now() {
		return false
	}
	l.over = true
	return true
}

// Has reports whether the lease is in care.
func (k *Renewer) Has(l *Item) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return l.index >= 0
}

// Extended notes that a request sent at sent extended the lease to ttl.
// It reports false if the lease is not in care any more.
func (k *Renewer) Extended(l *Item, sent, ttl time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.index < 0 {
		return false
	}
	l.TTL = ttl
	l.unconfirmed = false
	l.extend(sent, l.TTL)
	heap.Fix(&k.queue, int(l.index))
	k.arm(k.cfg.Now())
	return true
}

// StopRenewal ends the renewals of a lease: it stays in care, and is lost at its
// deadline. A renewal that is under way may still extend it once, and so does the
// confirmation of a pushed grant.
func (k *Renewer) StopRenewal(l *Item) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l.NoRenewal = true
	if l.index >= 0 && l.last() {
		l.next = l.Deadline()
		heap.Fix(&k.queue, int(l.index))
	}
}

// TTL is what the next renewal of the lease asks for.
func (k *Renewer) TTL(l *Item) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return l.TTL
}

// All lists the leases in care.
func (k *Renewer) All() []*Item {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]*Item(nil), k.queue...)
}

// Stop forgets all leases, ends the requests under way and returns when
// nothing of the renewer runs any more.
func (k *Renewer) Stop() {
	k.mu.Lock()
	k.stopped = true
	for _, l := range k.queue {
		l.index = -1
	}
	k.queue = nil
	if k.timer != nil && k.timer.Stop() {
		k.work.Done() // the tick that will not come
	}
	k.timer = nil
	k.mu.Unlock()
	k.stop()
	k.work.Wait()
}

// arm makes the timer fire for the first lease, if it would fire too late. It
// is never set back: one idle tick now and then costs less than moving the
// timer with every lease that comes and goes.
func (k *Renewer) arm(now time.Duration) {
	if len(k.queue) == 0 {
		return
	}
	at := min(k.queue[0].next, now+maxSleep)
	if k.armed != 0 && k.armed <= at {
		return
	}
	if k.timer == nil || !k.timer.Stop() {
		k.work.Add(1)
	}
	k.armed = max(at, 1)
	k.timer = time.AfterFunc(max(at-now, 0), k.tick)
}

// tick does what is due: reports losses, sends renewals.
func (k *Renewer) tick() {
	defer k.work.Done()
	k.mu.Lock()
	if k.stopped {
		k.mu.Unlock()
		return
	}
	k.armed = 0
	now := k.cfg.Now()
	lost, due := k.due(now)
	k.arm(now)
	for group, leases := range due {
		for len(leases) > 0 {
			n := min(len(leases), batchMax)
			batch := leases[:n:n]
			leases = leases[n:]
			k.work.Go(func() { k.renew(batch) })
		}
		delete(due, group)
	}
	k.mu.Unlock()
	for _, l := range lost {
		k.cfg.Lost(l, l.EndReason())
	}
}

// due removes the leases whose deadline has passed, and picks those whose
// renewal is due, by group.
func (k *Renewer) due(now time.Duration) (lost []*Item, due map[string][]*Item) {
	for len(k.queue) > 0 {
		l := k.queue[0]
		if l.Deadline() <= now {
			heap.Pop(&k.queue)
			lost = append(lost, l)
			continue
		}
		if l.last() || l.busy || l.next-leasetime.Slack(l.TTL) > now {
			break
		}
		l.busy = true
		l.Asking = l.TTLFor(now, l.TTL)
		l.next = l.Deadline()
		heap.Fix(&k.queue, 0)
		if due == nil {
			due = make(map[string][]*Item)
		}
		due[l.Hold.Group()] = append(due[l.Hold.Group()], l)
	}
	return lost, due
}

// renew sends one batch and files what came of it.
func (k *Renewer) renew(batch []*Item) {
	sent := k.cfg.Now()
	bound := k.cfg.Timeout
	k.mu.Lock()
	for _, l := range batch {
		// Which clock: ours, started before the send. A renewal that
		// comes after the old deadline is of no use to anybody.
		bound = min(bound, l.Deadline()-sent)
		if l.unconfirmed {
			bound = min(bound, leasetime.ConfirmWithin(l.Deadline()-sent))
		}
	}
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(k.ctx, max(bound, 0))
	outcomes, err := k.cfg.Renew(ctx, batch)
	cancel()

	now := k.cfg.Now()
	var lost, kept []int
	if err != nil {
		outcomes = slices.Repeat([]Outcome{{Err: err}}, len(batch))
	}
	lag := make([]time.Duration, len(batch))
	k.mu.Lock()
	for i, l := range batch {
		l.busy = false
		switch {
		case l.index < 0: // released or lost meanwhile
			continue
		case outcomes[i].Err != nil:
			l.next = l.Deadline()
			if !l.last() { // as it may have become meanwhile
				l.next = min(l.retryAt(now), l.Deadline())
			}
		case outcomes[i].Lost != "":
			heap.Remove(&k.queue, int(l.index))
			lost = append(lost, i)
			continue
		default:
			lag[i] = sent - l.due
			if !l.unconfirmed {
				l.renewals++
			}
			l.unconfirmed = false
			l.extend(sent, l.Asking)
		}
		heap.Fix(&k.queue, int(l.index))
		kept = append(kept, i)
	}
	if !k.stopped {
		k.arm(now)
	}
	k.mu.Unlock()
	for _, i := range lost {
		k.cfg.Lost(batch[i], outcomes[i].Lost)
	}
	for _, i := range kept {
		k.cfg.Renewed(batch[i], outcomes[i].Waiting, lag[i], outcomes[i].Err)
	}
}
