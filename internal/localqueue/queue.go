// Package localqueue is the local queue: it orders the goroutines of one process that want the same lock.
// The wait queue of a lock is another one, in its record on the server.
//
// One of them has the turn: the right to ask the server about the lock. The others wait in
// order of arrival. They get either the turn or the hold of the goroutine with the turn. While
// the mutex of a shard is locked, nothing blocks and nothing is sent.
package localqueue

import (
	"context"
	"hash/maphash"
	"sync"

	"github.com/holdfast-go/holdfast/internal/lockorder"
)

// Class says how a goroutine wants a lock. Each class of a lock has a turn of its own.
type Class uint8

// The classes.
const (
	Exclusive Class = iota // the turn goes with the hold, from goroutine to goroutine
	Shared                 // readers: one asks, and the others join the hold that it gets
	Permits                // each has a hold of its own, and one at a time waits for it
	classes
)

// Rules are what the queue does not know itself. H is a hold, and W is what a goroutine wants.
// New takes the rules once, so that a call allocates nothing for them. The rules of the first
// group are called while the mutex of a shard is locked, and must not call the queue.
type Rules[H comparable, W any] struct {
	// Join decides what a reader does. h is the hold that the readers of this process
	// share, or the zero value. Share and Check are for a hold that the reader can use.
	Join func(h H, want W, writerHere bool) Decision
	// Joinable reports whether readers may share h from now on.
	Joinable func(h H) bool
	// Reserve reserves h for one more reader. It returns false if h cannot be shared now.
	Reserve func(h H) bool
	// HandOver reports whether h may go to one more goroutine, and counts that goroutine.
	// readersWait says whether readers of this process wait for the lock at the server.
	HandOver func(h H, readersWait bool) bool

	// Unreserve ends a reservation. It returns before a server has answered.
	Unreserve func(h H)
	// Release releases a hold that no goroutine wants any more, and calls then after that. The goroutine
	// that gives up does not wait: Release returns before a server has answered.
	Release func(h H, then func())
	// OnWait is called when a goroutine begins to wait. h is the hold of the goroutine with
	// the turn, or the zero value.
	OnWait func(ctx context.Context, want W, h H)
	// Refuse is the error for a goroutine that only tries. h is the hold of the goroutine with the turn, or the
	// zero value for a reader. nil: the try is repeated.
	Refuse func(ctx context.Context, want W, h H) error
	// Closed is the error for a goroutine that waits when the queue closes.
	Closed error
}

// Queue orders the goroutines of one process, by lock. It has no goroutine of its own: its
// callers wait in TakeTurn. It is safe for use by many goroutines.
type Queue[H comparable, W any] struct {
	rules  Rules[H, W]
	seed   maphash.Seed
	shards [64]shard[H]
	pool   sync.Pool // of pending calls: those that have read their answer
}

type shard[H comparable] struct {
	mu          lockorder.Mutex[shard[H]]
	closed      bool
	entries     [classes]map[string]*entry[H]
	uncontended map[string]H // the holds with an exclusive turn that nobody waits for: they have no entry
	spare       *entry[H]    // one that is not in use; nil or one
}

// entry is one class of one lock. There is an entry while a goroutine has the turn, or while
// there is a hold that readers may join. A process may hold a million mutexes that nobody waits for, so
// each of those is in uncontended and needs no entry.
type entry[H comparable] struct {
	queue   list[H] // goroutines that wait for the turn
	tries   list[H] // goroutines that only try: they wait for the answer to the one with the turn
	hold    H       // the hold of the goroutine with the turn, or the hold that readers may join
	taken   bool    // a goroutine has the turn
	waits   bool    // the goroutine with the turn waits at the server, or for the server
	refusal error   // what the server told that goroutine, see Waiting
}

// New makes a queue.
func New[H comparable, W any](rules Rules[H, W]) *Queue[H, W] {
	q := &Queue[H, W]{rules: rules, seed: maphash.MakeSeed()}
	for i := range q.shards {
		q.shards[i].uncontended = map[string]H{}
	}
	return q
}

// Close ends all waiting, now and later. A channel that every pending call listened to would cost a
// twentieth of a hand-over.
func (q *Queue[H, W]) Close() {
	var none H
	for i := range q.shards {
		s := &q.shards[i]
		s.mu.Lock()
		s.closed = true
		for _, entries := range s.entries {
			for _, e := range entries {
				e.queue.giveAll(none, q.rules.Closed)
				e.tries.giveAll(none, q.rules.Closed)
			}
		}
		s.mu.Unlock()
	}
}

// lock locks the shard of a key.
func (q *Queue[H, W]) lock(key string) *shard[H] {
	s := &q.shards[maphash.String(q.seed, key)%uint64(len(q.shards))]
	s.mu.Lock()
	return s
}

// entry returns the entry of a key, and makes it if there is none.
func (s *shard[H]) entry(c Class, key string) *entry[H] {
	if e := s.entries[c][key]; e != nil {
		return e
	}
	if s.entries[c] == nil {
		s.entries[c] = map[string]*entry[H]{}
	}
	e := s.spare
	if s.spare = nil; e == nil {
		e = new(entry[H])
	}
	if h, found := s.uncontended[key]; found && c == Exclusive {
		e.hold, e.taken = h, true
		delete(s.uncontended, key)
	}
	s.entries[c][key] = e
	return e
}

// busy reports whether a goroutine has the turn.
func (s *shard[H]) busy(c Class, key string) bool {
	if e := s.entries[c][key]; e != nil {
		return e.taken
	}
	_, found := s.uncontended[key]
	return found && c == Exclusive
}

// drop forgets an entry that is idle.
func (s *shard[H]) drop(c Class, key string, e *entry[H]) {
	delete(s.entries[c], key)
	s.spare = e
}

// idle reports whether an entry is no longer needed.
func (e *entry[H]) idle() bool {
	var none H
	return !e.taken && e.hold == none
}

// passOn gives the turn to the next goroutine, and forgets the entry if nobody needs it.
// Goroutines that only try get err; if it is nil, they check again.
func (s *shard[H]) passOn(c Class, key string, err error) {
	var none H
	e := s.entries[c][key]
	if e == nil {
		delete(s.uncontended, key)
		return
	}
	if c == Exclusive {
		e.hold = none
	}
	e.tries.giveAll(none, err)
	if e.taken = e.queue.last != nil; e.taken {
		e.queue.give(none, nil)
	}
	e.waits, e.refusal = false, nil
	if e.idle() {
		s.drop(c, key, e)
	}
}

// Turn is the result of TakeTurn. Only the goroutine that has the turn, or the hold that goes with
// the turn, may call its methods.
type Turn[H comparable, W any] struct {
	Hold   H        // it came with the turn, or is reserved for a reader, or a reader must check it
	Joined bool     // Hold is reserved for the reader, which does not have the turn
	Do     Decision // what a reader does with its turn
	Waited bool     // the caller has waited for other goroutines of this process

	queue *Queue[H, W]
	key   string
	class Class
}

// TakeTurn waits until the caller has the turn or, if the caller is a reader, a hold to join. If
// try is set, TakeTurn does not wait for the turn, but until the server answers the goroutine with the
// turn: before that, nobody knows whether the lock is held. If the server is silent, a reader gets no
// turn (None) and asks the server itself. After an error the caller has nothing.
func (q *Queue[H, W]) TakeTurn(ctx context.Context, key string, c Class, want W, try bool) (Turn[H, W], error) {
	t := Turn[H, W]{queue: q, key: key, class: c}
	if c == Shared {
		return t.takeShared(ctx, want, try)
	}
	s := q.lock(key)
	e := s.entry(c, key)
	if !e.taken {
		e.taken = true
		s.mu.Unlock()
		return t, nil
	}
	if try {
		if err := t.try(ctx, s, e, want); err != nil {
			return Turn[H, W]{}, err
		}
		return q.TakeTurn(ctx, key, c, want, try)
	}
	h := e.hold
	p := e.queue.enqueue(q.pendingCall())
	q.begin(s, &e.queue)
	q.rules.OnWait(ctx, want, h)
	if err := p.await(ctx); err != nil {
		t.giveUp(&e.queue, p)
		return Turn[H, W]{}, err
	}
	err := p.err
	t.Hold, t.Waited = p.hold, true
	*p = pendingCall[H]{ready: p.ready}
	q.pool.Put(p)
	if err != nil {
		return Turn[H, W]{}, err
	}
	return t, nil
}

// try returns the error of a goroutine that only tries while another one has the turn, or nil if it must
// check again. s.mu is locked, and try unlocks it.
func (t Turn[H, W]) try(ctx context.Context, s *shard[H], e *entry[H], want W) error {
	var none H
	q, h, refusal := t.queue, e.hold, e.refusal
	switch {
	case h != none:
		s.mu.Unlock()
		return q.rules.Refuse(ctx, want, h)
	case e.waits:
		s.mu.Unlock()
		return refusal
	}
	p := e.tries.enqueue(newPendingCall[H]())
	q.begin(s, &e.tries)
	return t.awaitAnswer(ctx, e, p)
}

// pendingCall returns one that nobody uses. Where goroutines pass a lock all the time, it is one
// that has got its turn just before.
func (q *Queue[H, W]) pendingCall() *pendingCall[H] {
	if p, ok := q.pool.Get().(*pendingCall[H]); ok {
		return p
	}
	return newPendingCall[H]()
}

// begin unlocks the shard of a list that has one more call. If the queue is closed, the call has
// its answer.
func (q *Queue[H, W]) begin(s *shard[H], l *list[H]) {
	var none H
	if s.closed {
		l.giveAll(none, q.rules.Closed)
	}
	s.mu.Unlock()
}

// giveUp removes a call from its list. If the turn came at the same time, it goes to the next
// goroutine; otherwise all goroutines behind it would hang.
func (t Turn[H, W]) giveUp(l *list[H], p *pendingCall[H]) {
	var none H
	q := t.queue
	s := q.lock(t.key)
	left := l.remove(p)
	s.mu.Unlock()
	switch {
	case left, p.err != nil, p.hold != none && t.class != Shared && t.HandOver(p.hold):
	case p.hold != none && t.class == Shared:
		q.rules.Unreserve(p.hold)
	case p.hold != none:
		q.rules.Release(p.hold, t.PassOn)
	default:
		t.PassOn()
	}
}

// Turn returns the turn that the caller has, without the results of TakeTurn.
func (q *Queue[H, W]) Turn(key string, c Class) Turn[H, W] {
	return Turn[H, W]{queue: q, key: key, class: c}
}

// Busy reports whether a goroutine of this process has the turn.
func (q *Queue[H, W]) Busy(key string, c Class) bool {
	s := q.lock(key)
	defer s.mu.Unlock()
	return s.busy(c, key)
}

// Told returns what a goroutine that only tries is told now, without a wait: the hold of the goroutine with the
// turn, and the refusal. There is neither while the server has not answered that goroutine.
func (q *Queue[H, W]) Told(key string, c Class) (h H, refusal error) {
	s := q.lock(key)
	defer s.mu.Unlock()
	if e := s.entries[c][key]; e != nil {
		return e.hold, e.refusal
	}
	return s.uncontended[key], nil
}

// SetHold notes the hold that goes with an exclusive turn, for the goroutines that wait for it
// or are refused because of it.
func (t Turn[H, W]) SetHold(h H) {
	s := t.queue.lock(t.key)
	defer s.mu.Unlock()
	e := s.entries[Exclusive][t.key]
	var none H
	e.tries.giveAll(none, nil)
	if e.queue.last != nil {
		e.hold, e.waits, e.refusal = h, false, nil
		return
	}
	s.uncontended[t.key], *e = h, entry[H]{}
	s.drop(Exclusive, t.key, e)
}

// HandOver gives the hold and the turn to the next goroutine. If no goroutine waits, or if the
// rules do not allow it, HandOver returns false and changes nothing.
func (t Turn[H, W]) HandOver(h H) bool {
	q := t.queue
	s := q.lock(t.key)
	defer s.mu.Unlock()
	e, readers := s.entries[t.class][t.key], s.entries[Shared][t.key]
	readersWait := readers != nil && readers.waits
	if e == nil || e.queue.last == nil || !q.rules.HandOver(h, readersWait) {
		return false
	}
	e.queue.give(h, nil)
	return true
}

// PassOn gives the turn to the next goroutine, which asks the server itself. Goroutines that only
// try check again.
func (t Turn[H, W]) PassOn() { t.PassOnWith(nil) }

// PassOnWith is PassOn with an error for the goroutines that only try, see Waiting. If it is nil, they check again.
func (t Turn[H, W]) PassOnWith(refusal error) {
	s := t.queue.lock(t.key)
	defer s.mu.Unlock()
	s.passOn(t.class, t.key, refusal)
}
