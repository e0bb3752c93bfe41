// How an attempt waits: for its process, for a push, by polling, for a server that is away.

package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/pushes"
	"github.com/holdfast-go/holdfast/internal/renewer"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/waitqueue"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// await waits in the line for the push, and looks by itself when the holders
// may be over, when the subscription was broken, and at every heartbeat: a
// push that is lost costs a poll, never the lock. What else ends it: ctx, the
// client's closing, or a refusal that will not pass.
func (at *attempt) await(ctx context.Context, a wire.Answer) (*hold, error) {
	c, s := at.c, at.lock
	next, failures := at.pollAfter(a), 0
	var silence error // of the last look; nil if it was answered
	for {
		timer := time.NewTimer(next)
		wake := WakePush
		var pushed pushes.Grant
		var freeIn time.Duration
		select {
		case pushed = <-at.w.Granted:
		case <-at.w.Recheck:
			wake = WakeResume
		case freeIn = <-at.w.FreeAt:
			wake = WakeNone
		case <-timer.C:
			wake = WakePoll
		case <-ctx.Done():
			timer.Stop()
			at.cancel()
			if silence != nil {
				return nil, &endedError{name: s.name, end: ctx.Err(), last: silence}
			}
			return nil, ctx.Err()
		case <-c.life.Closing():
			timer.Stop()
			at.cancel()
			return nil, ErrClosed
		}
		timer.Stop()
		select {
		case pushed = <-at.w.Granted: // before anything else that has come meanwhile
			wake = WakePush
		default:
		}
		if wake == WakeNone {
			// The lock may be free then, and it is this waiter that is asked to look.
			next = at.pollAfter(wire.Answer{Left: freeIn, Place: 1})
			continue
		}
		at.reportWake(wake)
		if wake == WakePush {
			// Unless it can be believed, a poll confirms it and starts the lease anew.
			if g, ok := at.believes(pushed); ok {
				return at.granted(g)
			}
		}
		a, err := at.poll(ctx)
		switch {
		case err == nil && a.Kind == wire.Queued:
			next, failures, silence = at.pollAfter(a), 0, nil
		case err == nil:
			return at.handleAnswer(ctx, a)
		case request.Ended(ctx) != nil || !request.Transient(err):
			return nil, at.failed(ctx, err, silence)
		default:
			// The server is silent or away: ask again, more slowly. If it has
			// given the place away by then, the look joins anew.
			next, failures, silence = backoff.Default.After(failures, c.chance()), failures+1, err
		}
	}
}

// believes reports whether a pushed grant can be believed without asking, and from
// when its lease counts: too little of that may be left, or the server has said
// since that the attempt waits. Nobody renews a fixed lease, and acknowledgements may be
// longer in coming than the lease of a push: they ask, to have the whole TTL.
func (at *attempt) believes(g pushes.Grant) (grant, bool) {
	p := leasetime.Push{Sent: at.since, Queued: at.queued, Granted: g.Now, Lease: min(g.Lease, at.lock.ttl)}
	if g.Now == 0 {
		// It does not say when it was made: perhaps with the last answer,
		// unless the token is older, which is the server's time in µs, or more.
		p.Granted, p.Lease = min(at.queued, g.Token/1000), at.lock.ttl
	}
	now := at.c.now()
	if !at.stood || at.lock.noRenewal || at.lock.ack.Wanted() || !p.Trusted(now) {
		return grant{}, false
	}
	return grant{token: g.Token, waiting: g.Waiting, since: p.Since(now), pushed: p.Lease}, true
}

// poll polls; a waiter whom the record has forgotten joins again at the end.
func (at *attempt) poll(ctx context.Context) (wire.Answer, error) {
	a, err := at.ask(ctx, script.Poll)
	if err != nil || a.Kind != wire.Gone {
		return a, err
	}
	at.newAttemptID()
	return at.ask(ctx, script.Acquire)
}

// newAttemptID makes a new attempt of one that the record does not know any more:
// a push for a grant that it had may still be on its way, and would be taken
// for a grant at the new place.
func (at *attempt) newAttemptID() {
	c := at.c
	if !at.sure {
		at.cancel()
	}
	at.id, at.number = c.attempt()
	at.stood, at.risk = false, false
	if at.w != nil {
		at.w = c.hub.Replace(at.w, at.number)
	}
}

// pollAfter is for how long to wait for a push before looking.
func (at *attempt) pollAfter(a wire.Answer) time.Duration {
	if at.pushUnavailable() {
		at.subscribeAgain()
		return leasetime.PollWithoutPush(a.Left, at.lock.ttl, at.c.chance())
	}
	return leasetime.PollAfter(a.Left, a.Place, at.lock.ttl, at.c.chance())
}

func (at *attempt) reportWake(w Wake) {
	at.wake = w
	at.c.events.observe(Event{Kind: EventWake, Name: at.lock.name, HolderID: at.id, Wake: w})
}

// subscribeAgain is after what time a client that may not subscribe tries it again:
// permissions and proxies change while programs run.
const subscribeAgain = time.Minute

// subscribeSoon is after what time it tries again when nothing was answered.
var subscribeSoon = backoff.Exponential{First: time.Second, Longest: subscribeAgain}

// subscribing is how long the making of a subscription may take. A waiter does not
// wait for it longer than for a request. It polls meanwhile.
const subscribing = 5 * time.Second

// pushState is what a client knows of its subscriptions. A waiter without one is in
// the wait queue like any other, but a release passes over it: nobody is granted a lock
// who cannot be told. It polls at short intervals instead, which costs requests and keeps no
// order. While others are subscribed and keep the queue filled, it finds the lock free
// only by luck. So each such waiter makes the client try to subscribe again.
type pushState struct {
	until  atomic.Int64 // no subscription is tried before; 0: it can be had
	failed atomic.Int64 // tries that were not answered, in a row
	mute   atomic.Bool  // this client may not publish, so others like it may not either
	told   atomic.Bool
}

// refused reports that a try to subscribe failed a short time ago.
func (p *pushState) refused(at time.Duration) bool { return p.until.Load() > int64(at) }

// learn takes in how a try to subscribe ended, while the server answered others.
func (p *pushState) learn(at time.Duration, refused bool, spread float64) {
	pause := subscribeAgain
	if !refused {
		pause = subscribeSoon.After(int(p.failed.Add(1)-1), spread)
	}
	p.until.Store(int64(at + pause))
}

// stands is told that there is a subscription.
func (p *pushState) stands() {
	p.until.Store(0)
	p.failed.Store(0)
}

// due reports whether it is time to try again. Of several callers at once, one is told so.
func (p *pushState) due(at time.Duration) bool {
	until := p.until.Load()
	return until <= int64(at) && p.until.CompareAndSwap(until, int64(at+subscribing))
}

// pushUnavailable reports that no push can be relied on.
func (at *attempt) pushUnavailable() bool {
	return at.c.pushing.mute.Load() || !at.c.hub.Reaches(at.w)
}

// subscribeAgain tries to subscribe, in the background, when it is time. The hub tells
// all who wait for it.
func (at *attempt) subscribeAgain() {
	c, s := at.c, at.lock
	if c.hub.Reaches(at.w) || !c.pushing.due(c.now()) {
		return
	}
	c.hub.Prepare(s.channel, func(err error) {
		if err == nil {
			c.pushing.stands()
			return
		}
		err = request.InTime(context.Background(), err)
		c.pushing.learn(c.now(), request.Definite(err) && !request.Transient(err), c.chance())
		s.reportPushUnavailable(err)
	})
}

// reportPushUnavailable says once in the life of a client that it waits by looking.
func (s *lock) reportPushUnavailable(why error) {
	c := s.client
	if c.pushing.told.Swap(true) {
		return
	}
	c.log.Warn("holdfast: grants cannot be pushed; waiters look by themselves, which is slower and keeps no order",
		"error", why, "hint", Hint(why))
	c.events.observe(Event{Kind: EventPushUnavailable, Name: s.name, Err: why})
}

// join subscribes and asks for a place in the line. Where a subscription is
// refused, or the server answers anything but that, it joins all the same. If
// it answers without a waiter, nothing was asked, or nothing is to be heard.
func (at *attempt) join(ctx context.Context) (wire.Answer, error) {
	c, s, number := at.c, at.lock, at.number
	brief, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	w, silent := c.hub.Subscribe(brief, s.channel, number)
	cancel()
	silent = request.InTime(ctx, silent)
	refused := silent != nil && request.Definite(silent) && !request.Transient(silent)
	switch {
	case silent == nil:
		c.pushing.stands()
	case request.Ended(ctx) != nil:
		return wire.Answer{}, request.Ended(ctx)
	case c.life.IsClosing():
		return wire.Answer{}, ErrClosed
	}
	if w == nil {
		w = c.hub.Unsubscribed(s.channel, number)
	}
	at.w = w
	a, err := at.ask(ctx, script.Acquire)
	switch {
	case refused:
		c.pushing.learn(c.now(), refused, c.chance())
		s.reportPushUnavailable(silent)
	case silent != nil && err == nil:
		at.subscribeAgain()
	case silent != nil:
		// Neither: the server is away. What comes next begins from the start.
		c.hub.Forget(at.w)
		at.w = nil
		err = fmt.Errorf("%w; before that, the subscription: %w", err, silent)
	}
	return a, err
}

// prepare makes sure, once, that the server can run the scripts and its user may, and
// that it can wait for the acknowledgements that the lock is taken with.
func (s *lock) prepare(ctx context.Context) error {
	c := s.client
	noPushes, err := c.preflight.Check(ctx, s.ack, s.keys(), s.channel)
	if noPushes != nil {
		c.pushing.mute.Store(true)
		s.reportPushUnavailable(noPushes)
	}
	return err
}

const (
	// tellAgain is how often the log is told that the server is away.
	tellAgain = time.Minute
	// lastLook bounds the question who has the lock when a wait is over.
	lastLook = 250 * time.Millisecond
)

// outage is what a call goes through while the server cannot serve it. A call
// that waits has said for how long, and that covers the way to the server too.
type outage struct {
	c        *Client
	name     string
	try      bool // the call does not wait: the first failure ends it
	failures int
	last     error // why the last request failed; nil if it was answered
}

// outlast waits until the next request makes sense. It reports false if the
// call is to end: it only tries, the failure is there to stay, ctx has ended,
// or the client closes.
func (o *outage) outlast(ctx context.Context, err error) bool {
	if o.try || !request.Transient(err) || request.Ended(ctx) != nil || o.c.life.IsClosing() {
		return false
	}
	if o.last == nil {
		o.report(err)
	}
	o.last = err
	o.failures++
	return o.c.sender.Pause(ctx, o.failures-1)
}

// prepare makes sure that the server can run the scripts, when it can be reached. On
// error the call is to end.
func (o *outage) prepare(ctx context.Context, s *lock) error {
	for err := s.prepare(ctx); err != nil; err = s.prepare(ctx) {
		if !o.outlast(ctx, err) {
			return o.over(ctx, err)
		}
	}
	return nil
}

// over is the error of a call that has asked for nothing yet and gives up.
func (o *outage) over(ctx context.Context, err error) error {
	end := request.Ended(ctx)
	switch {
	case end != nil && request.Transient(err):
		return &endedError{name: o.name, end: end, last: o.last}
	case o.c.life.IsClosing() && request.Transient(err):
		return ErrClosed
	}
	return wrap("lock", o.name, err)
}

// ended is the error of a call whose ctx has ended while it waited for the server,
// in the place of err; else it is err.
func (o *outage) ended(ctx context.Context, err error) error {
	if end := request.Ended(ctx); end != nil && o.last != nil && request.Transient(err) {
		return &endedError{name: o.name, end: end, last: reason(o.last), unknown: errors.Is(err, ErrUnknownOutcome)}
	}
	return err
}

// report says that a call waits for the server.
func (o *outage) report(err error) {
	c, name := o.c, o.name
	c.events.observe(Event{Kind: EventAway, Name: name, Err: err})
	now, told := int64(c.now()), c.away.Load()
	if told != 0 && now-told < int64(tellAgain) || !c.away.CompareAndSwap(told, now) {
		return
	}
	c.log.Warn("holdfast: the server cannot serve a lock call, which goes on trying",
		"lock", name, "error", err, "hint", Hint(err))
}

// errWaitOver is the cause of the end of a context that Wait has bounded.
var errWaitOver = errors.New("holdfast: the wait is over")

// bounded is ctx with the limit of a wait.
func bounded(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, errWaitOver)
}

// waitOver reports whether it is the limit of a wait that has ended ctx, and
// not the context around it, which the caller gave.
func waitOver(ctx, parent context.Context) bool {
	if request.Ended(ctx) == nil || request.Ended(parent) != nil {
		return false
	}
	cause := context.Cause(ctx)
	return cause == nil || errors.Is(cause, errWaitOver)
}

// heldError is the error of a wait that is over, in the place of err, which says
// only how a request ended at that moment. What err says for good, it says still.
func (s *lock) heldError(ctx, parent context.Context, err error) error {
	if err == nil || !waitOver(ctx, parent) ||
		!request.IsContextEnd(err) && !errors.Is(err, ErrUnknownOutcome) &&
			(!request.Definite(err) || !request.Transient(err)) {
		return err
	}
	until, _ := ctx.Deadline()
	told := &HeldError{Name: s.name, Waited: s.wait + time.Since(until)}
	var stopped *endedError
	switch {
	case errors.As(err, &stopped):
		told.Err = stopped.last
	case request.Definite(err):
		told.Err = err
	}
	if told.Err == nil {
		s.readHolder(parent, told)
	}
	return told
}

// heldErrorOf is held for several locks that are taken in one step: it names the
// first that somebody has.
func heldErrorOf(ctx, parent context.Context, locks []lock, err error) error {
	first := locks[0].heldError(ctx, parent, err)
	told, ok := first.(*HeldError) //nolint:errorlint // the one that was just made
	if !ok || !waitOver(ctx, parent) || told.Err != nil || told.Remaining > 0 {
		return first
	}
	others := make([]*HeldError, len(locks))
	var all sync.WaitGroup
	for i := range locks[1:] {
		s := &locks[i+1]
		other := &HeldError{Name: s.name, Waited: told.Waited}
		others[i+1] = other
		all.Go(func() { s.readHolder(parent, other) })
	}
	all.Wait()
	for _, other := range others[1:] {
		if other.Err == nil && other.Remaining > 0 {
			return other
		}
	}
	return first
}

// readHolder asks the server who has the lock, in a moment or not at all.
func (s *lock) readHolder(ctx context.Context, told *HeldError) {
	c := s.client
	look, cancel := context.WithTimeout(ctx, min(c.cfg.RequestTimeout, lastLook))
	defer cancel()
	r, err := c.sender.Record(look, s.keys())
	if err != nil {
		told.Err = request.InTime(ctx, err)
		return
	}
	seen := 0
	for _, h := range r.Holders {
		if wire.Client(h.Attempt) == c.id && !holdsAttempt(c, h.Attempt) {
			continue // what the wait's end has cut off, and is being given back
		}
		if seen++; seen == 1 {
			told.HeldBy, told.Remaining = ownerName(h.Owner, h.Attempt), h.Left
			continue
		}
		told.HeldBy, told.Remaining = "", min(told.Remaining, h.Left) // there are several
	}
}

// holdsAttempt reports whether the attempt is one of a hold that the client has.
func holdsAttempt(c *Client, attempt string) bool {
	return slices.ContainsFunc(c.renewer.All(), func(l *renewer.Item) bool { return l.Hold.(*hold).attempt == attempt })
}

// reason is why an acquisition failed, without the doubt whether it took effect:
// that is dealt with in the background.
func reason(err error) error {
	var doubt *unknownError
	if errors.As(err, &doubt) {
		return doubt.cause
	}
	return err
}

// localTurn is the right to ask the server about a lock for all goroutines of this process.
type localTurn = waitqueue.Turn[*hold, *lock]

// newQueue makes the queue in which the goroutines of this process wait for each other.
func newQueue(c *Client) *waitqueue.Queue[*hold, *lock] {
	return waitqueue.New(waitqueue.Rules[*hold, *lock]{
		Join: (*hold).joinedBy, Joinable: (*hold).joinable, Reserve: (*hold).reserve, Unreserve: (*hold).unreserve,
		HandOver: (*hold).handsOver, Release: (*hold).discard,
		Waits: (*lock).waitsLocally, Refuse: refuse, Closed: ErrClosed,
	}, c.life.Closing())
}

// queued reports whether the goroutines of this process wait for each other for the lock. Those
// of a lock that is taken alone ask the server each for itself, and nothing is handed over
// between them.
func (s *lock) queued() bool { return s.client.cfg.MaxLocalHandOvers >= 0 && !s.noLocalQueue }

// shares reports whether readers on these terms share holds.
func (s *lock) shares() bool { return s.queued() && !s.noHandOver }

// suits reports whether the hold is what one would get on these terms.
func (h *hold) suits(s *lock) bool {
	return h.lock.client.renewer.TTL(&h.Item) == s.ttl && h.lock.ack == s.ack
}

// joinedBy is what a reader does while the readers of its process have h, or none.
func (h *hold) joinedBy(s *lock, writerHere bool) waitqueue.Decision {
	switch {
	case h != nil && h.suits(s):
		age := s.client.now() - time.Duration(h.told.Load())
		return waitqueue.Join(age, int(h.waiting.Load()), writerHere)
	case writerHere:
		return waitqueue.Wait
	}
	return waitqueue.Ask
}

// share lets readers of this process join the hold, unless they have one.
func (h *hold) share() {
	if c := h.lock.client; h.lock.shares() {
		c.queue.Share(h.lock.key(), h)
	}
}

// unshare ends that readers of this process join the hold.
func (h *hold) unshare() {
	if h.lock.rw.any() {
		h.lock.client.queue.Unshare(h.lock.key(), h)
	}
}

// turn is the turn of an exclusive lock, for the goroutine or the hold that has it.
func (s *lock) turn() localTurn { return s.client.queue.Turn(s.key(), waitqueue.Exclusive) }

// leaveTurn gives the turn to the next goroutine of this process, if it goes with the hold.
func (h *hold) leaveTurn() {
	if h.hasTurn.Load() {
		h.lock.turn().Leave()
	}
}

// waitsLocally is told that a goroutine begins to wait for another one of this process, which
// has h or asks.
func (s *lock) waitsLocally(h *hold) {
	c := s.client
	if h != nil && h.stale() {
		c.life.Go(func() { h.recheck(c.life.Context()) })
	}
	c.events.observe(Event{Kind: EventWait, Name: s.name, Local: true})
}

// refuse is the error for a goroutine that only tries while another one has h or asks; nil if it
// is to look again.
func refuse(ctx context.Context, s *lock, h *hold) error {
	if h == nil {
		return &HeldError{Name: s.name}
	}
	if h.stale() {
		h.recheck(ctx)
		return nil
	}
	left := max(h.Deadline()-s.client.now(), 0).Round(time.Millisecond)
	return &HeldError{Name: s.name, HeldBy: h.attempt, Remaining: left}
}

// stale reports that the server's last word on the hold is so old that nobody should stand
// behind it without asking, and that nobody asks now.
func (h *hold) stale() bool {
	now, checked := h.lock.client.now(), h.checked.Load()
	last := max(time.Duration(h.told.Load()), time.Duration(checked))
	return now-last > leasetime.StaleAfter(h.lock.ttl) && h.checked.CompareAndSwap(checked, int64(now))
}

// recheck ends a hold that an operator has taken away, and its turn: to this process the
// lock is as free then as to others. It only looks, for the lease may be fixed.
func (h *hold) recheck(ctx context.Context) {
	c := h.lock.client
	if _, reason := h.readEviction(ctx); reason == renewer.Evicted && c.renewer.Remove(&h.Item) {
		h.markLost(reason)
	}
}

// handsOver reports whether the hold may go to one more goroutine of this process. It counts
// that one: its token is the next.
func (h *hold) handsOver(readersWait bool) bool {
	c, waiters := h.lock.client, int(h.waiting.Load())
	if readersWait {
		waiters++
	}
	passes, age := int(h.passes.Load()), c.now()-h.began
	if h.lock.noHandOver || c.life.IsClosing() || !h.mayHandOver() ||
		!waitqueue.MayHandOver(passes, age, waiters, c.cfg.MaxLocalHandOvers) {
		return false
	}
	h.passes.Add(1)
	return true
}

// discard gives a hold back that no lease has.
func (h *hold) discard() {
	c := h.lock.client
	if c.renewer.Remove(&h.Item) {
		_ = h.release(c.life.Context(), releaseMode{})
	}
}
