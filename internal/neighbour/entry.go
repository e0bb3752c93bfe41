package neighbour

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// attemptKey names an attempt at one lock. An acquisition of several locks has one ID.
type attemptKey struct{ name, id string }

// entry is what this store remembers of an attempt: that it waits, or what it holds. The server
// decides who holds a lock; an entry only says what this process has asked for.
//
// Its fields are guarded by Store.mu.
type entry struct {
	Attempt
	channel       string // of the library, for the pushes to the attempt's client
	channelPrefix string // that channel without the client
	waitsOn       string // the neighbour's channel on which it waits; empty: on none
	waiting       bool   // the last answer was queued
	held          time.Time
	unsure        int       // so many requests to acquire got no answer, and may still arrive
	leaving       bool      // a request to release got no answer, and may have arrived
	trusted       time.Time // the lease is over for the client at the latest then
	until         time.Time // without a further request, the entry is of no use after this
}

// entryOf returns the entry of an attempt, a new one if there is none.
func (s *Store) entryOf(a Attempt, channelPrefix string, stay time.Duration) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	key := attemptKey{a.Name, a.ID}
	e := s.entries[key]
	if e == nil {
		e = &entry{channelPrefix: channelPrefix, channel: channelPrefix + a.Client()}
		s.entries[key] = e
	}
	e.Attempt = a
	e.until = time.Now().Add(max(stay, a.TTL) + a.Record)
	return e
}

// find returns the entry of an attempt, nil if there is none.
func (s *Store) find(name, id string) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[attemptKey{name, id}]
}

// attempt returns what is known of an attempt.
func (s *Store) attempt(name, id string) Attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[attemptKey{name, id}]; e != nil {
		a := e.Attempt
		a.Late = e.unsure > 0
		return a
	}
	return Attempt{Name: name, ID: id, Count: 1}
}

// drop forgets an attempt.
func (s *Store) drop(name, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(attemptKey{name, id})
}

// remove is drop with mu held.
func (s *Store) remove(key attemptKey) {
	if e := s.entries[key]; e != nil {
		s.leave(e)
		delete(s.entries, key)
	}
}

// minSweep is how many entries there are before the first sweep.
const minSweep = 256

// sweep forgets entries that nobody has asked about for a long time, once their number has
// doubled. mu is held. Usually the last request about an attempt removes its entry. If a
// program ends its client in the middle of a wait, that request may never come.
func (s *Store) sweep() {
	if len(s.entries) < max(2*s.lastSweep, minSweep) {
		return
	}
	now := time.Now()
	for key, e := range s.entries {
		if e.until.Before(now) {
			s.remove(key)
		}
	}
	s.lastSweep = len(s.entries)
}

// update changes an entry.
func (s *Store) update(e *entry, change func(e *entry)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(e)
}

// granted notes a grant. The attempt waits no longer.
func (s *Store) granted(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.trusted = time.Now().Add(e.TTL)
	s.leave(e)
	e.waiting = false
	if e.held.IsZero() {
		e.held = time.Now()
	}
}

// try asks the wire for the lock, and notes whether the outcome is known.
func (s *Store) try(ctx context.Context, e *entry, wait bool) (Outcome, error) {
	got, err := s.wire.Acquire(ctx, e.Attempt, wait)
	if err != nil && !definite(err) {
		s.update(e, func(e *entry) { e.unsure++ })
	}
	return got, err
}

// lookAgain is the push after which a waiter asks at once. It has the form of a grant with a
// token and without a time. The client never believes a grant from before its last answer, and
// asks the server instead.
func lookAgain(attempt string) string { return "granted " + attempt + " 0 0" }

// placeholderNow is the server's time in the answer queued. Clients compare it only with the
// time of a push, and the pushes of this store have none.
const placeholderNow = "1"

// modeWord writes a mode.
func modeWord(m Mode) string {
	switch m {
	case Exclusive:
		return wire.Exclusive
	case Shared:
		return wire.Shared
	case Permits:
		return wire.PermitMode
	}
	panic(fmt.Sprintf("BUG: mode %v", m))
}
