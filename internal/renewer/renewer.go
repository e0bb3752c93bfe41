// Package renewer renews leases in time and reports when one is lost.
//
// One Renewer serves all leases of a client with one timer. It has no goroutine per lease,
// and none at all while nothing is due. It renews the leases of one group (a server, or a
// slot of a Cluster) in batches, each in one request and in its own goroutine. So a silent
// server delays neither the renewals of other groups nor the report of a loss.
//
// The renewer does not know the requests: its owner passes a function that sends them.
package renewer

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/label"
	"github.com/holdfast-go/holdfast/internal/leasetime"
)

// Reason says why a lease is lost.
type Reason string

// The reasons.
const (
	Expired Reason = "expired"  // no renewal was confirmed before the trust deadline
	NotHeld Reason = "not held" // the server says that this hold has ended
	Evicted Reason = "evicted"  // an operator evicted it
	Limit   Reason = "limit"    // it has reached its limit, see Limits
)

// Outcome is what the server answered about one lease.
type Outcome struct {
	Lost    Reason // empty: renewed
	Err     error  // nothing is known of this lease, though of others in the batch
	Waiting int    // the number of waiters for the lock
}

// Report says how a renewal ended.
type Report struct {
	Waiting int           // the number of waiters for the lock
	Lag     time.Duration // how long after it was due the renewal was sent
	Err     error         // nil if the lease was renewed

	// Remaining is how long the lease would have lasted without the renewal, and TTL what
	// the renewal asked for. Both are zero after an error, and if the renewal was the one
	// that confirms a pushed grant.
	Remaining, TTL time.Duration
}

// Config says how to renew. All functions are called without the renewer's
// mutex held.
type Config struct {
	// Now reads the clock of the trust deadlines.
	Now func() time.Duration
	// Renew asks the server to extend the leases, all of one group. It
	// returns one outcome for each, or an error if nothing is known.
	Renew func(ctx context.Context, batch []Asked) ([]Outcome, error)
	// Renewed is called for each lease that was renewed, or whose renewal failed.
	Renewed func(l *Item, r Report)
	// Lost is called once for each lease that is lost. The renewer has removed it by then.
	Lost func(l *Item, reason Reason)
	// Timeout limits one request. The old deadlines of the leases in it limit it too.
	Timeout time.Duration
}

const (
	// batchMax is the most leases in a request. A longer script would delay the other
	// clients of the server for too long.
	batchMax = 128
	// maxSleep is the longest time between two ticks while leases are held. Deadlines count
	// suspension, and timers do not. So when the machine wakes up, the renewer reports
	// losses within this time.
	maxSleep = time.Second
)

// Renewer renews leases until it is stopped.
type Renewer struct {
	cfg  Config
	ctx  context.Context // ends all requests when the renewer stops
	stop context.CancelFunc
	work sync.WaitGroup // ticks and requests under way

	// mu guards everything below, and the unexported fields of each Item. While it is held,
	// there is no I/O and no callback.
	mu      sync.Mutex
	queue   queue
	timer   *time.Timer
	armed   time.Duration // when the timer fires; 0: never
	stopped bool

	// renewals has a channel for each lease whose renewal somebody waits for, see Shorten.
	renewals map[*Item]chan struct{}
}

// New makes a renewer. Its timer starts with the first lease.
func New(cfg Config) *Renewer {
	k := &Renewer{cfg: cfg}
	k.ctx, k.stop = context.WithCancel(context.Background())
	return k
}

// Add adds a lease that a request sent at sent was granted for l.TTL. now is the time now. It
// returns false if the renewer has stopped.
func (k *Renewer) Add(l *Item, sent, now time.Duration) bool {
	return k.add(l, sent, l.TTL, now)
}

// AddPushed adds a lease that a push granted for ttl, not before since. now is the time now.
// A renewal confirms it at once. Before that, the client does not know whether the push was
// true, and the server does not know whether the client received it. If the lease is removed
// first, it is not confirmed.
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

// extend counts ttl from sent. A deadline never moves back, because answers may overtake each
// other. The next renewal does not move back either. Otherwise a lease that was extended to a
// shorter TTL would be due all the time.
func (l *Item) extend(sent, ttl time.Duration) {
	if l.cut == over {
		l.next = l.Deadline()
		return
	}
	if l.cut == shortened {
		ttl = min(ttl, l.TTL)
	}
	d := leasetime.Deadline(sent, ttl)
	if l.Limits != nil && l.Limits.NotAfter != 0 {
		d = min(d, l.Limits.NotAfter)
	}
	d = max(d, l.Deadline())
	l.trust.Store(int64(d))
	l.Limits.note(d)
	l.due = max(l.due, leasetime.RenewAt(sent, ttl))
	l.next = min(l.due, d)
	if l.last() || l.busy {
		l.next = d
	}
}

// report describes a renewal that was sent at sent and confirmed now. The lease does not have
// its new deadline yet.
func (l Asked) report(waiting int, sent, now time.Duration) Report {
	r := Report{Waiting: waiting, Lag: sent - l.due}
	if !l.unconfirmed {
		r.Remaining, r.TTL = max(l.Deadline()-now, 0), l.For
	}
	return r
}

// RenewNow renews at once the leases that match selects, because they may be lost. It skips
// leases without renewal, and those whose renewal is under way.
func (k *Renewer) RenewNow(match func(*Item) bool) {
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

// Remove removes a lease. It returns false if the renewer does not have the lease: it has
// reported the loss, or is about to. A renewal that is under way has no effect on the lease
// any more.
func (k *Renewer) Remove(l *Item) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.index < 0 {
		return false
	}
	heap.Remove(&k.queue, int(l.index))
	return true
}

// Expire notes that a caller has seen the deadline of a lease pass. From then on the lease is
// lost: no renewal revives it, and the timer, which is late, reports the loss. Expire returns
// false if the lease has been renewed meanwhile.
func (k *Renewer) Expire(l *Item) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.index >= 0 && l.Deadline() > k.cfg.Now() {
		return false
	}
	l.cut = over
	return true
}

// Has reports whether the renewer has the lease.
func (k *Renewer) Has(l *Item) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return l.index >= 0
}

// Extended notes that a request sent at sent extended the lease to ttl. It returns false if
// the renewer no longer has the lease.
func (k *Renewer) Extended(l *Item, sent, ttl time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.index < 0 {
		return false
	}
	l.TTL = l.within(ttl)
	l.unconfirmed = false
	l.extend(sent, l.TTL)
	heap.Fix(&k.queue, int(l.index))
	k.arm(k.cfg.Now())
	return true
}

// Shorten makes a lease end at most ttl from now, before a request tells the server so. From
// then on it is never trusted for longer than ttl after the sending of a renewal or an
// extension. A copy of the request may run at any time, so the server may keep the lease no
// longer than that either.
//
// A renewal under way may ask for more. renewing is closed when it has ended, and nil if there
// is none. ok is false if the renewer does not have the lease.
func (k *Renewer) Shorten(l *Item, now, ttl time.Duration) (renewing <-chan struct{}, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.index < 0 {
		return nil, false
	}
	l.TTL, l.cut = min(l.TTL, ttl), max(l.cut, shortened)
	if d := leasetime.Deadline(now, ttl); d < l.Deadline() {
		l.trust.Store(int64(d))
		l.Limits.note(d) // NotAfter is later
	}
	l.due = min(l.due, leasetime.RenewAt(now, ttl))
	l.next = min(l.next, l.Deadline())
	if !l.last() && !l.busy {
		l.next = min(l.next, l.due)
	}
	heap.Fix(&k.queue, int(l.index))
	k.arm(now)
	if !l.busy {
		return nil, true
	}
	if k.renewals == nil {
		k.renewals = make(map[*Item]chan struct{})
	}
	if k.renewals[l] == nil {
		k.renewals[l] = make(chan struct{})
	}
	return k.renewals[l], true
}

// within is ttl, but no more than the lease was shortened to.
func (l *Item) within(ttl time.Duration) time.Duration {
	if l.cut == shortened {
		return min(ttl, l.TTL)
	}
	return ttl
}

// Longest returns the longest TTL up to ttl that the lease may still get, see Shorten.
func (k *Renewer) Longest(l *Item, ttl time.Duration) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return l.within(ttl)
}

// StopRenewal ends the renewals of a lease. The renewer keeps it and reports its loss at the
// deadline. A renewal that is under way may still extend the lease once, and so may the
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

// TTL is the TTL for which the next renewal of the lease asks.
func (k *Renewer) TTL(l *Item) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return l.TTL
}

// All lists the leases.
func (k *Renewer) All() []*Item {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]*Item(nil), k.queue...)
}

// Len returns how many leases there are.
func (k *Renewer) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.queue)
}

// Stop removes all leases and ends the requests under way. It returns when no goroutine of
// the renewer runs.
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

// arm makes the timer fire for the first lease, if it would fire too late. It never makes the
// timer fire later: an idle tick now and then costs less than moving the timer with every
// lease.
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

var renewLabel = label.New("renewals")

// tick does what is due: reports losses, sends renewals.
func (k *Renewer) tick() {
	defer k.work.Done()
	renewLabel.Set() // the goroutines that send the renewals have it too
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
// renewal is due, by group. If one is, those that are nearly due fill its batch up, and no more: with
// many leases, each would otherwise be renewed earlier, and so more often.
func (k *Renewer) due(now time.Duration) (lost []*Item, due map[string][]Asked) {
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
		group := l.Hold.Group()
		if n := len(due[group]); l.next > now && (len(due) == 0 || n > 0 && n%batchMax == 0) {
			break
		}
		l.busy = true
		l.next = l.Deadline()
		heap.Fix(&k.queue, 0)
		if due == nil {
			due = make(map[string][]Asked)
		}
		due[group] = append(due[group], Asked{l, l.TTLFor(now, l.TTL)})
	}
	return lost, due
}

// renew sends one batch and notes the outcome of each lease.
func (k *Renewer) renew(batch []Asked) {
	sent := k.cfg.Now()
	bound := k.cfg.Timeout
	k.mu.Lock()
	for _, l := range batch {
		// A renewal that arrives after the old deadline has no effect. So the request
		// ends then, by the clock of the client.
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
	reports := make([]Report, len(batch))
	k.mu.Lock()
	for i, l := range batch {
		l.busy = false
		if waits := k.renewals[l.Item]; waits != nil {
			close(waits)
			delete(k.renewals, l.Item)
		}
		switch {
		case l.index < 0: // released or lost meanwhile
			continue
		case outcomes[i].Err != nil:
			l.next = l.Deadline()
			if !l.last() { // StopRenewal may have been called meanwhile
				l.next = min(l.retryAt(now), l.Deadline())
			}
		case outcomes[i].Lost != "":
			heap.Remove(&k.queue, int(l.index))
			lost = append(lost, i)
			continue
		default:
			reports[i] = l.report(outcomes[i].Waiting, sent, now)
			if l.Limits != nil && !l.unconfirmed {
				l.Limits.renewals++
			}
			l.unconfirmed = false
			l.extend(sent, l.For)
		}
		heap.Fix(&k.queue, int(l.index))
		kept = append(kept, i)
	}
	if !k.stopped {
		k.arm(now)
	}
	k.mu.Unlock()
	for _, i := range lost {
		k.cfg.Lost(batch[i].Item, outcomes[i].Lost)
	}
	for _, i := range kept {
		reports[i].Err = outcomes[i].Err
		k.cfg.Renewed(batch[i].Item, reports[i])
	}
}
