// Package backoff says how long to pause before the next try of a request that failed.
package backoff

import "time"

// Exponential doubles the pause with every failure, from First up to Longest.
type Exponential struct{ First, Longest time.Duration }

// Default is for a server that is unreachable or does not answer.
var Default = Exponential{First: 10 * time.Millisecond, Longest: time.Second}

// After returns the pause after a failure. failures counts the failures in a row before it:
// 0 for the first one. The caller draws spread from [0, 1); it decides about the upper half
// of the pause. So clients that lost their server at the same time do not all come back at
// the same time. If spread is 1, After returns the whole pause.
func (e Exponential) After(failures int, spread float64) time.Duration {
	longest := e.First
	for ; failures > 0 && longest < e.Longest; failures-- {
		longest *= 2
	}
	longest = min(longest, e.Longest)
	return longest/2 + time.Duration(spread*float64(longest-longest/2))
}
