package goredis

import (
	"maps"
	"slices"
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
	return o.idle != nil
}

// Connections is how many connections the store has of its own.
func (s *Store) Connections() int {
	s.single.connsMu.Lock()
	defer s.single.connsMu.Unlock()
	return len(s.single.conns)
}

// Stats are those of the store's own connections. Each one in use counts as a connection.
func (s *Store) Stats() (stats redis.PoolStats) {
	o := s.single.own
	o.mu.Lock()
	defer o.mu.Unlock()
	stats.TotalConns = uint32(o.users)
	for _, l := range o.free {
		of := l.pool.PoolStats()
		stats.Hits += of.Hits
		stats.Misses += of.Misses
		stats.TotalConns += of.TotalConns
		stats.IdleConns += of.IdleConns
		stats.StaleConns += of.StaleConns
	}
	return stats
}

// Timed reports whether the store keeps a timer for its next request.
func (s *Store) Timed() bool { return !s.deadlines.Stopped() }

// UnderWay reports whether a request was written and has no answer.
func (s *Store) UnderWay() bool {
	return s.anyConn(func(c *conn) bool { return c.asked.Load() != 0 })
}

// Left reports whether the context of a request that is under way has ended.
func (s *Store) Left() bool {
	return s.anyConn(func(c *conn) bool {
		c.lane.mu.Lock()
		defer c.lane.mu.Unlock()
		return c.lane.ended
	})
}

func (s *Store) anyConn(is func(c *conn) bool) bool {
	servers := []*server{s.single}
	if s.cluster != nil {
		s.cluster.mu.Lock()
		servers = slices.Collect(maps.Values(s.cluster.clients))
		s.cluster.mu.Unlock()
	}
	for _, v := range servers {
		v.connsMu.Lock()
		defer v.connsMu.Unlock()
		for c := range v.conns {
			if is(c) {
				return true
			}
		}
	}
	return false
}
