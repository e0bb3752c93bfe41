// Election: to become leader, to publish a value, to resign.

package holdfast

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// MaxValue is how many bytes the value of a leader may have.
const MaxValue = 4096

// Election chooses one leader among candidates. It is the [Mutex] of its name
// and what its holder stands for: there is never more than one leader by the
// guarantees of the store, the candidates follow one another in order of
// arrival, and an operator can end a lead with [Client.Evict].
//
// Like a Mutex it is a name and options. Candidates of one process stand in the
// server's line each for itself.
type Election struct {
	lock  lock
	watch string // channel of those who observe
}

// Election names an election. It does no I/O. A name or an option that cannot
// work is reported by the first use, as an [ErrInvalid].
func (c *Client) Election(name string, options ...ElectionOption) *Election {
	// A lead that was passed inside the process would be another leader under
	// the same token of the server: nobody could see the change.
	chosen, err := choose(c, name, lockOptions{want: wire.Exclusive, noLocalQueue: true}, options)
	return &Election{lock: newLock(c, name, chosen, err), watch: wire.Watch(c.cfg.Prefix, name, c.sharded)}
}

// Name is the election's name.
func (e *Election) Name() string { return e.lock.name }

// Leadership is the lead of an election, from Campaign to Resign. It is safe
// for use by many goroutines. One that is garbage collected without Resign ends
// with its TTL and is reported, like a [Lease].
type Leadership struct {
	election *Election
	lease    *Lease

	// turn is held during a proclamation, so that they reach the server in the
	// order in which they are numbered. Nothing else waits for it.
	turn   chan struct{}
	number uint64 // of the last proclamation; only with turn

	resigning chan struct{} // full during Resign

	// mu guards value.
	mu    sync.Mutex
	value string // the last that is known to have been proclaimed
}

// Campaign waits to be the leader, in order of arrival, and proclaims value,
// up to [MaxValue] bytes of any kind: an address, for example. When it returns
// the leader can be seen by [Election.Leader] and [Election.Observe].
//
// On failure nothing is led and no place in the line is kept. The errors are
// those of [Mutex.Lock]; an [ErrNotHeld] says that the lead was lost before it
// could be proclaimed.
func (e *Election) Campaign(ctx context.Context, value string) (*Leadership, error) {
	if err := checkValue(value); err != nil {
		return nil, err
	}
	lease, err := e.lock.acquire(ctx)
	if err != nil {
		return nil, err
	}
	l := &Leadership{election: e, lease: lease, turn: make(chan struct{}, 1), resigning: make(chan struct{}, 1)}
	for failures := 0; ; failures++ {
		if err = l.Proclaim(ctx, value); err == nil {
			return l, nil
		}
		if ctx.Err() != nil || !request.Transient(err) || lease.Err() != nil ||
			!e.lock.client.sender.Pause(ctx, failures) {
			_ = l.Resign(ctx)
			return nil, err
		}
	}
}

func checkValue(value string) error {
	if len(value) > MaxValue {
		return invalid("the value has %d bytes, the limit is %d: keep large ones elsewhere and proclaim where",
			len(value), MaxValue)
	}
	return nil
}

// Do campaigns, runs f as the leader, and resigns when f has returned or
// panicked: not before, also when the lead is lost meanwhile. The context that
// f is given is ctx's child, and is also done when the lead is lost; f should
// return then, for somebody else may lead.
//
// The error joins f's error and what went wrong with the lead: if it is an
// [ErrNotHeld], f did not lead to its end. If f did not run, the error is that
// of [Election.Campaign].
func (e *Election) Do(
	ctx context.Context, value string, f func(ctx context.Context, lead *Leadership) error,
) error {
	if err := runnable(ctx, f == nil); err != nil {
		return err
	}
	lead, err := e.Campaign(ctx, value)
	if err != nil {
		return err
	}
	return lead.run(ctx, f)
}

// run runs f as the leader, and resigns.
func (l *Leadership) run(ctx context.Context, f func(ctx context.Context, lead *Leadership) error) error {
	return do(ctx, lead{l.lease, l}, func(ctx context.Context) error { return f(ctx, l) })
}

// lead is a lease that ends with the leader's resignation.
type lead struct {
	*Lease
	leadership *Leadership
}

// Release resigns.
func (l lead) Release(ctx context.Context) error { return l.leadership.Resign(ctx) }

// Loop is Do again and again: after each loss of the lead it campaigns anew,
// once f has returned, and while the server is away it goes on trying. It ends
// when ctx does, when f returns while it still leads, and when the server
// refuses; its error is that of the last Do.
func (e *Election) Loop(
	ctx context.Context, value string, f func(ctx context.Context, lead *Leadership) error,
) error {
	if err := runnable(ctx, f == nil); err != nil {
		return err
	}
	for failures := 0; ; failures++ {
		lead, err := e.Campaign(ctx, value)
		if err == nil {
			failures = 0
			err = lead.run(ctx, f)
			if ctx.Err() != nil || !errors.Is(lead.Err(), ErrLost) {
				return err
			}
		}
		again := errors.Is(err, ErrHeld) || errors.Is(err, ErrNotHeld) || errors.Is(err, ErrLost) || wavering(err)
		if ctx.Err() != nil || !again || !e.lock.client.sender.Pause(ctx, failures) {
			return err
		}
	}
}

// wavering reports an error of the server or the way to it that may pass.
func wavering(err error) bool {
	return request.Transient(err) && (request.Definite(err) || errors.Is(err, ErrUnknownOutcome))
}

// Term is the fencing token of the lead: every later leader's is higher.
func (l *Leadership) Term() uint64 { return l.lease.Token() }

// HolderID is the identity of the lead on the server, as [Lease.HolderID] has it.
func (l *Leadership) HolderID() string { return l.lease.HolderID() }

// Context is done when the lead is lost or given up, like that of a [Lease].
func (l *Leadership) Context() context.Context { return l.lease.Context() }

// Err is nil while it leads, and then why the lead ended.
func (l *Leadership) Err() error { return l.lease.Err() }

// Remaining is for how long the lead is to be trusted if no further renewal
// succeeds; 0 when it has ended.
func (l *Leadership) Remaining() time.Duration { return l.lease.Remaining() }

// Value is what was proclaimed last, as far as that is known to have succeeded.
func (l *Leadership) Value() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.value
}

// Proclaim changes the value that the leader stands for.
//
// If the error is an [ErrNotHeld], the lead is lost. After an
// [ErrUnknownOutcome] the old value or the new one may be seen, until the next
// Proclaim; the lead goes on.
func (l *Leadership) Proclaim(ctx context.Context, value string) error {
	if err := checkValue(value); err != nil {
		return err
	}
	switch {
	case ctx == nil:
		return errNoContext
	case l.Err() != nil:
		return fmt.Errorf("%w: %w", ErrNotHeld, l.Err())
	}
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return fmt.Errorf("holdfast: proclamation for %q: %w", l.election.Name(), ctx.Err())
	}
	h := l.lease.state.hold
	answer, err := l.say(ctx, wire.Value(value))
	switch {
	case err != nil:
		return wrap("proclamation for", h.lock.name, err)
	case answer == "gone":
		h.endMissing(ctx)
		return fmt.Errorf("%w: %w", ErrNotHeld, l.Err())
	case answer != "proclaimed" && answer != "late": // late: a copy of this request was faster
		return wrap("proclamation for", h.lock.name, wire.BadAnswer(answer))
	}
	l.mu.Lock()
	l.value = value
	l.mu.Unlock()
	return nil
}

// say sends one proclamation; the caller has the turn.
func (l *Leadership) say(ctx context.Context, word string) (string, error) {
	h := l.lease.state.hold
	l.number++
	return h.lock.client.sender.Run(ctx, script.Proclaim, h.lock.keys(), []string{
		h.attempt, wire.Number(h.server.Load()), strconv.FormatUint(l.number, 10), word, l.election.watch,
		h.lock.client.retention,
	})
}

// farewellLimit bounds what a leader says to those who observe before it resigns.
const farewellLimit = time.Second

// Resign gives the lead up, to the next candidate in the same step. The
// leadership's context is done before anything is sent, and who observes is
// told that nobody leads before somebody else can.
//
// It works although ctx has ended, and its errors are those of [Lease.Release].
func (l *Leadership) Resign(ctx context.Context) error {
	if ctx == nil {
		return errNoContext
	}
	l.resigning <- struct{}{} // who resigns at the same time returns after us
	defer func() { <-l.resigning }()
	if l.lease.state.end(ErrReleased) {
		// A courtesy: without it, who observes looks when the lease may be over.
		select {
		case l.turn <- struct{}{}:
			_, _ = l.say(request.Within(request.Lasting(ctx), farewellLimit), "")
			<-l.turn
		default: // a proclamation is under way, and stands until the next leader's
		}
	}
	return l.lease.Release(ctx)
}
