package goredis

import "time"

// SetSilence changes how soon a silent connection is given up.
func (s *Store) SetSilence(d time.Duration) { s.feeds.silence = d }

// Reserved reports whether the store has connections of its own.
func (s *Store) Reserved() bool {
	r := &s.single.reserve
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.own != nil
}

// Timed reports whether the store keeps a timer for its next request.
func (s *Store) Timed() bool { return !s.deadlines.Stopped() }
