package localqueue

import "context"

// takeShared is TakeTurn for a reader.
func (t Turn[H, W]) takeShared(ctx context.Context, want W, try bool) (Turn[H, W], error) {
	var none H
	q := t.queue
	for ; ; t.Waited = true {
		s := q.lock(t.key)
		e := s.entry(Shared, t.key)
		t.decide(s, e, want)
		switch {
		case t.Joined:
			s.mu.Unlock()
			return t, nil
		case !e.taken:
			e.taken = true
			s.mu.Unlock()
			return t, nil
		case !try:
			p := e.queue.enqueue(newPendingCall[H]())
			q.begin(s, &e.queue)
			return t.awaitTurn(ctx, e, p, want)
		case e.waits && e.refusal == nil:
			s.mu.Unlock()
			return Turn[H, W]{}, nil
		case e.waits:
			s.mu.Unlock()
			if err := q.rules.Refuse(ctx, want, none); err != nil {
				return Turn[H, W]{}, err
			}
		default:
			p := e.tries.enqueue(newPendingCall[H]())
			q.begin(s, &e.tries)
			if err := t.awaitAnswer(ctx, e, p); err != nil {
				return Turn[H, W]{}, err
			}
			if p.hold != none {
				t.Hold, t.Joined, t.Waited = p.hold, true, true
				return t, nil
			}
		}
	}
}

// decide notes what the reader does, and reserves the hold that it joins. s.mu is locked.
func (t *Turn[H, W]) decide(s *shard[H], e *entry[H], want W) {
	var none H
	t.Hold = e.hold
	t.Do = t.queue.rules.Join(e.hold, want, s.busy(Exclusive, t.key))
	switch {
	case t.Do == Share && t.queue.rules.Reserve(t.Hold):
		t.Joined = true
	case t.Do == Share:
		t.Hold, t.Do = none, Ask
	case t.Do != Check:
		t.Hold = none
	}
}

// awaitTurn waits for the turn, or for the hold that another reader gets.
func (t Turn[H, W]) awaitTurn(ctx context.Context, e *entry[H], p *pendingCall[H], want W) (Turn[H, W], error) {
	var none H
	q := t.queue
	q.rules.OnWait(ctx, want, none)
	if err := p.await(ctx); err != nil {
		t.giveUp(&e.queue, p)
		return Turn[H, W]{}, err
	}
	if p.err != nil {
		return Turn[H, W]{}, p.err
	}
	t.Waited = true
	if p.hold != none {
		t.Hold, t.Joined = p.hold, true
		return t, nil
	}
	// The reader has the turn. It decides by the state now, not by the state at its arrival.
	s := q.lock(t.key)
	defer s.mu.Unlock()
	if t.decide(s, e, want); t.Joined {
		s.passOn(Shared, t.key, nil)
	}
	return t, nil
}

// awaitAnswer waits, for a goroutine that only tries, until the server answers the one with the
// turn. If there is neither a hold nor an error then, the caller checks again.
func (t Turn[H, W]) awaitAnswer(ctx context.Context, e *entry[H], p *pendingCall[H]) error {
	var none H
	q := t.queue
	err := p.await(ctx)
	if err == nil {
		return p.err
	}
	s := q.lock(t.key)
	left := e.tries.remove(p)
	s.mu.Unlock()
	if !left && p.hold != none {
		q.rules.Unreserve(p.hold)
	}
	return err
}

// None reports whether the caller has neither the turn nor a hold.
func (t Turn[H, W]) None() bool { return t.queue == nil }

// Waiting notes that the goroutine with the turn waits from now on. refusal is for the goroutines that only
// try: that the lock is held, or why the server did not answer. It may be nil for readers, which then ask the
// server themselves.
func (t Turn[H, W]) Waiting(refusal error) {
	var none H
	s := t.queue.lock(t.key)
	defer s.mu.Unlock()
	e := s.entries[t.class][t.key]
	e.waits, e.refusal = true, refusal
	e.tries.giveAll(none, refusal)
}

// Share lets all waiting readers join h, and gives the turn up. Later readers may join it too.
func (t Turn[H, W]) Share(h H) {
	q := t.queue
	s := q.lock(t.key)
	defer s.mu.Unlock()
	e := s.entries[Shared][t.key]
	if q.rules.Joinable(h) {
		e.hold = h
	}
	for e.tries.last != nil && q.rules.Reserve(h) {
		e.tries.give(h, nil)
	}
	for e.queue.last != nil && q.rules.Reserve(h) {
		e.queue.give(h, nil)
	}
	s.passOn(Shared, t.key, nil)
}

// Share makes h the hold that readers of this process may join, unless there is one.
func (q *Queue[H, W]) Share(key string, h H) {
	s := q.lock(key)
	defer s.mu.Unlock()
	var none H
	e := s.entry(Shared, key)
	if e.hold == none && q.rules.Joinable(h) {
		e.hold = h
	}
	if e.idle() {
		s.drop(Shared, key, e)
	}
}

// Unshare ends it: readers no longer join h.
func (q *Queue[H, W]) Unshare(key string, h H) {
	s := q.lock(key)
	defer s.mu.Unlock()
	e := s.entries[Shared][key]
	if e == nil || e.hold != h {
		return
	}
	var none H
	e.hold = none
	if e.idle() {
		s.drop(Shared, key, e)
	}
}
