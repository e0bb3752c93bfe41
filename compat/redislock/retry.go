package redislock

import (
	"sync/atomic"
	"time"
)

// RetryStrategy says when to try again.
type RetryStrategy interface {
	// NextBackoff returns the pause before the next try. Less than 1 ends the tries.
	NextBackoff() time.Duration
}

type linear time.Duration

func (l linear) NextBackoff() time.Duration { return time.Duration(l) }

// LinearBackoff tries again after the same pause each time.
func LinearBackoff(backoff time.Duration) RetryStrategy { return linear(backoff) }

// NoRetry tries once.
func NoRetry() RetryStrategy { return linear(0) }

type limited struct {
	strategy RetryStrategy
	most     int64
	tries    atomic.Int64
}

func (l *limited) NextBackoff() time.Duration {
	if l.tries.Add(1) > l.most {
		l.tries.Store(l.most)
		return 0
	}
	return l.strategy.NextBackoff()
}

// LimitRetry ends a strategy after so many retries. The strategy counts those of all calls that
// use it, as redislock's does.
func LimitRetry(s RetryStrategy, most int) RetryStrategy {
	return &limited{strategy: s, most: int64(most)}
}

type exponential struct {
	min, max time.Duration
	tries    atomic.Uint64
}

// longestShift is how often the pause doubles.
const longestShift = 25

func (e *exponential) NextBackoff() time.Duration {
	pause := 2 * time.Millisecond << min(e.tries.Add(1), longestShift)
	switch {
	case pause < e.min:
		return e.min
	case e.max != 0 && pause > e.max:
		return e.max
	}
	return pause
}

// ExponentialBackoff doubles the pause with every retry: 4 ms, 8 ms, and so on, but at least
// shortest, and at most longest if that is not 0.
func ExponentialBackoff(shortest, longest time.Duration) RetryStrategy {
	return &exponential{min: shortest, max: longest}
}
