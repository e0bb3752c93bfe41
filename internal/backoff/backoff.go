// Package backoff says how long to wait before the next try of what failed.
package backoff

import "time"

// Exponential doubles the pause with every failure, from First up to Longest.
type Exponential struct{ First, Longest time.Duration }

// Default is for tries of a server that is away or does not answer.
var Default = Exponential{First: 10 * time.Millisecond, Longest: time.Second}

// After is the pause after so many failures in a row before the last one: 0 for the
// first failure. spread, in [0, 1), is drawn by the caller and decides about the upper half of
// the pause: clients that lost their server together do not return together. 1 is the
// whole pause.
func (e Exponential) After(failures int, spread float64) time.Duration {
	longest := e.First
	for ; failures > 0 && longest < e.Longest; failures-- {
		longest *= 2
	}
	longest = min(longest, e.Longest)
	return longest/2 + time.Duration(spread*float64(longest-longest/2))
}
