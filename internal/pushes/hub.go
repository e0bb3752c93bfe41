// Package pushes brings pushed grants to those who wait for them.
//
// A Hub keeps the client's subscriptions, one channel for all locks of a
// server or one for each lock of a Cluster, and knows who waits. It promises
// nothing about delivery: a push may be lost, so every waiter has a timer of its
// own behind it; what the hub adds is a word to look again whenever a
// subscription was broken and stands again.
package pushes

import (
	"context"
	"sync"
	"time"
)

// Listen subscribes to a channel, as Store.Listen does.
type Listen func(ctx context.Context, channel string, message func(string), resumed func()) (stop func(), err error)

// Grant is what a push says: that the lock is granted, or that it was given up
// and will be free later.
type Grant struct {
	Token   uint64
	Waiting int
	Now     uint64        // the server's time of the grant, in ms; 0 if it does not say so
	Lease   time.Duration // what was granted at Now
	Later   bool          // not granted yet
	Left    time.Duration // until it is free, if Later
}

// Read takes a push apart; number is that of the attempt it is for.
type Read func(payload string) (number uint64, g Grant, ok bool)

// Hub delivers pushes to waiters.
type Hub struct {
	listen      Listen
	read        Read
	stray       func(number uint64)
	timeout     time.Duration
	idleTimeout time.Duration
	ctx         context.Context // ends the making of subscriptions
	end         context.CancelFunc
	work        sync.WaitGroup // subscriptions being made or ended

	// mu guards the fields below. No I/O and no callback happens under it.
	mu      sync.Mutex
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
	users int           // waiters, and those who wait for the confirmation
	idle  *time.Timer   // ends the subscription; nil while it has users
	told  []func(error) // called when it is made, or could not be made
}

// Waiter is one attempt that waits.
type Waiter struct {
	Granted chan Grant         // receives the push, at most one
	Recheck chan struct{}      // receives when the waiter should look by itself
	FreeAt  chan time.Duration // receives for how long the lock still stays taken, when that changed
	number  uint64
	channel string
	sub     *subscription // nil: no push can reach it
}

// New makes a hub. timeout bounds the making of one subscription. A
// subscription that nobody has used for idleTimeout is ended; with an idleTimeout of 0
// it lasts until Stop.
// stray is told of pushes for attempts that do not wait, and must return at once.
func New(listen Listen, read Read, stray func(number uint64), timeout, idleTimeout time.Duration) *Hub {
	h := &Hub{
		listen: listen, read: read, stray: stray, timeout: timeout, idleTimeout: idleTimeout,
		subs: make(map[string]*subscription), waiters: make(map[uint64]*Waiter),
	}
	h.ctx, h.end = context.WithCancel(context.Background())
	return h
}

// Await registers a waiter if the channel's subscription has been confirmed;
// else it returns nil. The waiter must stand before the request is sent that
// may queue: the push can overtake the answer.
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

// Subscribe is Await for a subscription that may not stand yet: it returns
// once that is confirmed. Many may ask at once: one subscription is made, and
// it outlives the one who asked first, whose ctx bounds only its own wait.
// After an error the next caller tries anew.
func (h *Hub) Subscribe(ctx context.Context, channel string, number uint64) (*Waiter, error) {
	s, err := h.subscribed(ctx, channel)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.enlist(channel, s, number), nil
}

// Prepare has the channel's subscription made, and waits for nothing. told is called
// with what became of it, unless the hub is stopped.
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

// subscribed returns the channel's subscription once it is confirmed, with the
// caller counted among its users.
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
		h.leave(s)
		h.mu.Unlock()
		return nil, err
	}
	return s, nil
}

// subscription is the channel's, which is being made if there was none. mu is held.
func (h *Hub) subscription(channel string) *subscription {
	s := h.subs[channel]
	if s == nil {
		s = &subscription{channel: channel, made: make(chan struct{})}
		h.subs[channel] = s
		h.work.Add(1)
		go h.subscribe(s)
	}
	return s
}

// Unsubscribed registers a waiter that does not wait for a subscription. It has to look
// by itself until one stands; then its Recheck receives.
func (h *Hub) Unsubscribed(channel string, number uint64) *Waiter {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.subs[channel]
	if s != nil {
		select {
		case <-s.made: // since the caller gave up: adopt came too early for this waiter
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

// Replace registers a waiter in the place of w, which is forgotten.
func (h *Hub) Replace(w *Waiter, number uint64) *Waiter {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiters, w.number)
	return h.enlist(w.channel, w.sub, number)
}

// Forget ends the waiting. A push that comes later finds nobody.
func (h *Hub) Forget(w *Waiter) {
	h.mu.Lock()
	delete(h.waiters, w.number)
	if w.sub != nil {
		h.leave(w.sub)
	}
	h.mu.Unlock()
}

// enlist makes a waiter of one who is counted among s's users. mu is held.
func (h *Hub) enlist(channel string, s *subscription, number uint64) *Waiter {
	w := &Waiter{
		Granted: make(chan Grant, 1), Recheck: make(chan struct{}, 1), FreeAt: make(chan time.Duration, 1),
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

// leave counts one user less. A subscription that nobody uses lingers for a
// while: a lock that is fought over would make it anew each time. mu is held.
func (h *Hub) leave(s *subscription) {
	s.users--
	if s.users > 0 || h.idleTimeout == 0 || h.stopped || h.subs[s.channel] != s {
		return
	}
	s.idle = time.AfterFunc(h.idleTimeout, func() { h.retire(s) })
}

// retire ends a subscription that nobody has used for a while.
func (h *Hub) retire(s *subscription) {
	h.mu.Lock()
	select {
	case <-s.made:
	default:
		s.idle = nil // whoever makes it looks again
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

// adopt gives a new subscription to those who waited without one. Before it stood,
// a push could not reach them: they look once more. mu is held.
func (h *Hub) adopt(s *subscription) {
	h.use(s)
	for _, w := range h.waiters {
		if w.sub == nil && w.channel == s.channel {
			w.sub = s
			s.users++
			w.recheck()
		}
	}
	h.leave(s)
}

// recheck tells a waiter to look by itself.
func (w *Waiter) recheck() {
	select {
	case w.Recheck <- struct{}{}:
	default: // told already
	}
}

// Stop ends all subscriptions and returns when nothing of the hub runs any more.
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
	// At one time: a server that is silent is waited for once.
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
		h.stray(number) // it gave up, or has its grant already
		return
	}
	if g.Later {
		select {
		case w.FreeAt <- g.Left:
		default: // it looks anyway when it has read the first
		}
		return
	}
	select {
	case w.Granted <- g:
	default: // said twice
	}
}

func (h *Hub) resumed(s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.waiters {
		if w.sub != s {
			continue
		}
		w.recheck()
	}
}
