// Package convoy gathers requests that arrive while others are under way into
// one. A request that finds the way clear goes alone and at once. When several
// are out, those that come gather, leave together as soon as one is back, and
// from then on one batch is out at a time for as long as requests gather behind
// it. So few goroutines wait for nobody, and many share the price of a request.
package convoy

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// width is how many requests go alone before the next ones gather.
	width = 4
	// length is how many travel together: more would hold up the server's
	// other clients for longer than a script should.
	length = 32
	// patience is how long a request waits to be sent, though none of those
	// before it is back: a server that is silent must not delay it for more.
	patience = 10 * time.Millisecond
)

// Convoy is one way that requests of a kind take. Q is what a request says and
// A what it is answered.
type Convoy[Q, A any] struct {
	send func(batch []*Ride[Q, A]) // answers each seat; called in goroutines of its own
	run  func(f func()) bool       // starts f in a goroutine; false: it may not any more

	mu    sync.Mutex // held for moments only
	alone int        // requests under way by themselves
	out   int        // batches under way
	queue []*Ride[Q, A]
	timer *time.Timer
}

// Ride is one request's place.
type Ride[Q, A any] struct {
	Request Q
	Answer  chan A // gets one value: what send made of the request, the zero value if it was not sent
	state   atomic.Int32
}

const (
	queued = iota
	sent
	left
)

// New makes one. run starts a goroutine that the owner keeps account of.
func New[Q, A any](send func(batch []*Ride[Q, A]), run func(f func()) bool) *Convoy[Q, A] {
	return &Convoy[Q, A]{send: send, run: run}
}

// Enter asks to send a request. With nil the way is clear: the caller sends it
// by itself, and calls Exit when it is back. Else the request will be sent with
// others, and the seat is told.
func (c *Convoy[Q, A]) Enter(request Q) *Ride[Q, A] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out == 0 && c.alone < width && len(c.queue) == 0 {
		c.alone++
		return nil
	}
	s := &Ride[Q, A]{Request: request, Answer: make(chan A, 1)}
	c.queue = append(c.queue, s)
	if len(c.queue) == 1 {
		if c.timer == nil {
			c.timer = time.AfterFunc(patience, c.late)
		} else {
			c.timer.Reset(patience)
		}
	}
	return s
}

// Leave takes a request back. It reports false if it has been sent.
func (s *Ride[Q, A]) Leave() bool { return s.state.CompareAndSwap(queued, left) }

// Exit says that a request which was sent alone is back, or given up.
func (c *Convoy[Q, A]) Exit() {
	c.mu.Lock()
	c.alone--
	batch := c.next()
	c.mu.Unlock()
	c.depart(batch)
}

// late sends what has waited for too long.
func (c *Convoy[Q, A]) late() {
	c.mu.Lock()
	batch := c.take()
	c.mu.Unlock()
	c.depart(batch)
}

// next takes the requests that may go now. c.mu is held.
func (c *Convoy[Q, A]) next() []*Ride[Q, A] {
	if c.out > 0 {
		return nil
	}
	return c.take()
}

// take takes the first requests of the queue for a batch, which is out from
// now on. c.mu is held.
func (c *Convoy[Q, A]) take() []*Ride[Q, A] {
	n := min(len(c.queue), length)
	if n == 0 {
		return nil
	}
	batch := make([]*Ride[Q, A], 0, n)
	for _, s := range c.queue[:n] {
		if s.state.CompareAndSwap(queued, sent) {
			batch = append(batch, s)
		}
	}
	rest := copy(c.queue, c.queue[n:])
	clear(c.queue[rest:])
	c.queue = c.queue[:rest]
	if rest > 0 {
		c.timer.Reset(patience)
	} else {
		c.timer.Stop()
	}
	c.out++
	return batch
}

// depart sends a batch, and those that have gathered meanwhile.
func (c *Convoy[Q, A]) depart(batch []*Ride[Q, A]) {
	if batch != nil { // apart from what follows, for whose function batch is on the heap
		c.travel(batch)
	}
}

func (c *Convoy[Q, A]) travel(batch []*Ride[Q, A]) {
	work := func() {
		for batch != nil {
			if len(batch) > 0 {
				c.send(batch)
			}
			batch = c.back()
		}
	}
	if !c.run(work) {
		for batch != nil {
			for _, s := range batch {
				var unsent A
				s.Answer <- unsent
			}
			batch = c.back()
		}
	}
}

// back says that a batch is back, and answers the next one.
func (c *Convoy[Q, A]) back() []*Ride[Q, A] {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out--
	return c.next()
}
