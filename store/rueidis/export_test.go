package rueidis

// Timed reports whether the store keeps a timer for its next request.
func (s *Store) Timed() bool { return !s.deadlines.Stopped() }
