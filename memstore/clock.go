package memstore

import "time"

// now needs mu.
func (s *Store) now() time.Time { return s.clock().Add(s.ahead) }

// Clock implements [store.Simulated]: the time on the store's clock since New. So leases
// and the store use the same time, virtual or not.
func (s *Store) Clock() func() time.Duration {
	return func() time.Duration {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.now().Sub(s.born)
	}
}

// Random implements [store.Simulated]: clients use real random numbers.
func (s *Store) Random() func() float64 { return nil }

// SetClock makes the store use another clock instead of time.Now, as if its server's
// clock had been set. The store calls it while it is locked, so it must not call the
// store.
func (s *Store) SetClock(clock func() time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock, s.ahead = clock, 0
}

// Advance moves the store's clock forward by d, or back if d is negative. The timers of
// the process do not move: a waiter notices at its next poll. Inside a testing/synctest
// bubble, time.Sleep moves both.
func (s *Store) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
}
