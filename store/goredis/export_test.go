package goredis

import (
	"time"

	"github.com/redis/go-redis/v9"
)

// SetSilence changes how soon a silent connection is given up.
func (s *Store) SetSilence(d time.Duration) { s.feeds.silence = d }

// Reserved reports whether the store has connections of its own.
func (s *Store) Reserved() bool {
	o := s.single.own
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pool != nil
}

// Connections is how many connections the store has of its own.
func (s *Store) Connections() int {
	s.single.connsMu.Lock()
	defer s.single.connsMu.Unlock()
	return len(s.single.conns)
}

// Stats are those of the store's own connections.
func (s *Store) Stats() redis.PoolStats {
	o := s.single.own
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pool == nil {
		return redis.PoolStats{}
	}
	return *o.pool.pool.PoolStats()
}

// Timed reports whether the store keeps a timer for its next request.
func (s *Store) Timed() bool { return !s.deadlines.Stopped() }
