package gocronlock

import (
	"context"
	"errors"
	"sync"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast"
)

// ErrNotLeader says that another scheduler leads, or none.
var ErrNotLeader = errors.New("gocronlock: this scheduler does not lead")

// Elector is a [gocron.Elector]: the scheduler that leads runs all jobs. [Elector.Run] campaigns in the
// background. It is safe for use by many goroutines.
type Elector struct {
	election *holdfast.Election
	identity string

	mu   sync.Mutex // guards the fields below; nothing is called under it
	lead *holdfast.Leadership
	own  context.Context // ends with lead, and with the context of Run
	jobs int             // jobs of Func that run under lead
	idle chan struct{}   // closed when jobs becomes 0 and nobody leads; nil: nobody waits for it
}

var _ gocron.Elector = (*Elector)(nil)

// NewElector returns an elector. identity is what the leader publishes, such as the name of its
// machine. It does no I/O.
func NewElector(election *holdfast.Election, identity string) *Elector {
	return &Elector{election: election, identity: identity}
}

// Run campaigns until ctx ends, and again after a loss. Shut the scheduler down first, then end ctx.
// Run resigns when the jobs of [Elector.Func] have ended, so that no other scheduler leads while they
// work. A job without Func is not waited for.
//
// The error is nil if ctx ended, or that of [holdfast.Election.Loop] if the server refused for good.
func (e *Elector) Run(ctx context.Context) error {
	err := e.election.Loop(ctx, e.identity, func(ctx context.Context, lead *holdfast.Leadership) error {
		e.mu.Lock()
		e.lead, e.own = lead, ctx
		e.mu.Unlock()
		<-ctx.Done()
		<-e.stopLeading()
		return nil
	})
	if ctx.Err() != nil && !errors.Is(err, holdfast.ErrInvalid) {
		return nil
	}
	return err
}

// stopLeading lets no further job begin. The channel is closed when the last one has ended.
func (e *Elector) stopLeading() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	idle := make(chan struct{})
	e.lead, e.own = nil, nil
	if e.jobs == 0 {
		close(idle)
	} else {
		e.idle = idle
	}
	return idle
}

// IsLeader returns nil if this scheduler leads, and otherwise [ErrNotLeader]. It sends nothing, and
// trusts no leadership past its trust deadline. gocron calls it.
func (e *Elector) IsLeader(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lead == nil || e.lead.Err() != nil {
		return ErrNotLeader
	}
	return nil
}

// Func returns a job for gocron.NewTask that runs f while this scheduler leads. The context of f is
// that of the job, and it also ends when the leadership is lost, or when the context of Run ends.
// f should return then. [holdfast.LeaseOf] of the context says the term, a fencing token.
//
// If this scheduler does not lead, the job returns [ErrNotLeader] and f does not run. If the leadership
// was lost before f ended, the error joins f's error and a [*holdfast.LostError].
func (e *Elector) Func(f func(ctx context.Context) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		lead, own := e.enter()
		if lead == nil {
			return ErrNotLeader
		}
		defer e.leave()
		return under(ctx, own, lead.Err, f)
	}
}

func (e *Elector) enter() (*holdfast.Leadership, context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lead == nil || e.lead.Err() != nil {
		return nil, nil
	}
	e.jobs++
	return e.lead, e.own
}

func (e *Elector) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.jobs--
	if e.jobs == 0 && e.idle != nil {
		close(e.idle)
		e.idle = nil
	}
}
