package hold

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/observe"
)

// session is one hold of a command that holds a lock, from the first check to the release. It knows how to wait, to
// run something under the lock, and to release. How the lock is acquired, and what is done under it, is for the
// command to say: see [session.within].
type session struct {
	*runOptions
	say     *say.Printer
	events  *events
	signals chan os.Signal
	waiting chan observe.Event // the observer's events
	away    chan error         // a request got no answer

	path   string // of the command
	server *target.Server
	lease  lease
	since  time.Duration // the time of the grant, by clock
	kept   bool          // the lock is kept after our end
	lost   bool          // the lease was lost
	held   heldLock

	guardian    *proc.Guardian // waits for the command; nil: it is started with the command
	state       *stateFile     // of --state; nil: none
	prefix      string         // of every key
	began       bool           // the command has begun
	interrupted os.Signal      // a signal that ends us came while the command ran
	left        []proc.Process // what the command has left behind
}

// conduct does work, with the events and the signals of a run around it.
func conduct(
	a *target.App, o *runOptions, work func(a *target.App, r *session) (code int, reason string, err error),
) error {
	ev, err := openEvents(o.names, o.eventsFD)
	if err != nil {
		return err
	}
	r := &session{runOptions: o, say: a.Say, events: ev,
		signals: make(chan os.Signal, 16), waiting: make(chan observe.Event, 4), away: make(chan error, 1)}
	// From here on signals are ours: if one comes while we wait, we must leave the
	// wait queue before we end.
	signal.Notify(r.signals, proc.Signals()...)
	// If nobody reads our messages any more, that is no reason to end the command. Nor is it ignored: the command
	// would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	code, reason, err := work(a, r)
	r.sayLeft()
	if err != nil {
		if code == 0 {
			code = exit.Of(err)
		}
		a.Say.Fail(err)
	}
	if reason == "" {
		reason = exit.NameOf(code)
	}
	ev.emit(event{Event: "end", Code: &code, Reason: reason})
	return exit.Silent(code)
}

// within is a session from the request for the lock to the release. acquire says how the lock is acquired, and under
// what is done with the lock held. It returns the exit code and its reason.
func (r *session) within(
	a *target.App, acquire way, under func() (code int, reason string, err error),
) (code int, reason string, err error) {
	defer r.close()
	if held, code, reason, err := r.obtain(a, acquire); !held {
		r.dismissGuardian()
		return code, reason, err
	}
	code, reason, err = r.afterHook(under)
	return r.release(code, reason), reason, err
}

// way says how a lock is acquired by a client of the session.
type way func(options []holdfast.LockOption) acquirer

// byFlags is the way that the flags say.
func (r *session) byFlags(options []holdfast.LockOption) acquirer {
	if r.server.Old != nil {
		return bridged(r.server, r.names[0], options)
	}
	return r.acquirer(r.server.Client, r.names, options)
}

// findCommand finds the command before anything is asked of the server.
func (r *session) findCommand() (code int, reason string, err error) {
	if r.path, err = proc.Look(r.argv()[0]); err != nil {
		return proc.StartCode(err), "not-started", r.cannotStart(err)
	}
	return 0, "", nil
}

// afterHook runs --on-acquire-exec and then what is done under the lock. It returns the exit code and its reason.
func (r *session) afterHook(under func() (int, string, error)) (code int, reason string, err error) {
	if r.acquireExec != "" {
		if code, reason, err = r.hook(); reason != "done" {
			return code, reason, err
		}
	}
	return under()
}

// superviseCommand runs the command under the lease. It returns the exit code and its reason.
func (r *session) superviseCommand() (code int, reason string, err error) {
	s, err := r.start(r.path, r.argv(), true)
	if err != nil {
		return proc.StartCode(err), "not-started", r.cannotStart(err)
	}
	defer s.child.Close()
	r.began = true
	r.sayLeft() // of the run before
	r.events.emit(event{Event: "started", PID: s.child.PID()})
	s.wait()
	code = s.child.Code()
	r.events.emit(event{Event: "exited", Code: &code})
	s.waitRest()
	code, reason = s.verdict()
	return code, reason, nil
}

// sayLeft says which processes the command has left behind without the lock. The lock is released by now: what has
// ended meanwhile, as the end of a pipe does a moment after its begin, is not worth a word.
func (r *session) sayLeft() {
	r.left = slices.DeleteFunc(r.left, func(p proc.Process) bool { return !p.Runs() })
	if len(r.left) > 0 {
		r.say.Warnf("--wait-all keeps the lock until they have ended",
			"the command has ended, and left processes running without the lock: %s", listed(r.left))
	}
	r.left = nil
}

// maxListed is how many processes a message names.
const maxListed = 5

// listed are processes as messages show them.
func listed(list []proc.Process) string {
	texts := make([]string, 0, maxListed+1)
	for i, p := range list {
		if i == maxListed {
			texts = append(texts, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		texts = append(texts, p.String())
	}
	return strings.Join(texts, ", ")
}

// holdOnly holds the lock without a command, until the input ends, a signal comes or the lock is lost. Without an
// input, it does not end.
func (r *session) holdOnly(input io.Reader) (code int, reason string, err error) {
	over := make(chan struct{})
	if input != nil {
		go func() {
			// Only the end counts. In the background of a terminal nothing can be read: then a signal ends it.
			if _, err := io.Copy(io.Discard, input); err == nil {
				close(over)
			}
		}()
	}
	for {
		select {
		case <-over:
			return exit.CodeOK, "done", nil
		case sig := <-r.signals:
			if proc.Ends(sig) {
				return exit.CodeSignal + proc.Number(sig), "interrupted", nil
			}
		case <-r.lease.Context().Done():
			s := &supervisor{session: r, plan: plan{lost: true}}
			code, reason = s.verdict()
			return code, reason, nil
		}
	}
}

func (r *session) dismissGuardian() {
	if r.guardian != nil {
		r.guardian.Dismiss()
	}
}

// obtain connects to the server and acquires the lock. If the lock is not held then, it
// returns the exit code and its reason.
func (r *session) obtain(a *target.App, acquire way) (held bool, code int, reason string, err error) {
	cfg := r.config()
	cfg.Under = around(os.Getenv(envChain), a.Server.Prefix)
	if r.server, err = a.OpenOn(&r.WireFlags, cfg, r.uses()...); err != nil {
		return false, 0, "", err
	}
	r.surround()
	sig, err := r.acquire(acquire)
	var dead *holdfast.DeadlockError
	switch nested := (*nestedError)(nil); {
	case sig != nil:
		r.say.Infof("%v while waiting for %s: holdfast left the wait queue", sig, quoted(r.names))
		return false, exit.CodeSignal + proc.Number(sig), "interrupted", nil
	case errors.Is(err, holdfast.ErrHeld) && exit.Unasked(err) == nil:
		r.showBusy(err)
		return false, int(r.busyCode), "busy", nil
	case errors.As(err, &nested):
		return false, int(r.busyCode), "busy", nested.refusal
	case errors.As(err, &dead):
		return false, int(r.busyCode), "busy", deadlockError(int(r.busyCode), dead)
	case err != nil:
		return false, 0, "", r.server.ExplainAny(r.names, err)
	}
	return true, 0, "", nil
}

// close releases what is left and leaves the wait queue. If the lock is kept, it
// abandons the client instead: closing it would remove the holder's name from the
// server, and status could not show it.
func (r *session) close() {
	if r.server == nil {
		return
	}
	if r.kept {
		r.server.Client.Abandon()
		return
	}
	ctx, cancel := r.closing()
	defer cancel()
	r.server.Close(ctx)
}

// lostCloseTimeout is how long the last requests may take after a lost lease: our exit code is urgent then, and a
// release has nothing left to free, unless an operator has asked for it.
const lostCloseTimeout = 300 * time.Millisecond

// closing bounds the last requests.
func (r *session) closing() (context.Context, context.CancelFunc) {
	var lost *holdfast.LostError
	if r.lost && !(errors.As(r.lease.Err(), &lost) && lost.Reason == holdfast.LossEvicted) {
		return context.WithTimeout(context.Background(), lostCloseTimeout)
	}
	return context.WithTimeout(context.Background(), target.CloseTimeout)
}

func (r *session) config() holdfast.Config {
	app := r.app
	if app == "" {
		word, _, _ := strings.Cut(strings.TrimSpace(r.shell), " ")
		if len(r.command) > 0 {
			word = r.command[0]
		} else if word == "" {
			word = "holdfast"
		}
		app = filepath.Base(word)
		app = strings.ToValidUTF8(app[:min(len(app), maxApp)], "") // no half of a character
	}
	return holdfast.Config{TTL: time.Duration(r.ttl), App: app, Observer: observer(r.waiting), Logger: r.logger()}
}

// observer passes on that a wait begins, for the lock or for the server, and that a lease
// is confirmed or released.
type observer chan observe.Event

// Observe must not block: the reader may have stopped.
func (o observer) Observe(e observe.Event) {
	switch e.Kind { //nolint:exhaustive // the others tell nothing that the tool does not know
	case observe.EventWait, observe.EventAway, observe.EventRenew, observe.EventRelease, observe.EventDeadlock:
		select {
		case o <- e:
		default:
		}
	}
}

// logger prints the library's log with --verbose.
func (r *session) logger() *slog.Logger {
	if r.say.Level < say.Verbose {
		return nil
	}
	return slog.New(say.Log{Say: r.say})
}

// environment is the environment of what runs under the lock.
func (r *session) environment() []string {
	return environment(os.Environ(), r.held, r.variables, r.passURL)
}

// hook runs --on-acquire-exec to its end. If it fails, or if a signal came that ends us, the command is not started.
func (r *session) hook() (code int, reason string, err error) {
	argv := shell(r.acquireExec)
	s, err := r.start(argv[0], argv, false)
	if err != nil {
		return exit.CodeNotStarted, "not-started", fmt.Errorf("--on-acquire-exec: %w", err)
	}
	defer s.child.Close()
	s.wait()
	for len(r.signals) > 0 { // a terminal has sent it to both of us
		s.pass(<-r.signals)
	}
	switch code, reason = s.verdict(); {
	case reason != "done":
		return code, reason, nil
	case r.interrupted != nil:
		return exit.CodeSignal + proc.Number(r.interrupted), "interrupted", nil
	case code != exit.CodeOK:
		err = fmt.Errorf("--on-acquire-exec failed with exit code %d; the command was not started", code)
		return exit.CodeNotStarted, "not-started", err
	}
	return exit.CodeOK, "done", nil
}

// release releases the lock and returns the exit code. It changes the code only if
// the lease turns out to be gone.
func (r *session) release(code int, reason string) int {
	held := clock.Now() - r.since
	r.lost = reason == "lost"
	if r.stoppedEarly() {
		r.abandon()
		return code
	}
	keep := time.Duration(r.minHold) - held
	err := r.releaseOrKeep(keep)
	switch {
	case err == nil:
		r.events.emit(event{Event: "released", HeldMS: millis(held)})
		r.say.Infof("released %s after %v", quoted(r.names), held.Round(time.Millisecond))
		if keep > 0 {
			r.say.Infof("%s is kept locked for another %v", quoted(r.names), keep.Round(time.Millisecond))
		}
	case r.lost:
		// The loss was printed before, and explains why the release fails.
	case errors.Is(err, holdfast.ErrNotHeld), errors.Is(err, holdfast.ErrLost):
		r.say.Put("error", goneAtEnd(err, r.names), exit.HintOf(err))
		return int(r.lostCode)
	default:
		r.cannotRelease(err)
	}
	return code
}

// cannotRelease says for how long the lock may stay held.
func (r *session) cannotRelease(err error) {
	r.say.Warnf("the lease expires by itself within "+time.Duration(r.ttl+r.lockDelay).String(),
		"cannot release %s: %s", quoted(r.names), target.Cause(err))
}

// stoppedEarly reports whether holdfast has stopped the command before its lease was lost, and the lock has a
// lock-delay: what the command has sent may still be on its way, so no release may free the lock. After a loss, the
// library sees to that.
func (r *session) stoppedEarly() bool { return r.lost && r.lockDelay > 0 && r.lease.Err() == nil }

// abandon leaves the lock, in any form, to the end of its lease.
func (r *session) abandon() {
	for _, c := range r.server.Clients() {
		c.Abandon()
	}
}

// releaseOrKeep releases the lease, or keeps the lock for keep longer.
func (r *session) releaseOrKeep(keep time.Duration) error {
	ctx, cancel := r.closing()
	defer cancel()
	if later, ok := r.lease.(*holdfast.Lease); ok && keep > 0 {
		r.kept = true
		return later.ReleaseAfter(ctx, keep)
	}
	return r.lease.(releaser).Release(ctx)
}
