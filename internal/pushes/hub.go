// Package pushes delivers pushes to the waiters of this process.
//
// A Hub has the subscriptions of a client: one channel for all locks of a server, or one
// for each lock in a Cluster. It knows which attempts wait. It does not guarantee that a
// push arrives, so every waiter also polls by a timer. When a broken subscription is
// restored, the hub tells its waiters to poll at once.
package pushes

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/label"
	"github.com/holdfast-go/holdfast/internal/lockorder"
)

// Listen subscribes to a channel, as Store.Listen does.
type Listen func(ctx context.Context, channel string, message func(string), resumed func()) (stop func(), err error)

// Grant is the content of a push: the lock is granted, or it was released and will be free
// later.
type Grant struct {
	Token   uint64
	Waiting int
	Now     uint64        // the server's time of the grant, in ms; 0 if the push has none
	Lease   time.Duration // the lease that was granted at Now
	Later   bool          // not granted yet
	Left    time.Duration // until it is free, if Later
}

// Read parses a push. number is the number of the attempt that it is for.
type Read func(payload string) (number uint64, g Grant, ok bool)

// Hub delivers pushes to waiters.
type Hub struct {
	listen      Listen
	read        Read
	stray       func(number uint64)
	timeout     time.Duration
	idleTimeout time.Duration
	ctx         context.Context // of subscriptions that are being made
	end         context.CancelFunc
	work        sync.WaitGroup // subscriptions being made or ended

	active atomic.Bool // there was a subscription, perhaps one that failed

	// mu guards the fields below. No I/O and no callback happens under it.
	mu      lockorder.Mutex[Hub]
	subs    map[string]*subscription
	waiters map[uint64]*Waiter
	stopped bool
}

type subscription struct {
	channel string
	made    chan struct{} // closed when stop and err are set
	stop    func()
	err     error

	// Guarded by Hub.mu.
	users int           // waiters, and callers of Subscribe before the confirmation
	idle  *time.Timer   // ends the subscription; nil while it has users
	told  []func(error) // called when the subscription is made, or has failed
}

// Waiter is one attempt that waits.
type Waiter struct {
	Granted chan Grant         // receives the push, at most one
	Resumed chan struct{}      // receives when it has a subscription, anew or again: the waiter should poll
	FreeIn  chan time.Duration // receives how long the lock is still held, when that has changed
	number  uint64
	channel string
	sub     *subscription // nil: no push can reach it
}

// New makes a hub. timeout limits how long one subscription may take to be made. The hub
// ends a subscription that has had no waiter for idleTimeout. If idleTimeout is 0, a
// subscription lasts until Stop. The hub calls stray for a push whose attempt does not
// wait; stray must return at once.
func New(listen Listen, read Read, stray func(number uint64), timeout, idleTimeout time.Duration) *Hub {
	h := &Hub{
		listen: listen, read: read, stray: stray, timeout: timeout, idleTimeout: idleTimeout,
		subs: make(map[string]*subscription), waiters: make(map[uint64]*Waiter),
	}
	h.ctx, h.end = context.WithCancel(context.Background())
	return h
}

// Active reports whether a goroutine of this process has ever asked for a subscription. If
// not, there is nothing to [Hub.Await].
func (h *Hub) Active() bool { return h.active.Load() }

// Awaited reports whether an attempt waits for a push.
func (h *Hub) Awaited() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.waiters) > 0
}

// Await registers a waiter if the channel's subscription is confirmed; otherwise it returns
// nil. Register the waiter before you send the request that may queue it: a push can
// overtake the answer.
func (h *Hub) Await(channel string, number uint64) *Waiter {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.subs[channel]
	if s == nil || h.stopped {
		return nil
	}
	select {
	case <-s.made:
	default:
		return nil
	}
	if s.err != nil {
		return nil
	}
	h.use(s)
	return h.enlist(channel, s, number)
}

// Subscribe is Await for a subscription that may not exist yet: it returns once the
// subscription is confirmed. If many callers ask at once, they share one subscription. The
// ctx of a caller limits only the wait of that caller. After an error the next caller tries
// again.
func (h *Hub) Subscribe(ctx context.Context, channel string, number uint64) (*Waiter, error) {
	s, err := h.subscribed(ctx, channel)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.enlist(channel, s, number), nil
}

// Prepare starts to make the channel's subscription and does not wait. It calls told with
// the result, unless the hub is stopped.
func (h *Hub) Prepare(channel string, told func(error)) {
	h.mu.Lock()
	if h.stopped {
		h.mu.Unlock()
		return
	}
	s := h.subscription(channel)
	select {
	case <-s.made:
		h.mu.Unlock()
		told(nil)
	default:
		s.told = append(s.told, told)
		h.mu.Unlock()
	}
}

// subscribed returns the channel's subscription once it is confirmed. It counts the caller
// as a user of it.
func (h *Hub) subscribed(ctx context.Context, channel string) (*subscription, error) {
	h.mu.Lock()
	if h.stopped {
		h.mu.Unlock()
		return nil, context.Canceled
	}
	s := h.subscription(channel)
	h.use(s)
	h.mu.Unlock()
	var err error
	select {
	case <-s.made:
		err = s.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		h.mu.Lock()
		h.unuse(s)
		h.mu.Unlock()
		return nil, err
	}
	return s, nil
}

var subscribeLabel = label.New("subscription")

// subscription returns the channel's subscription, and starts to make it if there is none.
// mu is held.
func (h *Hub) subscription(channel string) *subscription {
	s := h.subs[channel]
	if s == nil {
		s = &subscription{channel: channel, made: make(chan struct{})}
		h.subs[channel] = s
		h.active.Store(true)
		h.work.Add(1)
		go func() {
			subscribeLabel.Set()
			h.subscribe(s)
		}()
	}
	return s
}

// Count returns how many waiters there are, and how many subscriptions stand.
func (h *Hub) Count() (waiters, subscriptions int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.subs {
		select {
		case <-s.made:
			if s.err == nil {
				subscriptions++
			}
		default:
		}
	}
	return len(h.waiters), subscriptions
}

// Unsubscribed registers a waiter that does not wait for a subscription. It must poll until
// the subscription is confirmed; then its Resumed receives.
func (h *Hub) Unsubscribed(channel string, number uint64) *Waiter {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.subs[channel]
	if s != nil {
		select {
		case <-s.made: // adopt ran before this waiter was registered
			h.use(s)
		default:
			s = nil
		}
	}
	return h.enlist(channel, s, number)
}

// Reaches reports whether w has a subscription, so that a push reaches it.
func (h *Hub) Reaches(w *Waiter) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return w.sub != nil
}

// Replace registers a waiter and forgets w. The new waiter has the subscription of w.
func (h *Hub) Replace(w *Waiter, number uint64) *Waiter {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiters, w.number)
	return h.enlist(w.channel, w.sub, number)
}

// Forget removes a waiter. A later push for it is a stray.
func (h *Hub) Forget(w *Waiter) {
	h.mu.Lock()
	delete(h.waiters, w.number)
	if w.sub != nil {
		h.unuse(w.sub)
	}
	h.mu.Unlock()
}

// enlist registers a waiter, which the caller has counted as a user of s. mu is held.
func (h *Hub) enlist(channel string, s *subscription, number uint64) *Waiter {
	w := &Waiter{
		Granted: make(chan Grant, 1), Resumed: make(chan struct{}, 1), FreeIn: make(chan time.Duration, 1),
		number: number, channel: channel, sub: s,
	}
	h.waiters[number] = w
	return w
}

// use counts one more user. mu is held.
func (h *Hub) use(s *subscription) {
	s.users++
	if s.idle != nil {
		s.idle.Stop()
		s.idle = nil
	}
}

// unuse counts one user less. A subscription without users is kept for idleTimeout.
// Otherwise a contended lock would make a new subscription for each wait. mu is held.
func (h *Hub) unuse(s *subscription) {
	s.users--
	if s.users > 0 || h.idleTimeout == 0 || h.stopped || h.subs[s.channel] != s {
		return
	}
	s.idle = time.AfterFunc(h.idleTimeout, func() { h.retire(s) })
}

// retire ends a subscription that has had no user for idleTimeout.
func (h *Hub) retire(s *subscription) {
	h.mu.Lock()
	select {
	case <-s.made:
	default:
		s.idle = nil // it is being made; subscribe sets the timer again
		h.mu.Unlock()
		return
	}
	if s.users > 0 || h.stopped || h.subs[s.channel] != s {
		h.mu.Unlock()
		return
	}
	delete(h.subs, s.channel)
	h.work.Add(1)
	h.mu.Unlock()
	defer h.work.Done()
	s.stop()
}

func (h *Hub) subscribe(s *subscription) {
	defer h.work.Done()
	ctx, cancel := context.WithTimeout(h.ctx, h.timeout)
	defer cancel()
	stop, err := h.listen(ctx, s.channel, h.message, func() { h.resumed(s) })
	h.mu.Lock()
	s.stop, s.err = stop, err
	if err != nil {
		delete(h.subs, s.channel)
	} else {
		h.adopt(s)
	}
	close(s.made)
	told := s.told
	if h.stopped {
		told = nil
	}
	h.mu.Unlock()
	for _, f := range told {
		f(err)
	}
}

// adopt gives a new subscription to the waiters that have none. Pushes could not reach them
// before, so they poll once more. mu is held.
func (h *Hub) adopt(s *subscription) {
	h.use(s)
	for _, w := range h.waiters {
		if w.sub == nil && w.channel == s.channel {
			w.sub = s
			s.users++
			w.tellResumed()
		}
	}
	h.unuse(s)
}

// Drain drops what the waiter was told and has not taken, but for a grant. The waiter calls
// it before it polls: the answer says more.
func (w *Waiter) Drain() {
	select {
	case <-w.Resumed:
	default:
	}
	select {
	case <-w.FreeIn:
	default:
	}
}

// tellResumed tells a waiter that it has a subscription, so that it polls.
func (w *Waiter) tellResumed() {
	select {
	case w.Resumed <- struct{}{}:
	default: // told already
	}
}

// Stop ends all subscriptions. It returns when no goroutine of the hub runs.
func (h *Hub) Stop() {
	h.mu.Lock()
	h.stopped = true
	for _, s := range h.subs {
		if s.idle != nil {
			s.idle.Stop()
		}
	}
	h.mu.Unlock()
	h.end()
	h.work.Wait()
	h.mu.Lock()
	subs := h.subs
	h.subs = make(map[string]*subscription)
	h.mu.Unlock()
	// All at the same time: if a server is silent, Stop waits for one timeout and not for many.
	var stopping sync.WaitGroup
	for _, s := range subs {
		stopping.Go(s.stop)
	}
	stopping.Wait()
}

func (h *Hub) message(payload string) {
	number, g, ok := h.read(payload)
	if !ok {
		return
	}
	h.mu.Lock()
	w := h.waiters[number]
	h.mu.Unlock()
	if w == nil {
		h.stray(number) // the attempt gave up, or has its grant already
		return
	}
	if g.Later {
		select {
		case w.FreeIn <- g.Left:
		default: // the waiter polls anyway after the first of them
		}
		return
	}
	select {
	case w.Granted <- g:
	default: // a repeated push
	}
}

func (h *Hub) resumed(s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.waiters {
		if w.sub != s {
			continue
		}
		w.tellResumed()
	}
}
