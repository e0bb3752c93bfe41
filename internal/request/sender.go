// Package request sends the requests of a client to its store: one by one, in
// batches, once more when there was no answer, and in the background what must
// reach the server in the end. It also says what an error means. It knows nothing
// of leases, and holds none of their state.
package request

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/lifecycle"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Config is what a Sender works with.
type Config struct {
	Store     store.Store
	Prefix    string        // of keys and channels
	Timeout   time.Duration // of one request
	Retention string        // of a record, as scripts are told it
	Now       func() time.Duration
	Random    func() float64   // spreads what would else happen at one time; from [0, 1)
	Life      *lifecycle.Group // runs what is sent in the background
}

// Sender sends requests.
type Sender struct {
	Config
	batches batches
}

// New makes a Sender. It does no I/O.
func New(cfg Config) *Sender {
	s := &Sender{Config: cfg}
	s.batches.open(s)
	return s
}

// Run sends one script. Unless its error is the server's refusal or
// [store.ErrNotSent], it does not say whether the script ran.
func (s *Sender) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	answer, err := s.Store.Run(Within(ctx, s.Timeout), action, keys, args)
	if err != nil {
		err = s.explained(InTime(ctx, err))
	}
	return answer, err
}

// Ask sends one script about one lock and reads its answer. Its errors are those of
// [Sender.Run], and wire.ErrAnswer.
func (s *Sender) Ask(ctx context.Context, action *script.Script, keys, args []string) (wire.Answer, error) {
	answer, err := s.Run(ctx, action, keys, args)
	if err != nil {
		return wire.Answer{}, err
	}
	return wire.Parse(answer)
}

// Record reads what the server keeps of a lock.
func (s *Sender) Record(ctx context.Context, keys []string) (wire.Record, error) {
	answer, err := s.Run(ctx, script.Inspect, keys, nil)
	if err != nil {
		return wire.Record{}, err
	}
	return wire.ParseRecord(answer)
}

// Acks are the acknowledgements that a write waits for.
type Acks struct {
	Need  store.Acks
	Limit time.Duration // of each kind of waiting
}

// Wanted reports that there is something to wait for.
func (a Acks) Wanted() bool { return a != Acks{} }

// Total bounds the waiting: WAIT and WAITAOF follow each other.
func (a Acks) Total() time.Duration {
	if a.Need.Replicas > 0 && a.Need.LocalAOF > 0 {
		return 2 * a.Limit
	}
	return a.Limit
}

// RunAcked is [Sender.Run] for a write that waits for acknowledgements. got is what
// there was. If that is less than was needed, the script has run all the same.
func (s *Sender) RunAcked(
	ctx context.Context, need Acks, action *script.Script, keys, args []string,
) (answer string, got store.Acks, err error) {
	limited := Within(ctx, s.Timeout)
	if !need.Wanted() {
		answer, err = s.Store.Run(limited, action, keys, args)
	} else {
		answer, got, err = s.Store.(store.Acker).RunAcked(limited, action, keys, args, need.Need, need.Limit)
	}
	return answer, got, InTime(ctx, err)
}

// Twice is ctx for as long as a request and one more of the same may take that began at
// start.
func (s *Sender) Twice(ctx context.Context, start time.Duration) context.Context {
	return Within(ctx, start+2*s.Timeout-s.Now())
}

// Resend sends a request, and once more if it brought no answer, for a script that
// tolerates that. What refuses the second copy says nothing about the first: then the
// outcome is as unknown as before.
func Resend(ctx context.Context, ask func() (wire.Answer, error)) (wire.Answer, error) {
	a, err := ask()
	if err == nil || Definite(err) || ctx.Err() != nil {
		return a, err
	}
	again, second := ask()
	if Definite(second) {
		return a, err
	}
	return again, second
}

// AskTwice is [Sender.Ask] by [Resend].
func (s *Sender) AskTwice(
	ctx context.Context, action *script.Script, keys, args []string,
) (wire.Answer, error) {
	return Resend(ctx, func() (wire.Answer, error) { return s.Ask(ctx, action, keys, args) })
}

// Pause waits before the next try after so many failures before the last one. It
// reports false if ctx ends or the client closes before.
func (s *Sender) Pause(ctx context.Context, failures int) bool {
	return s.Life.Sleep(ctx, backoff.Default.After(failures, s.Random()))
}

// explained adds to a lack of permission what a hint needs to be exact.
func (s *Sender) explained(err error) error {
	if !IsPermission(err) {
		return err
	}
	return &PermissionError{ServerError: Refusal(err), Prefix: s.Prefix}
}
