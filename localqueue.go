package holdfast

import "github.com/holdfast-go/holdfast/internal/waitqueue"

// newQueue makes the queue in which the goroutines of this process wait for each other.
func (c *Client) newQueue() *waitqueue.Queue[*hold, *spec] {
	return waitqueue.New(waitqueue.Rules[*hold, *spec]{
		Waits: c.waitsLocally, Closed: ErrClosed,
	}, c.life.Closing())
}

// waitsLocally is told that a goroutine begins to wait for another one of this process.
func (c *Client) waitsLocally(s *spec, _ *hold) {
	c.observe(Event{Kind: EventWait, Name: s.name, Local: true})
}
