package request

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// Attempt is one acquisition as its cancels need it.
type Attempt struct {
	ID    string
	Keys  []string
	Owner string // as the record has it; empty: none
	Base  string // channel prefix of the pushes
	TTL   time.Duration
}

// Owned puts the owner's name behind a script's arguments, if there is one.
func (a Attempt) Owned(args ...string) []string {
	if a.Owner == "" {
		return args
	}
	return append(args, a.Owner)
}

// Canceller withdraws, in the background, attempts that are unwanted or of unknown
// outcome.
type Canceller struct {
	sender  *Sender
	pending atomic.Int64 // what is being sent until the server knows of it

	mu        sync.Mutex
	abandoned []*abandoned // in the order in which they were given up
}

// abandoned is an attempt that was given up while it may have been in a wait queue. A
// push for it says that it is there still, or that it has been granted just now: it is
// answered with a cancel, at once.
type abandoned struct {
	Attempt
	number uint64
	gone   time.Duration // by then the server knows nothing of it
	again  chan struct{} // says that it is to be cancelled again, at once
}

// maxAbandoned bounds how many are remembered. An attempt that is forgotten loses no
// more than the answer to a push.
const maxAbandoned = 1 << 12

// NewCanceller makes one.
func NewCanceller(s *Sender) *Canceller { return &Canceller{sender: s} }

// Cancel gives back what an attempt of unknown outcome may have been granted. A
// request that is still on its way may arrive after the cancel that found nothing: so it
// cancels again until the record says what became of the attempt, or until the
// instant at which a late grant would have ended by itself.
func (c *Canceller) Cancel(a Attempt, until time.Duration) { c.CancelBy(script.Cancel, a, until) }

// CancelBy is Cancel by another script that takes and answers what cancel does.
func (c *Canceller) CancelBy(action *script.Script, a Attempt, until time.Duration) {
	c.Until(Message{Known: until, Silent: until, Send: c.cancel(action, a)})
}

func (c *Canceller) cancel(action *script.Script, a Attempt) func(context.Context) (bool, error) {
	s := c.sender
	args := a.Owned(a.ID, s.Retention, a.Base)
	return func(ctx context.Context) (known bool, err error) {
		answer, err := s.Ask(ctx, action, a.Keys, args)
		return answer.Kind != wire.None, err
	}
}

// Abandon gives back what an attempt that may be in a wait queue has or may yet get. A
// position outlives a lease: while the server does not answer it cancels until
// the position is certainly gone, and what was granted there too. number is the attempt's.
func (c *Canceller) Abandon(a Attempt, number uint64) {
	now := c.sender.Now()
	until := now + a.TTL
	gone := until + leasetime.WaiterTTL(a.TTL)
	c.Until(Message{
		Known: until, Silent: gone, Send: c.cancel(script.Cancel, a), again: c.remember(a, number, now, gone),
	})
}

func (c *Canceller) remember(a Attempt, number uint64, now, gone time.Duration) <-chan struct{} {
	one := &abandoned{Attempt: a, number: number, gone: gone, again: make(chan struct{}, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	first := 0
	for first < len(c.abandoned) && (c.abandoned[first].gone < now || len(c.abandoned)-first >= maxAbandoned) {
		first++
	}
	c.abandoned = append(slices.Delete(c.abandoned, 0, first), one)
	return one.again
}

func (c *Canceller) find(number uint64) *abandoned {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.abandoned {
		if one.number == number {
			return one
		}
	}
	return nil
}

// Stray is told of a push for an attempt that nobody waits for. It does not wait.
func (c *Canceller) Stray(number uint64) {
	one := c.find(number)
	if one == nil {
		return
	}
	select {
	case one.again <- struct{}{}:
	default: // it is being cancelled again
		return
	}
	// Whoever still cancels it hears of it. If nobody does, this goroutine does.
	now := c.sender.Now()
	c.Until(Message{Known: now, Silent: now + one.TTL, Send: func(ctx context.Context) (bool, error) {
		select {
		case <-one.again:
			return c.cancel(script.Cancel, one.Attempt)(ctx)
		default:
			return true, nil
		}
	}})
}

// share is the part of the server's time that all messages have together: one
// request in it, once they have been sent for some seconds. Each failed attempt
// of a client that tries again and again leaves one behind.
const share = 100 * time.Millisecond

// Message is sent to the server until the server knows of it.
type Message struct {
	Send   func(ctx context.Context) (known bool, err error)
	Known  time.Duration // after this instant the server need not know of it
	Silent time.Duration // until this instant it is sent to a server that does not answer
	again  <-chan struct{}
}

// Until sends a message in the background, until the server knows of it, has
// refused, or the instant has come, at which it is sent once more.
func (c *Canceller) Until(m Message) {
	s := c.sender
	work := func() {
		c.pending.Add(1)
		defer c.pending.Add(-1)
		for tries := 0; ; tries++ {
			known, err := m.Send(s.Life.Context())
			until := m.Known
			if err != nil {
				until = m.Silent
			}
			switch {
			case err == nil && known, err != nil && !Transient(err):
				return
			case s.Life.Context().Err() != nil || s.Now() >= until:
				return
			}
			timer := time.NewTimer(min(c.next(tries), max(until-s.Now(), time.Millisecond)))
			select {
			case <-timer.C:
			case <-m.again:
				timer.Stop()
			case <-s.Life.Context().Done():
				timer.Stop()
				return
			}
		}
	}
	if !s.Life.Go(work) {
		// The client has closed meanwhile: nobody would wait for the
		// background, so try once here.
		_, _ = m.Send(context.Background())
	}
}

// next is how long until a message is sent again: soon at first, and then when all of
// them have had their share.
func (c *Canceller) next(tries int) time.Duration {
	pause, all := backoff.Default, time.Duration(c.pending.Load())*share
	if all > pause.Longest && pause.After(tries, 1) == pause.Longest {
		pause = backoff.Exponential{First: all, Longest: all}
	}
	return pause.After(tries, c.sender.Random())
}
