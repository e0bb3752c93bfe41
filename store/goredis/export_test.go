package goredis

import "time"

// SetSilence changes how soon a silent connection is given up.
func (s *Store) SetSilence(d time.Duration) { s.feeds.silence = d }
