// Package batch sends requests that arrive while others are under way as one.
//
// A request that finds nothing under way goes alone and at once. When several are
// out, those that arrive queue, leave together as soon as one is back, and from
// then on one batch is out at a time for as long as requests queue behind it. So
// few goroutines wait for nobody, and many share the price of a request.
package batch

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxAlone is how many requests go alone before the next ones queue.
	maxAlone = 4
	// maxBatch is how many travel together: more would hold up the server's
	// other clients for longer than a script should.
	maxBatch = 32
	// maxDelay is how long a request waits to be sent, though none of those
	// before it is back: a server that is silent must not delay it for more.
	maxDelay = 10 * time.Millisecond
)

// Batcher is one way that requests of a kind take. Q is what a request says and
// A what it is answered.
type Batcher[Q, A any] struct {
	send func(batch []*Item[Q, A]) // answers each item; called in goroutines of its own
	run  func(f func()) bool       // starts f in a goroutine; false: it may not any more

	mu    sync.Mutex // held for moments only
	alone int        // requests under way by themselves
	out   int        // batches under way
	queue []*Item[Q, A]
	timer *time.Timer
}

// Item is one request's place.
type Item[Q, A any] struct {
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
func New[Q, A any](send func(batch []*Item[Q, A]), run func(f func()) bool) *Batcher[Q, A] {
	return &Batcher[Q, A]{send: send, run: run}
}

// Enter asks to send a request. With nil the way is clear: the caller sends it
// by itself, and calls Exit when it is back. Else the request will be sent with
// others, and its Answer is told.
func (c *Batcher[Q, A]) Enter(request Q) *Item[Q, A] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out == 0 && c.alone < maxAlone && len(c.queue) == 0 {
		c.alone++
		return nil
	}
	s := &Item[Q, A]{Request: request, Answer: make(chan A, 1)}
	c.queue = append(c.queue, s)
	if len(c.queue) == 1 {
		if c.timer == nil {
			c.timer = time.AfterFunc(maxDelay, c.overdue)
		} else {
			c.timer.Reset(maxDelay)
		}
	}
	return s
}

// Leave takes a request back. It reports false if it has been sent.
func (s *Item[Q, A]) Leave() bool { return s.state.CompareAndSwap(queued, left) }

// Exit says that a request which was sent alone is back, or given up.
func (c *Batcher[Q, A]) Exit() {
	c.mu.Lock()
	c.alone--
	if len(c.queue) == 0 {
		c.mu.Unlock()
		return
	}
	batch := c.next()
	c.mu.Unlock()
	c.start(batch)
}

// overdue sends what has waited for too long.
func (c *Batcher[Q, A]) overdue() {
	c.mu.Lock()
	batch := c.take()
	c.mu.Unlock()
	c.start(batch)
}

// next takes the requests that may go now. c.mu is held.
func (c *Batcher[Q, A]) next() []*Item[Q, A] {
	if c.out > 0 {
		return nil
	}
	return c.take()
}

// take takes the first requests of the queue for a batch, which is out from
// now on. c.mu is held.
func (c *Batcher[Q, A]) take() []*Item[Q, A] {
	n := min(len(c.queue), maxBatch)
	if n == 0 {
		return nil
	}
	batch := make([]*Item[Q, A], 0, n)
	for _, s := range c.queue[:n] {
		if s.state.CompareAndSwap(queued, sent) {
			batch = append(batch, s)
		}
	}
	rest := copy(c.queue, c.queue[n:])
	clear(c.queue[rest:])
	c.queue = c.queue[:rest]
	if rest > 0 {
		c.timer.Reset(maxDelay)
	} else {
		c.timer.Stop()
	}
	c.out++
	return batch
}

// start sends a batch, and those that have queued meanwhile.
func (c *Batcher[Q, A]) start(batch []*Item[Q, A]) {
	if batch != nil { // apart from what follows, for whose function batch is on the heap
		c.sendAll(batch)
	}
}

func (c *Batcher[Q, A]) sendAll(batch []*Item[Q, A]) {
	work := func() {
		for batch != nil {
			if len(batch) > 0 {
				c.send(batch)
			}
			batch = c.finished()
		}
	}
	if !c.run(work) {
		for batch != nil {
			for _, s := range batch {
				var unsent A
				s.Answer <- unsent
			}
			batch = c.finished()
		}
	}
}

// finished says that a batch is back, and answers the next one.
func (c *Batcher[Q, A]) finished() []*Item[Q, A] {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out--
	return c.next()
}
