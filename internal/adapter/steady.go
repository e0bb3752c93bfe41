package adapter

import "sync/atomic"

// enoughAnswers is how many answers in a row show that a client has made all its connections:
// it makes some only when they are first needed.
const enoughAnswers = 256

// Steady tells whether a server has answered every request for a while.
type Steady struct{ answered atomic.Int32 }

// Note records whether a request was answered.
func (c *Steady) Note(answered bool) {
	if !answered {
		c.answered.Store(0)
	} else if c.answered.Load() < enoughAnswers {
		c.answered.Add(1)
	}
}

// Reached reports whether all of the last requests were answered.
func (c *Steady) Reached() bool { return c.answered.Load() >= enoughAnswers }
