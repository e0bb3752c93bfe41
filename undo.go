package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// twice sends a request, and once more if it brought no answer, for an action that
// tolerates that. What refuses the second copy says nothing about the first: then the
// outcome is as unknown as before.
func twice(ctx context.Context, ask func() (wire.Answer, error)) (wire.Answer, error) {
	a, err := ask()
	if err == nil || definite(err) || ctx.Err() != nil {
		return a, err
	}
	again, second := ask()
	if definite(second) {
		return a, err
	}
	return again, second
}

// undo gives back, in the background, what an attempt of unknown outcome may
// have been granted, or its place in the line. A request that is still on its
// way may arrive after the cancel that found nothing: so it cancels again
// until the record says what became of the attempt, or until the instant at
// which a late grant would have ended by itself.
func (c *Client) undo(s *spec, attempt string, until time.Duration) {
	c.undoBy(script.Cancel, s, attempt, until)
}

// undoBy is undo by another action that takes and answers what cancel does.
func (c *Client) undoBy(action *script.Script, s *spec, attempt string, until time.Duration) {
	args := s.owned([]string{attempt, c.retention, s.base})
	c.insist(until, func(ctx context.Context) (known bool, err error) {
		a, err := c.ask(ctx, action, s.keys(), args)
		return a.Kind != wire.None, err
	})
}

// eachSay is the share of the server's time that all who insist have together: one
// request in it, once they have insisted for some seconds. Each failed attempt
// of a client that tries again and again leaves one behind.
const eachSay = 100 * time.Millisecond

// insist says something to the server in the background, until it knows, has
// refused, or the instant has come, at which it is said once more.
func (c *Client) insist(until time.Duration, say func(ctx context.Context) (known bool, err error)) {
	work := func() {
		c.insisting.Add(1)
		defer c.insisting.Add(-1)
		pause := 20 * time.Millisecond
		for {
			known, err := say(c.life)
			switch {
			case err == nil && known, err != nil && !passing(err):
				return
			case c.life.Err() != nil || c.now() >= until:
				return
			}
			spread := pause/2 + time.Duration(c.chance()*float64(pause))
			timer := time.NewTimer(min(spread, max(until-c.now(), time.Millisecond)))
			select {
			case <-timer.C:
			case <-c.life.Done():
				timer.Stop()
				return
			}
			if pause *= 2; pause > time.Second {
				pause = max(time.Second, time.Duration(c.insisting.Load())*eachSay)
			}
		}
	}
	if !c.background(work) {
		// The client has closed meanwhile: nobody would wait for the
		// background, so try once here.
		_, _ = say(context.Background())
	}
}
