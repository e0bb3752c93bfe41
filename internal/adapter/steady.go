package adapter

import "sync/atomic"

// settled is how many answers in a row say that all the connections of a client
// stand: some are made only when they are first needed.
const enoughAnswers = 256

// Calm tells whether a server has answered everything for a while.
type Steady struct{ answered atomic.Int32 }

// Note remembers whether a request was answered.
func (c *Steady) Note(answered bool) {
	if !answered {
		c.answered.Store(0)
	} else if c.answered.Load() < enoughAnswers {
		c.answered.Add(1)
	}
}

// Settled reports whether all of the last requests were answered.
func (c *Steady) Reached() bool { return c.answered.Load() >= enoughAnswers }
