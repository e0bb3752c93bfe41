// Package request sends the requests of a client to its store: one by one, or in batches. It
// sends a request once more if no answer comes, and sends in the background what must reach
// the server in the end. It also says what an error means. It knows nothing of leases and
// has none of their state.
package request

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/lifecycle"
	"github.com/holdfast-go/holdfast/internal/timelimit"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Config has the settings of a Sender.
type Config struct {
	Store     store.Store
	Prefix    string        // of keys and channels
	Timeout   time.Duration // of one request
	Retention string        // of a record, as an argument of the scripts
	Now       func() time.Duration
	Random    func() float64   // spreads clients in time; from [0, 1)
	Life      *lifecycle.Group // runs what is sent in the background
}

// Sender sends requests.
type Sender struct {
	Config
	batchers batchers
}

// New makes a Sender. It does no I/O.
func New(cfg Config) *Sender {
	s := &Sender{Config: cfg}
	s.batchers.open(s)
	return s
}

// Run sends one script. If its error is neither a refusal nor [store.ErrNotSent], the script
// may have run.
func (s *Sender) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	return s.run(timelimit.Within(ctx, s.Timeout), ctx, action, keys, args)
}

// RunWithin is [Sender.Run] with another time limit.
func (s *Sender) RunWithin(
	ctx context.Context, limit time.Duration, action *script.Script, keys, args []string,
) (string, error) {
	return s.run(timelimit.Within(ctx, limit), ctx, action, keys, args)
}

// run is Run for a context that has its time limit already. caller is that context without.
func (s *Sender) run(limited, caller context.Context, a *script.Script, keys, args []string) (_ string, err error) {
	defer s.explain(caller, &err)
	return s.Store.Run(limited, a, keys, args)
}

// Ask sends one script about one lock and reads its answer. Its errors are those of
// [Sender.Run], and wire.ErrAnswer.
func (s *Sender) Ask(ctx context.Context, action *script.Script, keys, args []string) (wire.Answer, error) {
	return wire.Parsed(s.Run(ctx, action, keys, args))
}

// Buffer is the memory of one request. Whoever sends many of them has it beside what it
// allocates anyway, instead of two more allocations for each. A buffer is used once: after
// the answer, a store may still read what was sent.
type Buffer struct {
	Args    [7]string
	End     time.Duration // for [Sender.AskResend]
	limited timelimit.Limited
}

// AskWithin is [Sender.Ask] with another time limit. The request is in buf.
func (s *Sender) AskWithin(
	ctx context.Context, buf *Buffer, limit time.Duration, action *script.Script, keys, args []string,
) (wire.Answer, error) {
	return wire.Parsed(s.run(buf.limited.Within(ctx, limit), ctx, action, keys, args))
}

// Record reads what the server keeps of a lock, see [wire.ReadRecord]. A caller that counts
// permits passes their mode, so that a store refuses that if it has none.
func (s *Sender) Record(ctx context.Context, keys []string, mode ...string) (wire.Record, error) {
	return wire.ReadRecord(s.inspect(ctx, keys), nil, mode...)
}

// RecordUntil is [Sender.Record] that reads no further than to a page that enough accepts.
func (s *Sender) RecordUntil(
	ctx context.Context, keys []string, enough func(page *wire.Record) bool, mode ...string,
) (wire.Record, error) {
	return wire.ReadRecord(s.inspect(ctx, keys), enough, mode...)
}

func (s *Sender) inspect(ctx context.Context, keys []string) func(args []string) (string, error) {
	return func(args []string) (string, error) { return s.Run(ctx, script.Inspect, keys, args) }
}

// Acks are the acknowledgements that a write waits for.
type Acks struct {
	Need  store.Acks
	Limit time.Duration // of each kind of waiting
}

// Wanted reports whether the write waits for any.
func (a Acks) Wanted() bool { return a != Acks{} }

// Total is the longest time for which the write waits. WAIT and WAITAOF follow each other.
func (a Acks) Total() time.Duration {
	if a.Need.Replicas > 0 && a.Need.LocalAOF > 0 {
		return 2 * a.Limit
	}
	return a.Limit
}

// RunAcked is [Sender.Run] for a write that waits for acknowledgements. got are those that
// came. If there are fewer than needed, the script has run all the same. limit is the time limit.
func (s *Sender) RunAcked(
	ctx context.Context, limit time.Duration, need Acks, action *script.Script, keys, args []string,
) (answer string, got store.Acks, err error) {
	limited := timelimit.Within(ctx, limit)
	if !need.Wanted() {
		answer, err = s.Store.Run(limited, action, keys, args)
	} else {
		acker, _ := store.As[store.Acker](s.Store) // without one, the client refuses the option
		answer, got, err = acker.RunAcked(limited, action, keys, args, need.Need, need.Limit)
	}
	return answer, got, InTime(ctx, err)
}

// WithinResend returns ctx with the time limit of a request that began at start and is followed by
// another one.
func (s *Sender) WithinResend(ctx context.Context, start time.Duration) context.Context {
	return timelimit.Within(ctx, start+2*s.Timeout-s.Now())
}

// WithResend sends a request, and once more if no answer comes before end: again. Both get the time that is
// left until then. The script must tolerate that. If the second copy is refused, the outcome of the first
// is still unknown.
func (s *Sender) WithResend(
	ctx context.Context, end time.Duration, ask, again func(limit time.Duration) (wire.Answer, error),
) (wire.Answer, error) {
	a, err := ask(end - s.Now())
	if err == nil || Definite(err) || ctx.Err() != nil || s.Now() >= end {
		return a, err
	}
	second, failed := again(end - s.Now())
	if Definite(failed) {
		return a, err
	}
	return second, failed
}

// AskResend is [Sender.Ask] with [Sender.WithResend]. Both requests end at b.End. The first one is in b.
func (s *Sender) AskResend(ctx context.Context, b *Buffer, a *script.Script, keys, args []string) (wire.Answer, error) {
	return s.WithResend(ctx, b.End,
		func(d time.Duration) (wire.Answer, error) { return s.AskWithin(ctx, b, d, a, keys, args) },
		func(d time.Duration) (wire.Answer, error) { return s.AskWithin(ctx, new(Buffer), d, a, keys, args) })
}

// IsSilence reports whether the server did not answer within a time limit of the library.
func IsSilence(err error) bool {
	var silent *SilenceError
	return errors.As(err, &silent)
}

// Pause waits before the next try. failures counts the failures before the last one. Pause
// returns false if ctx ends or the client closes before.
func (s *Sender) Pause(ctx context.Context, failures int) bool {
	return s.Life.Sleep(ctx, backoff.Default.After(failures, s.Random()))
}

// explain says what an error of a request means for its caller. It adds the prefix to a refusal
// for lack of a permission, for the hint.
func (s *Sender) explain(ctx context.Context, err *error) {
	if *err == nil {
		return
	}
	if *err = InTime(ctx, *err); IsPermission(*err) {
		*err = &PermissionError{Err: *err, Prefix: s.Prefix}
	}
}
