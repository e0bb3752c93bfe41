package holdfast

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// twice sends a request, and once more if it brought no answer, for an action that
// tolerates that. What refuses the second copy says nothing about the first: then the
// outcome is as unknown as before.
func twice(ctx context.Context, ask func() (wire.Answer, error)) (wire.Answer, error) {
	a, err := ask()
	if err == nil || request.Definite(err) || ctx.Err() != nil {
		return a, err
	}
	again, second := ask()
	if request.Definite(second) {
		return a, err
	}
	return again, second
}

// undo gives back, in the background, what an attempt of unknown outcome may
// have been granted. A request that is still on its way may arrive after the
// cancel that found nothing: so it cancels again until the record says what
// became of the attempt, or until the instant at which a late grant would have
// ended by itself.
func (c *Client) undo(s *spec, attempt string, until time.Duration) {
	c.undoBy(script.Cancel, s, attempt, until)
}

// undoBy is undo by another action that takes and answers what cancel does.
func (c *Client) undoBy(action *script.Script, s *spec, attempt string, until time.Duration) {
	c.insist(insistence{known: until, silent: until, say: c.giveBack(action, s, attempt)})
}

func (c *Client) giveBack(action *script.Script, s *spec, attempt string) func(context.Context) (bool, error) {
	args := s.owned([]string{attempt, c.retention, s.base})
	return func(ctx context.Context) (known bool, err error) {
		a, err := c.ask(ctx, action, s.keys(), args)
		return a.Kind != wire.None, err
	}
}

// undo gives back what the attempt has or may yet get. A place in the line outlives a lease:
// while the server does not answer it cancels until the place is certainly
// gone, and what was granted there too.
func (at *attempt) undo() {
	c, s := at.c, at.spec
	if at.w == nil {
		c.undo(s, at.id, c.now()+s.ttl)
		return
	}
	until := c.now() + s.ttl
	gone := until + leasetime.WaiterTTL(s.ttl)
	c.insist(insistence{
		known: until, silent: gone, say: c.giveBack(script.Cancel, s, at.id),
		again: c.abandoned.add(at.number, s, at.id, c.now(), gone),
	})
}

// abandoned are attempts that were given up while they may have stood in a line, by
// number. A push for one of them says that it stands there still, or that it has been
// granted just now: it is answered with a cancel, at once.
type abandoned struct {
	mu   sync.Mutex
	list []*forsaken // in the order in which they were given up
}

type forsaken struct {
	number  uint64
	spec    *spec
	attempt string
	gone    time.Duration // by then the server knows nothing of it
	again   chan struct{} // says that it is to be cancelled again, at once
}

// mostAbandoned bounds how many are remembered. Who is forgotten loses no more than
// the answer to a push.
const mostAbandoned = 1 << 12

func (a *abandoned) add(number uint64, s *spec, attempt string, now, gone time.Duration) <-chan struct{} {
	f := &forsaken{number: number, spec: s, attempt: attempt, gone: gone, again: make(chan struct{}, 1)}
	a.mu.Lock()
	defer a.mu.Unlock()
	first := 0
	for first < len(a.list) && (a.list[first].gone < now || len(a.list)-first >= mostAbandoned) {
		first++
	}
	a.list = append(slices.Delete(a.list, 0, first), f)
	return f.again
}

func (a *abandoned) find(number uint64) *forsaken {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range a.list {
		if f.number == number {
			return f
		}
	}
	return nil
}

// stray is told of a push for an attempt that nobody waits for.
func (c *Client) stray(number uint64) {
	f := c.abandoned.find(number)
	if f == nil {
		return
	}
	select {
	case f.again <- struct{}{}:
	default: // it is being cancelled again
		return
	}
	// Whoever still cancels it hears of it. If nobody does, this is the one who does.
	now := c.now()
	c.insist(insistence{known: now, silent: now + f.spec.ttl, say: func(ctx context.Context) (bool, error) {
		select {
		case <-f.again:
			return c.giveBack(script.Cancel, f.spec, f.attempt)(ctx)
		default:
			return true, nil
		}
	}})
}

// eachSay is the share of the server's time that all who insist have together: one
// request in it, once they have insisted for some seconds. Each failed attempt
// of a client that tries again and again leaves one behind.
const eachSay = 100 * time.Millisecond

// insistence is something that is said to the server until that knows of it.
type insistence struct {
	say    func(ctx context.Context) (known bool, err error)
	known  time.Duration   // after this instant the server need not know of it
	silent time.Duration   // for so long it is said to a server that does not answer
	again  <-chan struct{} // says it again at once
}

// insist says something to the server in the background, until it knows, has
// refused, or the instant has come, at which it is said once more.
func (c *Client) insist(i insistence) {
	work := func() {
		c.insisting.Add(1)
		defer c.insisting.Add(-1)
		for tries := 0; ; tries++ {
			known, err := i.say(c.life.Context())
			until := i.known
			if err != nil {
				until = i.silent
			}
			switch {
			case err == nil && known, err != nil && !request.Transient(err):
				return
			case c.life.Context().Err() != nil || c.now() >= until:
				return
			}
			timer := time.NewTimer(min(c.nextSay(tries), max(until-c.now(), time.Millisecond)))
			select {
			case <-timer.C:
			case <-i.again:
				timer.Stop()
			case <-c.life.Context().Done():
				timer.Stop()
				return
			}
		}
	}
	if !c.life.Go(work) {
		// The client has closed meanwhile: nobody would wait for the
		// background, so try once here.
		_, _ = i.say(context.Background())
	}
}

// nextSay is when it is said again: soon at first, and then when all who insist have had
// their share.
func (c *Client) nextSay(tries int) time.Duration {
	pause, share := backoff.Default, time.Duration(c.insisting.Load())*eachSay
	if share > pause.Longest && pause.After(tries, 1) == pause.Longest {
		pause = backoff.Exponential{First: share, Longest: share}
	}
	return pause.After(tries, c.chance())
}
