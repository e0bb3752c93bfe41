package hold

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/observe"
)

// start starts argv under the lease. --max-run limits the command only, so it is
// limited if argv is the command.
func (r *session) start(path string, argv []string, limited bool) (*supervisor, error) {
	shared := (term.IsTerminal(int(os.Stdin.Fd())) || proc.Foreground()) && !r.signalGroup
	spec := proc.Spec{
		Path: path, Args: argv, Env: r.environment(), Group: !shared,
	}
	if !r.noStdin {
		spec.Stdin = os.Stdin
	}
	s := &supervisor{session: r, shared: shared, plan: newPlan(time.Duration(r.killAfter))}
	s.plan.ignore = r.onLost == "ignore"
	s.plan.deadline = clock.Now() + r.lease.Remaining()
	if limited && r.maxRun > 0 {
		s.plan.maxAt = clock.Now() + time.Duration(r.maxRun)
	}
	if stop, ok := proc.StopSignal(); ok {
		signal.Notify(r.signals, stop)
	}
	if s.plan.ignore {
		child, err := proc.Start(spec)
		if err == nil {
			s.child = child
		}
		return s, err
	}
	s.guarded = s.plan.deadline
	guard := proc.Guard{
		Limits: s.plan.limits(), Grace: s.plan.grace, Signal: s.signal(), Format: r.say.Format(),
		All: limited && r.waitAll,
	}
	if r.state != nil {
		guard.Keep = r.state.lock
	}
	var err error
	s.child, err = proc.StartGuarded(r.guardian, spec, guard)
	r.guardian = nil
	return s, err
}

func (r *session) cannotStart(err error) error {
	name := r.argv()[0]
	if errors.Is(err, proc.ErrNoGuardian) {
		return exit.With(exit.CodeNotExecutable, fmt.Errorf("cannot execute %s: %w", name, err),
			"on Linux it needs /proc, everywhere some file descriptors (ulimit -n); --on-lost=ignore does without it")
	}
	if unfit, ok := errors.AsType[*exec.Error](err); ok {
		err = unfit.Err
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	_, gone := os.Stat(r.path)
	switch code := proc.StartCode(err); {
	case code == exit.CodeNotFound && gone == nil:
		return exit.With(code, fmt.Errorf("cannot execute %s: %w", name, err), "the file is there, but not the "+
			"interpreter that its first line names: check that line, and that no carriage return ends it")
	case code == exit.CodeNotFound:
		hint := "check the spelling and PATH; for pipes and shell built-ins, use -c 'STRING'"
		if len(r.names) > 1 {
			hint = "the words before -- are names of locks; write the whole command after it: holdfast run " +
				cli.Operand(r.names[0]) + " -- " + cli.Quote(append(slices.Clone(r.names[1:]), r.argv()...)...)
		}
		return exit.With(code, fmt.Errorf("command not found: %s", name), hint)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOEXEC):
		return exit.With(code, fmt.Errorf("cannot execute %s: %w", name, err),
			"the file needs execute permission (chmod +x); a script also needs a first line such as #!/bin/sh")
	default:
		return exit.With(code, fmt.Errorf("cannot execute %s: %w", name, err), "")
	}
}

// supervisor watches one command while it runs under the lease.
type supervisor struct {
	*session
	child  proc.Command
	shared bool // the command shares our terminal and process group
	plan   plan

	guarded time.Duration // the lease's end that the guardian knows

	failed   error // of the last renewal; nil: it was confirmed
	shown    bool  // the loss was printed
	lostHook *proc.Child
}

// wait returns when the command has ended. If we had to stop it, the processes that it
// started have ended, too.
func (s *supervisor) wait() {
	s.watch(s.child.Done(), func() bool { return false }, s.pass)
	s.endGroup()
}

// waitRest notes what the command has left behind. With --wait-all, it waits until that has ended. A signal that
// ends us ends it, too.
func (s *supervisor) waitRest() {
	left := s.child.Left()
	if len(left) == 0 {
		return
	}
	ev := event{Event: "left"}
	for _, p := range left {
		if p.PID != 0 {
			ev.PIDs = append(ev.PIDs, p.PID)
		}
	}
	s.events.emit(ev)
	if !s.waitAll {
		s.left = left
		return
	}
	say := s.say.Infof
	if s.say.Terminal {
		say = s.say.Noticef
	}
	say("the command has ended; holding %s until these have ended, too: %s", quoted(s.names), listed(left))
	ends := func() bool { return s.plan.stopping || s.child.Stopped() }
	s.watch(s.child.Rest(), ends, func(sig os.Signal) {
		if !proc.Ends(sig) {
			s.pass(sig)
			return
		}
		s.interrupted = sig
		now := clock.Now()
		if do, _ := s.plan.stop(now, min(now+s.plan.grace, s.plan.deadline-s.plan.margin)); do == tell {
			s.child.Tell(sig) //nolint:errcheck // it may have ended
		}
	})
	s.endGroup()
}

// watch watches the lease and the signals until over is closed, or enough says so.
func (s *supervisor) watch(over <-chan struct{}, enough func() bool, take func(os.Signal)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	gone := s.lease.Context().Done()
	for !enough() {
		select {
		case <-over:
			return
		case sig := <-s.signals:
			take(sig)
		case <-gone:
			gone = nil
		case e := <-s.waiting: // perhaps a renewal: the guardian learns of it
			if e.Kind == observe.EventRenew {
				s.failed = e.Err
			}
		case <-timer.C:
		}
		timer.Reset(s.check())
	}
}

// check does what the plan says for this moment. It returns the time until the next
// check.
func (s *supervisor) check() time.Duration {
	do, again := s.plan.step(clock.Now(), s.lease.Remaining(), s.lease.Err() != nil)
	if s.plan.deadline > s.guarded && !s.plan.stopping {
		s.guarded = s.plan.deadline
		s.child.Until(s.plan.limits())
	}
	sig := s.signal()
	if s.plan.overtime && !s.plan.lost {
		sig, _ = proc.Named("TERM")
	}
	if do == kill {
		sig = os.Kill
	}
	if s.plan.lost {
		s.showLoss()
	} else if do == tell && s.plan.overtime {
		s.say.Put("error", fmt.Sprintf("the command has run for %v (--max-run): holdfast stops it", &s.maxRun), "")
	}
	switch do {
	case tell:
		s.child.Tell(sig) //nolint:errcheck // it may have ended
	case kill:
		s.child.Kill()
	case goOn:
		return again
	}
	s.events.emit(event{Event: "stopping", Signal: proc.Name(sig), Reason: s.plan.reason()})
	s.say.Infof("sent %s to the command", proc.Name(sig))
	return again
}

// showLoss prints once that the lock is lost, and starts --on-lost-exec.
func (s *supervisor) showLoss() {
	if s.shown {
		return
	}
	s.shown = true
	why, hint := s.whyLost()
	then := "holdfast stops the command"
	switch {
	case s.child == nil:
		then = "holdfast ends"
	case s.child.Gone():
		then = "the command has ended"
	case s.plan.ignore:
		then = "the command goes on (--on-lost=ignore)"
	}
	text := fmt.Sprintf("%s is lost: %s; %s", lostName(s.lease.Err(), s.names), why, then)
	s.say.Put("error", text, hint)
	if s.lostExec == "" {
		return
	}
	argv := shell(s.lostExec)
	hook, err := proc.Start(proc.Spec{Path: argv[0], Args: argv, Group: true, DieWithParent: true,
		Env: s.environment()})
	if err != nil {
		s.say.Warnf("", "--on-lost-exec: %v", err)
		return
	}
	s.lostHook = hook
}

// whyLost says why the lock is lost, and what to do about it. It asks nobody: there is no time for that.
func (s *supervisor) whyLost() (why, hint string) {
	var lost *holdfast.LostError
	known := errors.As(s.lease.Err(), &lost)
	hint = exit.HintOf(holdfast.ErrLost)
	switch {
	case s.noRenew && (s.lease.Err() == nil || known && lost.Reason == holdfast.LossExpired):
		return fmt.Sprintf("its lease of %v expires (--no-renew)", &s.ttl), hint
	case known && lost.Reason == holdfast.LossEvicted:
		return evictedBy(lost), exit.HintOf(lost)
	case known && lost.Reason == holdfast.LossNotHeld:
		return "the server no longer knows the lease", hint
	}
	why = "no renewal was confirmed in time"
	failed := s.failed // the command is stopped before the lease ends, and so before there is a loss
	if known && lost.Err != nil {
		failed = lost.Err
	}
	if failed == nil {
		return why, hint
	}
	if short := target.Cause(failed); short != target.NoAnswer { // that is what the loss says already
		why += " (" + s.server.Title() + ": " + short + ")"
	}
	if refused, ok := errors.AsType[*holdfast.ServerError](failed); ok {
		why = fmt.Sprintf("%s refuses renewals: %s", s.server.Title(), refused.Message)
		hint = exit.HintOf(&holdfast.LostError{Err: failed})
	}
	return why, hint
}

// evictedBy says that an operator ended the lease, and who it was.
func evictedBy(lost *holdfast.LostError) string {
	if by := lost.Evicted; by != nil {
		return fmt.Sprintf("an operator evicted the holder (by %s: %s)", by.By, by.Reason)
	}
	return "an operator evicted the holder"
}

// goneAtEnd says what the release has found that came too late.
func goneAtEnd(err error, names []string) string {
	text := lostName(err, names) + " was no longer held when the command ended"
	if lost, ok := errors.AsType[*holdfast.LostError](err); ok && lost.Reason == holdfast.LossEvicted {
		text += ": " + evictedBy(lost)
	}
	return text
}

// endGroup ends what is left of a command that we stopped, or that its guardian stopped, at
// the plan's time: children may need a moment longer than their parent.
func (s *supervisor) endGroup() {
	if s.child.Stopped() && !s.plan.stopping {
		s.plan.lost = true
		now := clock.Now()
		s.plan.stop(now, min(now+s.plan.grace, s.plan.deadline-s.plan.margin))
	}
	if !s.plan.stopping {
		return
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var late <-chan time.Time // what is left then cannot be killed
	if s.plan.killed {
		s.child.Kill() // the rest, if the command ended by itself just before
		late = time.After(maxPause)
	}
	for !s.child.Gone() {
		select {
		case <-tick.C:
		case <-late:
			return
		}
		if do, _ := s.plan.step(clock.Now(), s.lease.Remaining(), s.lease.Err() != nil); do == kill {
			s.child.Kill()
			late = time.After(maxPause)
		}
	}
}

// awaitHook waits until --on-lost-exec has ended, or kills it when its time is over.
func (s *supervisor) awaitHook() {
	if s.lostHook == nil {
		return
	}
	select {
	case <-s.lostHook.Done():
		if code := s.lostHook.Code(); code != 0 {
			s.say.Warnf("", "--on-lost-exec failed with exit code %d", code)
		}
	case <-time.After(maxGrace):
		s.lostHook.Kill()
		s.say.Warnf("", "--on-lost-exec took more than %v: holdfast killed it", maxGrace)
	}
}

// pass passes a signal on to the command, unless the terminal has done so.
func (s *supervisor) pass(sig os.Signal) {
	if proc.Ends(sig) {
		s.interrupted = sig
	}
	if proc.Stops(sig) {
		s.suspend(sig)
		return
	}
	if proc.Continues(sig) && !s.shared {
		// While we were stopped, the lease may have expired. Then the command must not
		// continue.
		s.check()
		if s.plan.stopping {
			return
		}
	}
	if s.shared && proc.FromTerminal(sig) {
		return
	}
	if err := s.child.Signal(sig); err == nil {
		s.say.Infof("passed %s on to the command", proc.Name(sig))
	}
	if wake, ok := proc.ContinueSignal(); ok && proc.Ends(sig) {
		s.child.Signal(wake) //nolint:errcheck // a command that is stopped would not end, and would keep the lock
	}
}

// suspend stops the command, as Ctrl-Z asks. If a shell waits for us, we stop too, and
// the lease may expire meanwhile: we check it when we continue. Without a shell we keep
// running, and hold the lock for the stopped command.
func (s *supervisor) suspend(sig os.Signal) {
	if !s.shared {
		s.child.Signal(sig) //nolint:errcheck // it may have ended
	}
	if !proc.HasTerminal() {
		return
	}
	if err := proc.StopSelf(); err != nil {
		return
	}
	s.check() // first of all: the lease may have expired
	if cont, ok := proc.ContinueSignal(); ok && !s.shared && !s.plan.stopping {
		s.child.Signal(cont) //nolint:errcheck // it may have ended
	}
}

// verdict is the exit code and its reason. A lost lock decides, whatever else happened.
func (s *supervisor) verdict() (int, string) {
	switch {
	case s.plan.lost || s.lease.Err() != nil:
		s.plan.lost = true
		s.showLoss()
		s.awaitHook()
		return int(s.lostCode), "lost"
	case s.plan.overtime:
		return exit.CodeMaxRun, "max-run"
	}
	if err := s.child.Err(); err != nil {
		s.say.Put("error", err.Error()+", so the command was killed", "")
		return s.child.Code(), "interrupted"
	}
	return s.child.Code(), "done"
}

// action is what to do to the command at a moment.
type action int

const (
	goOn action = iota
	tell        // send the signal that asks the command to stop
	kill        // send KILL
)

// maxPause bounds the time between two checks of the lease: timers stop while a
// machine sleeps, and the lease may have expired when it wakes.
const maxPause = time.Second

// plan decides when a command must be told to stop and when it is killed, so
// that it has ended before its lease can expire. It is pure: its times are those of a
// clock that counts suspension.
//
//	running ──(lease has grace left)──▶ stopping ──(grace over)──▶ killed
//	   └──────(maxRun has passed)──────────▲
//
// Invariant: killAt is never after deadline − margin while the lease is
// trusted, so that the command is dead when the lease expires.
type plan struct {
	grace  time.Duration // from telling to killing
	margin time.Duration // from killing to the lease's end: what the kernel needs
	ignore bool          // a lost lease does not stop the command
	maxAt  time.Duration // when the command has run for too long; 0: never

	deadline time.Duration // the lease's last known end (by internal/clock)
	killAt   time.Duration
	stopping bool
	killed   bool
	lost     bool // the lease ended, or would have
	overtime bool // stopped because of maxAt
}

func newPlan(grace time.Duration) plan {
	return plan{grace: grace, margin: min(max(grace/10, 5*time.Millisecond), 200*time.Millisecond)}
}

// step judges the moment now, at which the lease has left time to go or is gone. It
// returns what to do, and the longest time until the next step.
func (p *plan) step(now, left time.Duration, gone bool) (action, time.Duration) {
	if !gone {
		p.deadline = now + left
	}
	if gone || left <= 0 {
		p.lost = true
	}
	ending := p.lost || p.deadline-now <= max(p.grace, p.margin)
	switch {
	case p.killed:
		return goOn, maxPause
	case p.stopping:
		if !p.ignore {
			p.killAt = min(p.killAt, p.deadline-p.margin)
		}
	case ending && !p.ignore:
		p.lost = true
		return p.stop(now, min(now+p.grace, p.deadline-p.margin))
	case p.maxAt > 0 && now >= p.maxAt:
		p.overtime = true
		return p.stop(now, now+p.grace)
	default:
		again := maxPause
		if !p.ignore {
			again = min(again, p.deadline-now-max(p.grace, p.margin))
		}
		if p.maxAt > 0 {
			again = min(again, p.maxAt-now)
		}
		return goOn, max(again, time.Millisecond)
	}
	if now >= p.killAt {
		p.killed = true
		return kill, maxPause
	}
	return goOn, min(maxPause, p.killAt-now)
}

// stop begins to end the command, or kills it at once if no time is left.
func (p *plan) stop(now, killAt time.Duration) (action, time.Duration) {
	p.stopping, p.killAt = true, killAt
	if now >= killAt {
		p.killed = true
		return kill, maxPause
	}
	return tell, min(maxPause, killAt-now)
}

// limits are when the guardian acts if we do not: a little later than we do, and before the
// lease's end, too.
func (p *plan) limits() proc.Limits {
	return proc.Limits{Tell: p.deadline - max(p.grace, p.margin)*9/10, Kill: p.deadline - p.margin/2}
}

func (p *plan) reason() string {
	if p.lost {
		return "lost"
	}
	return "max-run"
}
