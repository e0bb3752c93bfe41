// Package batch sends requests that arrive while others are under way as one.
//
// If few requests are under way, the next one is sent alone and at once. Otherwise it
// queues. The queued requests are sent in one batch as soon as an answer comes. From then
// on batches follow each other, until no request is queued. If half a batch is queued while one
// is under way, it is sent too: so the server works on one while the client works on the other.
// A few goroutines never wait for each other, and many share the cost of a request.
package batch

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockorder"
	"github.com/holdfast-go/holdfast/internal/yield"
)

const (
	// maxAlone is how many requests go alone before the next ones queue.
	maxAlone = 4
	// maxBatch is the most requests in a batch. A larger one would delay the other
	// clients of the server for too long.
	maxBatch = 32
	// maxOut is how many batches are under way at the same time, at most. The second one must
	// have enough requests: two small ones cost more than one that is as large as both.
	maxOut = 2
	enough = maxBatch / 2
	// maxDelay is how long a request is queued while no answer comes. A silent server
	// must not delay it for longer.
	maxDelay = 10 * time.Millisecond
)

// Batcher sends requests of one kind. Q is the type of a request and A of its answer.
type Batcher[Q, A any] struct {
	send func(batch []*Item[Q, A]) // answers each item; called in goroutines of its own
	run  func(f func()) bool       // starts f in a goroutine; false: the owner has ended

	mu    lockorder.Mutex[Batcher[Q, A]] // guards the fields below; nothing is sent while it is held
	alone int                            // requests that are under way alone
	out   int                            // batches under way
	queue []*Item[Q, A]
	timer *time.Timer

	free sync.Pool // items whose answers were received
}

// Item is one request that is queued or in a batch.
type Item[Q, A any] struct {
	Request Q
	Answer  chan A // receives one value: the answer, or the zero value if the request was not sent
	state   atomic.Int32
}

const (
	queued = iota
	sent
	withdrawn
)

// New makes one. run starts a goroutine for which the owner waits at its end.
func New[Q, A any](send func(batch []*Item[Q, A]), run func(f func()) bool) *Batcher[Q, A] {
	return &Batcher[Q, A]{send: send, run: run}
}

// Offer asks to send a request. If it returns nil, the caller sends the request itself and
// calls DoneAlone after the answer. Otherwise the request is queued for a batch, and Answer
// receives its answer.
func (b *Batcher[Q, A]) Offer(request Q) *Item[Q, A] {
	i, batch := b.offer(request)
	b.start(batch)
	return i
}

// offer does what Offer does. The caller sends the batch that it returns.
func (b *Batcher[Q, A]) offer(request Q) (i *Item[Q, A], batch []*Item[Q, A]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.out == 0 && b.alone < maxAlone && len(b.queue) == 0 {
		b.alone++
		return nil, nil
	}
	i, _ = b.free.Get().(*Item[Q, A])
	if i == nil {
		i = &Item[Q, A]{Answer: make(chan A, 1)}
	}
	i.Request = request
	b.queue = append(b.queue, i)
	if len(b.queue) == 1 {
		if b.timer == nil {
			b.timer = time.AfterFunc(maxDelay, b.overdue)
		} else {
			b.timer.Reset(maxDelay)
		}
	}
	if b.out > 0 {
		batch = b.next()
	}
	return i, batch
}

// Await returns the answer of a request, whose item then serves another one. If done is closed
// before, answered is false, and the item remains the caller's. done may be nil.
func (b *Batcher[Q, A]) Await(i *Item[Q, A], done <-chan struct{}) (answer A, answered bool) {
	if done == nil {
		answer = <-i.Answer // costs half of a select
	} else if answer, answered = yield.Await(i.Answer, done, nil); !answered {
		return answer, false
	}
	i.state.Store(queued)
	b.free.Put(i)
	return answer, true
}

// Withdraw takes a request out of the queue. It returns false if the request has been sent.
func (i *Item[Q, A]) Withdraw() bool { return i.state.CompareAndSwap(queued, withdrawn) }

// DoneAlone reports that a request that was sent alone has its answer, or was given up.
func (b *Batcher[Q, A]) DoneAlone() {
	b.mu.Lock()
	b.alone--
	if len(b.queue) == 0 {
		b.mu.Unlock()
		return
	}
	batch := b.next()
	b.mu.Unlock()
	b.start(batch)
}

// overdue sends the requests that have been queued for maxDelay.
func (b *Batcher[Q, A]) overdue() {
	b.mu.Lock()
	batch := b.take()
	b.mu.Unlock()
	b.start(batch)
}

// next takes the requests that may be sent now. b.mu is held.
func (b *Batcher[Q, A]) next() []*Item[Q, A] {
	if b.out >= maxOut || b.out > 0 && len(b.queue) < enough {
		return nil
	}
	return b.take()
}

// take makes a batch of the first requests of the queue. The batch counts as under way from
// now on. b.mu is held.
func (b *Batcher[Q, A]) take() []*Item[Q, A] {
	n := min(len(b.queue), maxBatch)
	if n == 0 {
		return nil
	}
	batch := make([]*Item[Q, A], 0, n)
	for _, i := range b.queue[:n] {
		if i.state.CompareAndSwap(queued, sent) {
			batch = append(batch, i)
		}
	}
	rest := copy(b.queue, b.queue[n:])
	clear(b.queue[rest:])
	b.queue = b.queue[:rest]
	if rest > 0 {
		b.timer.Reset(maxDelay)
	} else {
		b.timer.Stop()
	}
	b.out++
	return batch
}

// start sends a batch, and then the requests that have queued meanwhile.
func (b *Batcher[Q, A]) start(batch []*Item[Q, A]) {
	if batch != nil { // sendAll moves batch to the heap, so this function does not contain it
		b.sendAll(batch)
	}
}

func (b *Batcher[Q, A]) sendAll(batch []*Item[Q, A]) {
	work := func() {
		for batch != nil {
			if len(batch) > 0 {
				b.send(batch)
				runtime.Gosched() // goroutines that have their answers queue again, so the next batch is larger
			}
			batch = b.finished()
		}
	}
	if !b.run(work) {
		for batch != nil {
			for _, i := range batch {
				var unsent A
				i.Answer <- unsent
			}
			batch = b.finished()
		}
	}
}

// finished notes that a batch has its answer, and returns the next one.
func (b *Batcher[Q, A]) finished() []*Item[Q, A] {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out--
	return b.next()
}
