// The leader of an election, read once or observed.

package holdfast

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Leader is the leader of an election at one moment, as the server knows it. The answer may
// be out of date when it arrives. If an action must not happen under an old leader, use the
// term as its fencing token.
type Leader struct {
	Value     string
	Token     uint64      // the fencing token of its term, rises with every leader; 0: nobody leads
	HolderID  string      // the leader's attempt
	ClientID  string      // the ID of its client
	Client    *ClientInfo // nil if the client has not registered; set by Leader only
	Since     time.Time   // by the server's clock
	Remaining time.Duration
}

// Leader asks the server for the leader. If nobody leads, or a new leader has not
// proclaimed its value yet, the error is an [ErrNoLeader].
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	lk := &e.lock
	if lk.err != nil {
		return Leader{}, lk.err
	}
	if err := lk.client.checkReadable(ctx, lk.name); err != nil {
		return Leader{}, err
	}
	l, _, err := e.read(ctx)
	switch {
	case err != nil:
		return Leader{}, wrap("asking for the leader of", lk.name, err)
	case l.Token == 0:
		return Leader{}, errorf("%w: election %q", ErrNoLeader, lk.name)
	}
	l.Client = lk.client.clientInfo(ctx, l.ClientID)
	return l, nil
}

// read reads the leader, and how long the answer can be true at most.
func (e *Election) read(ctx context.Context) (Leader, time.Duration, error) {
	answer, err := e.lock.client.sender.Run(ctx, script.ReadLeader, e.lock.keys(), nil)
	if err != nil {
		return Leader{}, 0, err
	}
	line, err := wire.ParseLeader(answer)
	if err != nil || !line.Known {
		return Leader{}, line.Left, err
	}
	return Leader{
		Value: line.Value, Token: line.Token << 10, HolderID: line.Attempt, ClientID: wire.Client(line.Attempt),
		Since: line.Since, Remaining: line.Left,
	}, line.Left, nil
}

// Observe yields the leader and every change of it. The first value is the current leader. A
// zero Leader means that nobody leads. Terms never go back. If several changes follow each
// other quickly, Observe may yield only the last one. The server's pushes wake Observe. It also
// asks the server by itself when the leader's lease may have expired.
//
// Observe yields an error once, when its last value can no longer be known to be true.
// While the server is away, the iteration continues, and it yields the leader again when
// the server is back. After a refusal, an [ErrInvalid] or an [ErrClosed], the iteration
// ends. If ctx ends, it ends without an error.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		o := &observation{e: e, c: e.lock.client, yield: yield, wake: make(chan struct{}, 1), quiet: true}
		if err := e.lock.observable(ctx); err != nil {
			yield(Leader{}, err)
			return
		}
		done := make(chan struct{})
		defer close(done)
		for {
			o.subscribe(ctx, done)
			next, more := o.report(ctx)
			if !more {
				return
			}
			timer := time.NewTimer(next)
			select {
			case <-o.wake:
			case <-timer.C:
			case <-ctx.Done():
			case <-o.c.life.Closing():
			}
			timer.Stop()
		}
	}
}

// observable refuses calls that need no request to be refused.
func (lk *lock) observable(ctx context.Context) error {
	switch {
	case lk.err != nil:
		return lk.err
	case ctx == nil:
		return errNoContext
	}
	return nil
}

// observation is the state of one Observe.
type observation struct {
	e     *Election
	c     *Client
	yield func(Leader, error) bool
	wake  chan struct{}

	hears   bool // there is a subscription
	refused bool // the server does not permit one
	last    Leader
	highest uint64        // the highest term
	quiet   bool          // nothing was yielded yet, or the last was an error: the next answer is news
	lost    bool          // the error was yielded
	until   time.Duration // the last value can be true until then
	failed  int           // the number of requests in a row that failed
}

// subscribe makes the subscription if there is none. Without a subscription, Observe only
// polls. The subscription ends with the observation or the client, whichever is first.
func (o *observation) subscribe(ctx context.Context, done <-chan struct{}) {
	if o.hears || o.refused || ctx.Err() != nil || !o.c.life.BeginCall() {
		return
	}
	defer o.c.life.EndCall()
	bounded, cancel := context.WithTimeout(ctx, o.c.cfg.RequestTimeout)
	defer cancel()
	look := func() { signal(o.wake) }
	told := store.Listener{Message: func(string) { look() }, Look: func(bool) { look() }}
	stop, err := o.c.store.Listen(bounded, o.e.watch, told)
	if err != nil {
		o.refused = !request.Transient(err)
		return
	}
	o.hears = o.c.life.Go(observeLabel, func() {
		select {
		case <-done:
		case <-o.c.life.Closing():
		}
		stop()
	})
	if !o.hears {
		stop()
	}
}

// report reads the leader, yields what is new, and returns when to read again.
func (o *observation) report(ctx context.Context) (next time.Duration, more bool) {
	if ctx.Err() != nil {
		return 0, false
	}
	leader, left, err := o.ask(ctx)
	ttl := o.e.lock.ttl
	switch {
	case err == nil && leader.Token != 0 && leader.Token < o.highest:
		return ttl, true // a copy of an older record, so nothing new
	case err == nil:
		o.failed, o.until = 0, o.c.now()+left
		o.highest = max(o.highest, leader.Token)
		changed := o.quiet || leader.Token != o.last.Token || leader.Value != o.last.Value
		o.last, o.quiet, o.lost = leader, false, false
		if changed && !o.yield(leader, nil) {
			return 0, false
		}
		return o.next(left), true
	case ctx.Err() != nil:
		return 0, false
	case errors.Is(err, ErrClosed) || !request.Transient(err) || o.c.elsewhere(err):
		o.yield(Leader{}, wrap("observing", o.e.lock.name, err))
		return 0, false
	}
	if o.c.now() >= o.until && !o.lost {
		o.quiet, o.lost = true, true
		if !o.yield(Leader{}, wrap("observing", o.e.lock.name, err)) {
			return 0, false
		}
	}
	o.failed++
	return backoff.Default.After(o.failed-1, o.c.chance()), true
}

func (o *observation) ask(ctx context.Context) (Leader, time.Duration, error) {
	if !o.c.life.BeginCall() {
		return Leader{}, 0, ErrClosed
	}
	defer o.c.life.EndCall()
	if err := o.c.preflight.Server(ctx); err != nil {
		return Leader{}, 0, err
	}
	return o.e.read(ctx)
}

// next returns when to read again without a push: when the leader's lease may have expired,
// or at intervals if nobody leads.
func (o *observation) next(left time.Duration) time.Duration {
	ttl := o.e.lock.ttl
	if left == 0 {
		left = ttl
	}
	if !o.hears {
		left = min(left, ttl/3)
	}
	return leasetime.PollAfter(left, 1, ttl, o.c.chance())
}
