package request

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/lockorder"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// Attempt is what a cancel needs to know of one acquisition.
type Attempt struct {
	ID            string
	Keys          []string
	Owner         string // as the record has it; empty: none
	ChannelPrefix string // channel prefix of the pushes
	TTL           time.Duration
}

// Owned appends the owner's name to the arguments of a script, if there is one.
func (a Attempt) Owned(args ...string) []string {
	if a.Owner == "" {
		return args
	}
	return append(args, a.Owner)
}

// Canceller cancels, in the background, attempts that are no longer wanted or whose outcome
// is unknown.
type Canceller struct {
	sender     *Sender
	pending    atomic.Int64 // messages that Until is sending
	outlasting atomic.Int64 // those of them that go on for an [Outage]

	mu     lockorder.Mutex[Canceller]
	former []*formerWaiter // in the order in which they were given up
}

// formerWaiter is an attempt that the client gave up while it may have been in a wait queue. A
// push for it means that it is still in the queue, or that it has just been granted. The
// client then cancels it at once.
type formerWaiter struct {
	Attempt
	number uint64
	gone   time.Duration // from then on the server has neither its position nor its grant, and gives it none
	again  chan struct{} // receives when the client must cancel it again at once
}

// maxFormerWaiters limits how many attempts are remembered. A push for a forgotten attempt is
// not answered; nothing else is lost.
const maxFormerWaiters = 1 << 12

// NewCanceller makes one.
func NewCanceller(s *Sender) *Canceller { return &Canceller{sender: s} }

// Cancel releases a hold that may be left on the server, although its release got no answer or
// its lease is over here. It sends until the record says what became of the hold, or until the
// instant at which the hold has certainly expired.
func (c *Canceller) Cancel(a Attempt, until time.Duration) {
	c.Until(Message{Until: until, SilentUntil: until, Send: c.cancel(script.Cancel, a)})
}

// CancelUnknown releases what an attempt of unknown outcome may have been granted, or may yet be
// granted: its request may arrive after the cancel. So CancelUnknown sends again until the record
// says what became of the attempt, or for a TTL: by then a grant at this moment would have expired.
// After a silence of the server it goes on, see [Outage].
func (c *Canceller) CancelUnknown(a Attempt) { c.cancelUnknown(script.Cancel, a) }

// CancelRun is CancelUnknown for the run of a job. It also gives the period back.
func (c *Canceller) CancelRun(a Attempt) { c.cancelUnknown(script.CancelRun, a) }

// EndRun says that the run of a job has succeeded, until the record knows it or the lease has ended.
func (c *Canceller) EndRun(a Attempt, until time.Duration) {
	c.Until(Message{Until: until, SilentUntil: until, Send: c.cancel(script.CancelRun, a, RunDone)})
}

// RunDone is the last argument of a cancel_run that ends a run that has succeeded.
const RunDone = "1"

func (c *Canceller) cancelUnknown(action *script.Script, a Attempt) {
	until := c.sender.Now() + a.TTL
	c.Until(Message{Until: until, SilentUntil: until, WatchLate: a.TTL, Send: c.cancel(action, a)})
}

func (c *Canceller) cancel(action *script.Script, a Attempt, more ...string) func(context.Context) (bool, error) {
	s := c.sender
	args := append(a.Owned(a.ID, s.Retention, a.ChannelPrefix), more...)
	return func(ctx context.Context) (known bool, err error) {
		answer, err := s.Ask(ctx, action, a.Keys, args)
		return answer.Kind != wire.None, err
	}
}

// CancelWaiter cancels an attempt that may be in a wait queue, and releases what it has been or
// may yet be granted. A position outlives a lease. So if the server does not answer, CancelWaiter
// sends until the position and any grant to it have certainly expired. number is the
// attempt's number.
func (c *Canceller) CancelWaiter(a Attempt, number uint64) {
	now := c.sender.Now()
	until := now + a.TTL
	gone := until + leasetime.WaiterTTL(a.TTL)
	c.Until(Message{
		Until: until, SilentUntil: gone, WatchLate: a.TTL, Send: c.cancel(script.Cancel, a),
		again: c.remember(a, number, now, gone+Outage),
	})
}

func (c *Canceller) remember(a Attempt, number uint64, now, gone time.Duration) <-chan struct{} {
	one := &formerWaiter{Attempt: a, number: number, gone: gone, again: make(chan struct{}, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	first := 0
	for first < len(c.former) && (c.former[first].gone < now || len(c.former)-first >= maxFormerWaiters) {
		first++
	}
	c.former = append(slices.Delete(c.former, 0, first), one)
	return one.again
}

func (c *Canceller) find(number uint64) *formerWaiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.former {
		if one.number == number {
			return one
		}
	}
	return nil
}

// Stray answers a push for an attempt for which no goroutine waits. It does not wait. After
// the client has closed, it does nothing: the pushed lease is short, and nobody confirms it.
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
	// If a goroutine is still cancelling the attempt, that goroutine receives from again.
	// Otherwise this message does.
	now := c.sender.Now()
	c.send(Message{Until: now, SilentUntil: now + one.TTL, Send: func(ctx context.Context) (bool, error) {
		select {
		case <-one.again:
			return c.cancel(script.Cancel, one.Attempt)(ctx)
		default:
			return true, nil
		}
	}})
}

// share limits the load of all pending messages: once they have been sent for some seconds,
// the client sends one of them in this time. A client that tries again and again leaves one
// message behind for each failed attempt.
const share = 100 * time.Millisecond

// Outage is for how much longer a cancel is sent to a server that does not answer. A server that
// was stopped, or cut off, may carry out what it has received, or what the network kept for
// it, after that. Then its grant begins, although it is long over for the client: a lock is held
// by nobody for a TTL, and a job does not run for a period.
const Outage = 10 * time.Minute

// maxOutage limits how many cancels are sent for so much longer: the first ones, because a server
// receives more of what is sent at the beginning of an outage.
const maxOutage = 256

// Message is a request that Until sends until the server knows of it.
type Message struct {
	Send        func(ctx context.Context) (known bool, err error)
	Until       time.Duration // after this instant the server need not know of it
	SilentUntil time.Duration // until this instant it is sent to a server that does not answer
	WatchLate   time.Duration // if not 0: what it cancels may arrive after a silence, and is then watched for this long
	again       <-chan struct{}

	outlasts bool // SilentUntil is over, and it is sent for an [Outage]
}

// Until sends a message in the background. It stops when the server knows of it or refuses
// it, or at the instant that the message names; at that instant it sends once more.
func (c *Canceller) Until(m Message) {
	if !c.send(m) {
		// The client has closed meanwhile and waits for no more background work. So try
		// once here.
		_, _ = m.Send(context.Background())
	}
}

// send begins to send a message in the background. It returns false if the client has closed.
func (c *Canceller) send(m Message) bool {
	s := c.sender
	return s.Life.Go(cancelLabel, func() {
		c.pending.Add(1)
		defer func() {
			c.pending.Add(-1)
			if m.outlasts {
				c.outlasting.Add(-1)
			}
		}()
		for tries := 0; ; tries++ {
			known, err := m.Send(s.Life.Context())
			until := m.Until
			if err != nil {
				until = c.silent(&m)
			} else if m.WatchLate = 0; m.outlasts {
				// The outage is over. If the server falls silent again, that is another one.
				m.outlasts = false
				c.outlasting.Add(-1)
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
	})
}

// silent notes that the server has not answered a message, and returns until when to send it.
func (c *Canceller) silent(m *Message) (until time.Duration) {
	now := c.sender.Now()
	if m.WatchLate == 0 {
		return m.SilentUntil
	}
	m.Until = max(m.Until, now+m.WatchLate)
	if now >= m.SilentUntil && !m.outlasts {
		if m.outlasts = c.outlasting.Add(1) <= maxOutage; !m.outlasts {
			c.outlasting.Add(-1)
			return m.SilentUntil
		}
	}
	return m.SilentUntil + Outage
}

// Pending returns how many messages are being sent in the background.
func (c *Canceller) Pending() int { return int(c.pending.Load()) }

// next is the pause before a message is sent again: short at first, and later so long that
// every pending message is sent once in it.
func (c *Canceller) next(tries int) time.Duration {
	pause, all := backoff.Default, time.Duration(c.pending.Load())*share
	if all > pause.Longest && pause.After(tries, 1) == pause.Longest {
		pause = backoff.Exponential{First: all, Longest: all}
	}
	return pause.After(tries, c.sender.Random())
}
