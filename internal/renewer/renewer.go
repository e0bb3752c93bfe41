// Package renewer renews leases in time and reports when one is lost.
//
// One Renewer serves all leases of a client with one timer. It has no goroutine per lease,
// and none at all while nothing is due. It renews the leases of one group (a server, or a
// slot of a Cluster) in batches, each in one request and in its own goroutine. So a silent
// server delays neither the renewals of other groups nor the report of a loss. A late server gets few
// requests at a time (room.go).
//
// The renewer does not know the requests: its owner passes a function that sends them.
package renewer

import (
	"cmp"
	"container/heap"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/label"
	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/lockorder"
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
	Renewed func(it *Item, r Report)
	// Lost is called once for each lease that is lost. The renewer has removed it by then.
	Lost func(it *Item, reason Reason)
	// Timeout is after how long a request counts as late, and the next one may be sent. A third of the
	// TTL of each lease, and its old deadline, count too. An answer is taken for longer, see
	// [leasetime.RenewalLimit] and, for a short lease, sending.limit.
	Timeout time.Duration
	// Late is the error of a request that is late; nil: the end of a context.
	Late error
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
	mu      lockorder.Mutex[Renewer]
	queue   queue
	timer   *time.Timer
	armed   time.Duration // when the timer fires; 0: never
	wake    time.Duration // as armed, but 0 if a tick runs without a timer
	pause   time.Duration // by how much a timer was late at most
	stopped bool

	groups map[string]*group
	paused []*group // late groups that had no request under way for a moment

	took time.Duration // how long the last request took that was answered

	// awaited has a channel for each lease whose renewal somebody waits for, see Shorten.
	awaited map[*Item]chan struct{}
}

// New makes a renewer. Its timer starts with the first lease.
func New(cfg Config) *Renewer {
	r := &Renewer{cfg: cfg, groups: make(map[string]*group)}
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r
}

// Add adds a lease that a request sent at sent was granted for it.TTL. now is the time now. It
// returns false if the renewer has stopped.
func (r *Renewer) Add(it *Item, sent, now time.Duration) bool {
	return r.add(it, sent, it.TTL, now)
}

// AddPushed adds a lease that a push granted for ttl, not before since. now is the time now.
// A renewal confirms it at once. Before that, the client does not know whether the push was
// true, and the server does not know whether the client received it. If the lease is removed
// first, it is not confirmed.
func (r *Renewer) AddPushed(it *Item, since, ttl, now time.Duration) bool {
	it.unconfirmed = true
	return r.add(it, since, ttl, now)
}

func (r *Renewer) add(it *Item, since, ttl, now time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return false
	}
	it.countFrom(since, ttl)
	if it.unconfirmed {
		it.due, it.next = now, min(now, it.Deadline())
	}
	heap.Push(&r.queue, it)
	r.arm(now)
	return true
}

// countFrom counts ttl from sent. A deadline never moves back, because answers may overtake each
// other. The next renewal does not move back either. Otherwise a lease that was extended to a
// shorter TTL would be due all the time.
func (it *Item) countFrom(sent, ttl time.Duration) {
	if it.shortened {
		ttl = min(ttl, it.TTL)
	}
	d := leasetime.Deadline(sent, ttl)
	if it.Limits != nil && it.Limits.NotAfter != 0 {
		d = min(d, it.Limits.NotAfter)
	}
	d = max(d, it.Deadline())
	it.trust.Store(int64(d))
	it.Limits.noteDeadline(d)
	it.due = max(it.due, leasetime.RenewAt(sent, ttl))
	it.next = min(it.due, d)
	it.stopWaiting()
	if it.noRenewalFollows() || it.step == underWay {
		it.next = d
	}
}

// report describes a renewal that was sent at sent and confirmed now. The lease does not have
// its new deadline yet.
func (a Asked) report(waiting int, sent, now time.Duration) Report {
	r := Report{Waiting: waiting, Lag: sent - a.due}
	if !a.unconfirmed {
		r.Remaining, r.TTL = max(a.Deadline()-now, 0), a.For
	}
	return r
}

// RenewNow renews at once the leases that match selects, because they may be lost. It skips
// leases without renewal, and those whose renewal is under way or waits for room.
func (r *Renewer) RenewNow(match func(*Item) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return
	}
	now := r.cfg.Now()
	for _, it := range slices.Clone(r.queue) {
		if match(it) && it.step == idle && !it.noRenewalFollows() {
			it.next = min(it.next, now)
			heap.Fix(&r.queue, int(it.index))
		}
	}
	r.arm(now)
}

// Remove removes a lease. It returns false if the renewer does not have the lease: it has
// reported the loss, or is about to. A renewal that is under way has no effect on the lease
// any more.
func (r *Renewer) Remove(it *Item) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if it.index < 0 {
		return false
	}
	heap.Remove(&r.queue, int(it.index))
	return true
}

// Expired reports whether the deadline of a lease has passed. Then the lease is lost: no answer that comes later
// revives it, and the timer, which is late, reports the loss.
func (r *Renewer) Expired(it *Item) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return it.index < 0 || it.Deadline() <= r.cfg.Now()
}

// Has reports whether the renewer has the lease.
func (r *Renewer) Has(it *Item) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return it.index >= 0
}

// Extended notes that a request sent at sent extended the lease to ttl. It returns false if
// the renewer no longer has the lease, or if the lease is over.
func (r *Renewer) Extended(it *Item, sent, ttl time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if it.index < 0 || it.Deadline() <= r.cfg.Now() {
		return false
	}
	it.TTL = it.within(ttl)
	it.unconfirmed = false
	it.countFrom(sent, it.TTL)
	heap.Fix(&r.queue, int(it.index))
	r.arm(r.cfg.Now())
	return true
}

// Shorten makes a lease end at most ttl from now, before a request tells the server so. From
// then on it is never trusted for longer than ttl after the sending of a renewal or an
// extension. A copy of the request may run at any time, so the server may keep the lease no
// longer than that either.
//
// A renewal under way may ask for more. renewing is closed when it has ended, and nil if there
// is none. ok is false if the renewer does not have the lease.
func (r *Renewer) Shorten(it *Item, now, ttl time.Duration) (renewing <-chan struct{}, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if it.index < 0 {
		return nil, false
	}
	it.TTL, it.shortened = min(it.TTL, ttl), true
	if d := leasetime.Deadline(now, ttl); d < it.Deadline() {
		it.trust.Store(int64(d))
		it.Limits.noteDeadline(d) // NotAfter is later
	}
	it.due = min(it.due, leasetime.RenewAt(now, ttl))
	it.next = min(it.next, it.Deadline())
	it.stopWaiting()
	if !it.noRenewalFollows() && it.step == idle {
		it.next = min(it.next, it.due)
	}
	heap.Fix(&r.queue, int(it.index))
	r.arm(now)
	if it.step != underWay {
		return nil, true
	}
	if r.awaited == nil {
		r.awaited = make(map[*Item]chan struct{})
	}
	if r.awaited[it] == nil {
		r.awaited[it] = make(chan struct{})
	}
	return r.awaited[it], true
}

// within is ttl, but no more than the lease was shortened to.
func (it *Item) within(ttl time.Duration) time.Duration {
	if it.shortened {
		return min(ttl, it.TTL)
	}
	return ttl
}

// Longest returns the longest TTL up to ttl that the lease may still get, see Shorten.
func (r *Renewer) Longest(it *Item, ttl time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return it.within(ttl)
}

// StopRenewal ends the renewals of a lease. The renewer keeps it and reports its loss at the
// deadline. A renewal that is under way may still extend the lease once, and so may the
// confirmation of a pushed grant.
func (r *Renewer) StopRenewal(it *Item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	it.NoRenewal = true
	if it.index >= 0 && it.noRenewalFollows() {
		it.stopWaiting()
		it.next = it.Deadline()
		heap.Fix(&r.queue, int(it.index))
	}
}

// TTL is the TTL for which the next renewal of the lease asks.
func (r *Renewer) TTL(it *Item) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return it.TTL
}

// All lists the leases.
func (r *Renewer) All() []*Item {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*Item(nil), r.queue...)
}

// Len returns how many leases there are.
func (r *Renewer) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.queue)
}

// Stop removes all leases and ends the requests under way. It returns when no goroutine of
// the renewer runs.
func (r *Renewer) Stop() {
	r.mu.Lock()
	r.stopped = true
	for _, it := range r.queue {
		it.index = -1
	}
	r.queue = nil
	clear(r.groups)
	r.paused = nil
	if r.timer != nil && r.timer.Stop() {
		r.work.Done() // the tick that will not come
	}
	r.timer = nil
	r.mu.Unlock()
	r.stop()
	r.work.Wait()
}

// arm makes the timer fire for the first lease, if it would fire too late. It never makes the
// timer fire later: an idle tick now and then costs less than moving the timer with every
// lease.
func (r *Renewer) arm(now time.Duration) {
	if len(r.queue) == 0 {
		return
	}
	at := min(r.queue[0].next, now+maxSleep)
	if r.armed != 0 && r.armed <= at {
		return
	}
	if r.timer == nil || !r.timer.Stop() {
		r.work.Add(1)
	}
	r.armed, r.wake, r.timer = max(at, 1), 0, nil
	if at <= now {
		// What is due needs no timer. Besides, Go 1.26 runs a timer of a bubble that is due at once in the calling
		// goroutine, and two of them at once can crash the race detector.
		go r.tick()
		return
	}
	r.wake, r.timer = at, time.AfterFunc(at-now, r.tick)
}

// Pause is the longest time for which this process, or its machine, stood still under a lease: a
// timer was late by that.
func (r *Renewer) Pause() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pause
}

var renewLabel = label.New("renewals")

// tick does what is due: reports losses, sends renewals.
func (r *Renewer) tick() {
	defer r.work.Done()
	renewLabel.Set() // the goroutines that send the renewals have it too
	r.mu.Lock()
	if r.stopped {
		r.mu.Unlock()
		return
	}
	now := r.cfg.Now()
	if r.wake > 0 {
		r.pause = max(r.pause, now-r.wake)
	}
	r.armed, r.wake = 0, 0
	r.forgetPaused(now)
	lost, due, late := r.takeDue(now)
	for name, leases := range due {
		for batch := range slices.Chunk(leases, batchMax) {
			r.start(name, batch)
		}
	}
	for g := range late {
		r.startWaiting(g, now)
	}
	r.arm(now)
	r.mu.Unlock()
	for _, it := range lost {
		r.cfg.Lost(it, it.EndReason())
	}
}

// takeDue removes the leases whose deadline has passed, and picks those whose
// renewal is due, by group. If one is, those that are nearly due fill its batch up, and no more: with
// many leases, each would otherwise be renewed earlier, and so more often. The leases of late groups
// wait for room. The confirmation of a pushed grant does not: the server has just sent that.
//
// The queue is a heap by next, the instant at which something must happen to a lease. For example, at
// 10.0 s the queue has A (next 10.0 s), B (next 10.1 s, same group), C (next 10.1 s, another group). All
// have a TTL of 30 s, so B and C are nearly due (leasetime.Slack). A goes into a batch of its group. B
// joins that batch, because it costs no request of its own. C would need one, so the walk ends there, and
// the timer runs again at 10.1 s. A's next is now its trust deadline: if no answer comes, that ends it.
func (r *Renewer) takeDue(now time.Duration) (lost []*Item, due map[string][]Asked, late map[*group]bool) {
	for len(r.queue) > 0 {
		it := r.queue[0]
		if it.Deadline() <= now {
			heap.Pop(&r.queue)
			lost = append(lost, it)
			continue
		}
		if it.noRenewalFollows() || it.step == underWay || it.next-leasetime.Slack(it.TTL) > now {
			break
		}
		name := it.Hold.Group()
		if g := r.groups[name]; g.isLate() && !it.unconfirmed {
			if it.next > now {
				break
			}
			r.waitForRoom(g, it, now)
			if late == nil {
				late = make(map[*group]bool)
			}
			late[g] = true
			continue
		}
		if n := len(due[name]); it.next > now && (len(due) == 0 || n > 0 && n%batchMax == 0) {
			break
		}
		if due == nil {
			due = make(map[string][]Asked)
		}
		due[name] = append(due[name], r.ask(it, now))
	}
	return lost, due, late
}

// ask makes the request for one lease.
func (r *Renewer) ask(it *Item, now time.Duration) Asked {
	it.step = underWay
	it.next = it.Deadline()
	heap.Fix(&r.queue, int(it.index))
	return Asked{it, it.TTLFor(now, it.TTL)}
}

// sending is a batch that was sent.
type sending struct {
	g     *group
	batch []Asked
	sent  time.Duration
	bound time.Duration // after that it counts as late
	ends  time.Duration // then the request ends, unless another one has renewed a lease of the batch
	whole bool          // the bound is all of the time that a request may have
	late  bool          // it counts as late, or has ended; guarded by the renewer's mu
}

// limit sets after how long the batch counts as late, and returns how long an answer is taken. took is how long the
// last answer took. r.mu is held.
//
// A process that gets its processor rarely reads each answer late. So the answer to the renewal of a short lease is
// taken for longer than the bound, after which the next renewal goes out. A store notices a dead connection after a
// part of that time. And if answers take long anyway, the next renewal waits for that, because it would need another
// connection.
func (s *sending) limit(timeout, took time.Duration) (limit time.Duration) {
	limit, bound, whole := time.Duration(math.MaxInt64), timeout, timeout
	s.ends = limit
	for _, a := range s.batch {
		// A renewal that arrives after the old deadline has no effect. So the request
		// ends then, by the clock of the client.
		left := a.Deadline() - s.sent
		if a.unconfirmed {
			bound = min(bound, leasetime.ConfirmWithin(left))
		}
		if patient(a.Hold) {
			limit = min(limit, left)
			continue
		}
		part := leasetime.RenewalLimit(a.TTL, s.sent-a.due)
		whole = leasetime.RequestLimit(whole, a.TTL)
		bound = min(bound, max(part, took+took/2), left)
		if part < timeout && !a.unconfirmed {
			s.ends, part = min(s.ends, left), min(timeout, 4*part)
			left = part // not the end of the lease, which another answer may move
		}
		limit = min(limit, left, part)
	}
	limit = max(limit, 0)
	s.bound = max(min(bound, limit), 0)
	s.whole = s.bound >= whole
	return limit
}

// patient reports whether a renewal waits for more than the server, such as acknowledgements.
func patient(h Hold) bool {
	waits, ok := h.(interface{ Patient() bool })
	return ok && waits.Patient()
}

// renew sends one batch and notes the outcome of each lease. If the request is late, its leases are
// renewed by the next one. Its answer counts all the same.
func (r *Renewer) renew(g *group, batch []Asked) {
	s := &sending{g: g, batch: batch, sent: r.cfg.Now()}
	r.mu.Lock()
	limit := s.limit(r.cfg.Timeout, r.took)
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(r.ctx, limit)
	defer cancel()
	if s.bound < limit {
		defer r.after(s.bound, func() { r.noteLate(s) })()
	}
	if s.ends < limit {
		defer r.after(s.ends, func() {
			if !r.trusted(s.batch) {
				cancel()
			}
		})()
	}
	outcomes, err := r.cfg.Renew(ctx, batch)
	r.note(s, outcomes, err)
}

// after calls f later, unless stop is called before.
func (r *Renewer) after(d time.Duration, f func()) (stop func()) {
	r.work.Add(1)
	timer := time.AfterFunc(d, func() {
		defer r.work.Done()
		f()
	})
	return func() {
		if timer.Stop() {
			r.work.Done()
		}
	}
}

// trusted reports whether a lease of the batch is still trusted.
func (r *Renewer) trusted(batch []Asked) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.cfg.Now()
	return slices.ContainsFunc(batch, func(a Asked) bool { return a.index >= 0 && a.Deadline() > now })
}

// noteLate notes that a request has no answer in time.
func (r *Renewer) noteLate(s *sending) {
	r.mu.Lock()
	late := !r.stopped && !s.late
	r.mu.Unlock()
	if late {
		r.note(s, nil, cmp.Or(r.cfg.Late, context.DeadlineExceeded))
	}
}

// note notes the outcome of each lease of a batch. err is that of all of them.
//
// A batch may be noted twice: first as late, then with its answer. For example, a lease with a TTL of 30 s
// is renewed at 10 s, and the server says nothing until 13 s. note marks the lease as idle and sets its
// next renewal. The second request goes out, also without an answer. At 17 s the first one is answered
// "held": the lease counts from 10 s, when that request was sent, and its step stays with the second
// request. A late answer with an error says nothing new, and is left out.
func (r *Renewer) note(s *sending, outcomes []Outcome, err error) {
	now := r.cfg.Now()
	var lost, held []int
	if err != nil {
		outcomes = slices.Repeat([]Outcome{{Err: err}}, len(s.batch))
	}
	reports := make([]Report, len(s.batch))
	r.mu.Lock()
	wasLate := s.late
	s.late = true
	if err == nil {
		r.took = now - s.sent
	}
	for i, a := range s.batch {
		if !wasLate {
			a.step = idle
			r.endAwaited(a.Item)
		}
		switch {
		case a.index < 0, wasLate && outcomes[i].Err != nil: // released or lost meanwhile, or known to be late
			continue
		case outcomes[i].Err != nil:
			a.next = a.Deadline()
			if !a.noRenewalFollows() { // StopRenewal may have been called meanwhile
				a.next = min(a.retryAt(now), a.Deadline())
				if now-s.sent >= r.cfg.Timeout && now >= r.lastCall(a.Item) {
					a.next = now // after a pause it might be too late
				}
			}
		case outcomes[i].Lost != "":
			heap.Remove(&r.queue, int(a.index))
			lost = append(lost, i)
			continue
		case a.Deadline() <= now: // over, although the timer is late
			continue
		default:
			reports[i] = a.report(outcomes[i].Waiting, s.sent, now)
			if a.Limits != nil && !a.unconfirmed {
				a.Limits.renewals++
			}
			a.unconfirmed = false
			a.countFrom(s.sent, a.For)
		}
		heap.Fix(&r.queue, int(a.index))
		held = append(held, i)
	}
	if !r.stopped {
		if !wasLate {
			r.leave(s.g, s.sent, now, r.outcome(s, now, err))
		} else if err == nil {
			s.g.answered = max(s.g.answered, s.sent)
		}
		r.arm(now)
	}
	r.mu.Unlock()
	for _, i := range lost {
		r.cfg.Lost(s.batch[i].Item, outcomes[i].Lost)
	}
	for _, i := range held {
		reports[i].Err = outcomes[i].Err
		r.cfg.Renewed(s.batch[i].Item, reports[i])
	}
}

// endAwaited tells those that wait for the end of a renewal. r.mu is held.
func (r *Renewer) endAwaited(it *Item) {
	if waits := r.awaited[it]; waits != nil {
		close(waits)
		delete(r.awaited, it)
	}
}
