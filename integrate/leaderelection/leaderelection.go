// Package leaderelection runs callbacks for the leader of a [holdfast.Election], in the form that
// programs of Kubernetes know from client-go: OnStartedLeading, OnStoppedLeading, OnNewLeader.
// It imports nothing of Kubernetes. [LeaderCallbacks] has the fields of client-go's, so a value of one
// converts to the other. `make test-beside BESIDE=kubernetes` compiles that, and runs both electors.
//
// Three things differ from client-go:
//
//   - Run resigns after OnStartedLeading has returned, not before. So no other process leads while
//     the callback still works.
//   - OnStoppedLeading is called only after OnStartedLeading, once for each term.
//   - Run continues after a loss: it campaigns again. It ends when its context ends, or when the
//     server refuses.
package leaderelection

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast"
)

// LeaderCallbacks are what Run calls. None of them may call Run.
type LeaderCallbacks struct {
	// OnStartedLeading works as the leader. Its context ends when the leadership is lost or the
	// context of Run ends. It should return then: Run waits for it, and campaigns or resigns
	// after it. If it returns earlier and still leads, this process continues to lead and does
	// no work, as in client-go. [holdfast.LeaseOf] of its context says the term, a fencing
	// token. It must not be nil.
	OnStartedLeading func(ctx context.Context)

	// OnStoppedLeading is called after OnStartedLeading has returned and before Run resigns. So no
	// other process leads yet, unless the leadership was lost. It may be nil.
	OnStoppedLeading func()

	// OnNewLeader is called with the identity of each leader that Run sees, also of this one.
	// Of several quick changes, it may get only the last one. The calls come from one
	// goroutine, one after another. It may be nil.
	OnNewLeader func(identity string)
}

// Config says what an elector needs.
type Config struct {
	// Election is the election. Its TTL is the time after which a crashed leader is replaced.
	Election *holdfast.Election
	// Identity is what the leader publishes: the name of the pod, for example. It must not be empty, as that of a
	// variable that is not set would be: nobody would see such a leader.
	Identity  string
	Callbacks LeaderCallbacks
}

// LeaderElector is a candidate of an election. It is safe for use by many goroutines.
type LeaderElector struct {
	cfg Config

	mu     sync.Mutex // guards the fields below; no callback is called under it
	lead   *holdfast.Leadership
	leader string
}

// New checks cfg. It does no I/O. The error is a [holdfast.ErrInvalid].
func New(cfg Config) (*LeaderElector, error) {
	switch {
	case cfg.Election == nil:
		return nil, fmt.Errorf("%w: leaderelection: Config.Election is nil", holdfast.ErrInvalid)
	case cfg.Identity == "":
		return nil, fmt.Errorf("%w: leaderelection: Config.Identity is empty", holdfast.ErrInvalid)
	case cfg.Callbacks.OnStartedLeading == nil:
		return nil, fmt.Errorf("%w: leaderelection: OnStartedLeading is nil", holdfast.ErrInvalid)
	}
	return &LeaderElector{cfg: cfg}, nil
}

// Run campaigns, and calls the callbacks until ctx ends. When it returns, no callback runs, and this
// process does not lead. If the resignation got no answer, another one leads within the TTL.
//
// The error is nil if ctx ended, or that of [holdfast.Election.Loop] if the server refused for good.
func (e *LeaderElector) Run(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	var observing sync.WaitGroup
	defer observing.Wait()
	defer stop() // also after a panic of a callback
	if e.cfg.Callbacks.OnNewLeader != nil {
		observing.Go(func() { e.observe(running) })
	}
	err := e.cfg.Election.Loop(ctx, e.cfg.Identity, func(lctx context.Context, lead *holdfast.Leadership) error {
		e.term(lctx, lead)
		return nil
	})
	if ctx.Err() != nil && !errors.Is(err, holdfast.ErrInvalid) {
		return nil
	}
	return err
}

// term is one term of this process. It ends when ctx ends.
func (e *LeaderElector) term(ctx context.Context, lead *holdfast.Leadership) {
	e.setLead(lead)
	defer e.setLead(nil)
	if stopped := e.cfg.Callbacks.OnStoppedLeading; stopped != nil {
		defer stopped()
	}
	e.cfg.Callbacks.OnStartedLeading(ctx)
	<-ctx.Done()
}

func (e *LeaderElector) setLead(lead *holdfast.Leadership) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lead = lead
}

// observe reports the leaders. Errors end it only with ctx or for good: Observe continues by itself
// while the server is away.
func (e *LeaderElector) observe(ctx context.Context) {
	for leader, err := range e.cfg.Election.Observe(ctx) {
		if err != nil || leader.Token == 0 {
			e.setLeader("")
			continue
		}
		if e.setLeader(leader.Value) {
			e.cfg.Callbacks.OnNewLeader(leader.Value)
		}
	}
}

// setLeader notes who leads, and reports whether that is somebody else than before. Another term of
// the same identity is the same leader.
func (e *LeaderElector) setLeader(identity string) (changed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if identity == "" {
		return false // nobody leads for now; the next one counts only if it is another one
	}
	changed = identity != e.leader
	e.leader = identity
	return changed
}

// IsLeader reports whether this process leads. It is false from the trust deadline of the leadership
// on, also if Run has not noticed yet.
func (e *LeaderElector) IsLeader() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lead != nil && e.lead.Err() == nil
}

// GetLeader returns the identity of the last leader that Run has seen. It is empty before the first
// one, and without OnNewLeader. It may be out of date: [holdfast.Election.Leader] asks the server.
func (e *LeaderElector) GetLeader() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.leader
}
