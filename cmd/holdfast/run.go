package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/waitsfor"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/script"
)

const runLong = `run waits for the lock, runs the command while holding the lock, and releases it.
It exits with the command's exit code. Waiters get the lock in order of arrival.

holdfast renews the lease while the command runs. If the renewals fail, holdfast sends
the command a signal (--on-lost) before the lease can expire. If the command goes on,
holdfast kills it in time. Whenever the lock is lost, the exit code is 79.

A small process, the guardian, runs between holdfast and the command. If holdfast is
killed, or is stopped for longer than its lease, the guardian ends the command by the
same rules. If the guardian is killed, holdfast kills the command. On each platform:
  Linux    the command and all that it has started end, whatever process group or
           session it is in. If both processes are killed at once, only the command
           itself ends. Processes of other users (sudo) cannot be ended
  BSD, macOS   the command and its process group end; on a terminal, only the command.
           If both processes are killed at once, the command goes on
  Windows  no guardian: a command goes on if holdfast is killed
With --on-lost=ignore there is no guardian. If the command ends by itself,
processes that it has left behind keep running.

The lock is exclusive: one holder at a time. With --shared, several commands hold it
together, but none beside an exclusive holder. With --permits N, it is a semaphore:
commands hold up to N permits together, and each of them takes --weight permits. With
several names, the command runs under all of these locks or none; then -- is required.
With --owner NAME, several processes hold the lock together under one name: they do not
wait for each other, and the lock is free when the last of them ends. --app is only the
name that status shows. --permits and --owner do not work on a quorum.

holdfast passes signals on to the command. If a signal ends holdfast while it waits,
holdfast leaves the wait queue first. If standard input is not a terminal, the
command has its own process group, and signals reach the whole group. On a terminal,
the command is in holdfast's group, so that Ctrl-C and Ctrl-Z work as usual.

With --wire redsync, redislock or redisson, the lock is the one that the library keeps
under the key NAME: programs that use the library and this command exclude each other.
Of Redisson's locks, it is the RLock, as getLock makes it. The lock is renewed, and a
loss ends the command, as with other locks. There is no token: HOLDFAST_LOCK_TOKEN is 0.
Waiters have no order. With redsync and redislock, waiters poll; with redisson, a release
wakes them. With three --redis URLs, the lock is a quorum of redsync.
With --bridge, the command holds that lock and the native one of the same name, the
library's first: so it excludes programs that have moved, and programs that have not. If
either is lost, the command ends. If the library's lock has another name, write
--bridge-name KEY.

With one lock, the -- may be left out, as with flock: the flags after the first word of
the command are the command's. If the lock's name begins with a dash, write -- before it
too, after all flags: holdfast run -n -- -NAME -- COMMAND. This form works for every
name and every command.

DUR is a number of seconds, such as 2.5, or has a unit: 500ms, 5m, 1h30m.

`

const runExample = `  holdfast run nightly -- ./report.sh --full
  holdfast run -n nightly -- ./report.sh        if busy: exit with 75 at once
  holdfast run -w 30 nightly -- ./report.sh     if busy for 30 s: exit with 75
  holdfast run nightly -c 'dump | gzip > out'   through the shell
  holdfast run --shared catalog -- ./read.sh    beside other readers
  holdfast run --permits 3 api -- ./call.sh     at most three at a time
  holdfast run orders stock -- ./move.sh        both locks, or none
  holdfast flock -n nightly ./report.sh --full  as flock(1) is written
  holdfast run --skip-if-held --once-per 50m hourly -- ./report.sh
                                                by cron on many machines: one run an hour
  holdfast run --wire redsync --bridge nightly -- ./report.sh
                                                beside programs that still use redsync
  holdfast run db -- sh -c 'migrate --token "$HOLDFAST_LOCK_TOKEN"'`

func newRun(a *app) *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use:     "run [flags] NAME... -- COMMAND [ARG...]",
		Aliases: []string{"lock", "exec", "flock"},
		Short:   "Run a command while holding a lock",
		Long:    runLong + exitCodesText(),
		Example: runExample,
	}
	flags := cmd.Flags()
	waitFlags(flags, o)
	o.kindFlags.add(flags)
	o.wireFlags.add(flags)
	leaseFlags(flags, o)
	keepFlags(flags, o)
	commandFlags(flags, o)
	o.perform(a, cmd, o.read, func() error { return runRun(a, o) })
	return cmd
}

// closeTimeout bounds the last requests to the server. If a release takes longer, the
// lease expires by itself.
const closeTimeout = 3 * time.Second

// lostCloseTimeout is the same for a lost lease: our exit code is urgent then, and a
// release has nothing left to free.
const lostCloseTimeout = 300 * time.Millisecond

// showHolderAfter is how long a person at a terminal waits before the tool shows the
// holder.
const showHolderAfter = 500 * time.Millisecond

// run is one holdfast run.
type run struct {
	*runOptions
	say     *printer
	events  *events
	signals chan os.Signal
	waiting chan observe.Event // the observer's events

	path   string // of the command
	server *server
	lease  lease
	since  time.Duration // the time of the grant, by clock
	kept   bool          // the lock is kept after our end
	lost   bool          // the lease was lost
	held   heldLock
	outer  []waitsfor.Outer // what the runs around this one hold

	guardian    *proc.Guardian // waits for the command; nil: it is started with the command
	state       *stateFile     // of --state; nil: none
	prefix      string         // of every key
	interrupted os.Signal      // a signal that ends us came while the command ran

	get  func(c *holdfast.Client, options []holdfast.LockOption) acquirer // nil: by the flags
	bare func() error                                                     // set: no command; called with the lock held
}

// runRun runs a command while holding a lock.
func runRun(a *app, o *runOptions) error {
	return conduct(a, o, func(r *run) (int, string, error) { return r.carryOut(a) })
}

// conduct does work, with the events and the signals of a run around it.
func conduct(a *app, o *runOptions, work func(r *run) (code int, reason string, err error)) error {
	ev, err := openEvents(o.names, o.eventsFD)
	if err != nil {
		return err
	}
	r := &run{runOptions: o, say: a.say, events: ev,
		signals: make(chan os.Signal, 16), waiting: make(chan observe.Event, 4)}
	// From here on signals are ours: if one comes while we wait, we must leave the
	// wait queue before we end.
	signal.Notify(r.signals, proc.Signals()...)
	code, reason, err := work(r)
	if err != nil {
		if code == 0 {
			code = codeOf(err)
		}
		a.say.fail(err)
	}
	if reason == "" {
		reason = nameOf(code)
	}
	ev.emit(event{Event: "end", Code: &code, Reason: reason})
	return silent(code)
}

// carryOut is the run from the first check to the release. It returns the exit code
// and its reason.
func (r *run) carryOut(a *app) (code int, reason string, err error) {
	if r.bare == nil {
		if r.path, err = proc.Look(r.argv()[0]); err != nil {
			return proc.StartCode(err), "not-started", r.cannotStart(err)
		}
	}
	defer r.close()
	if r.get == nil && r.onLost != "ignore" {
		// It gets ready while we ask the server. A candidate may wait for weeks, and needs
		// it then.
		r.guardian, _ = proc.Prepare(nil) // a second try is made with the command
	}
	if held, code, reason, err := r.obtain(a); !held {
		r.dismissGuardian()
		return code, reason, err
	}
	code, reason, err = r.runCommand()
	return r.release(code, reason), reason, err
}

func (r *run) dismissGuardian() {
	if r.guardian != nil {
		r.guardian.Dismiss()
	}
}

// obtain connects to the server and acquires the lock. If the lock is not held then, it
// returns the exit code and its reason.
func (r *run) obtain(a *app) (held bool, code int, reason string, err error) {
	if r.server, err = a.openOn(&r.wireFlags, r.config(), r.uses()...); err != nil {
		return false, 0, "", err
	}
	r.surround()
	sig, err := r.acquire()
	var dead *holdfast.DeadlockError
	switch nested := (*nestedError)(nil); {
	case sig != nil:
		r.say.infof("%v while waiting for %s: holdfast left the wait queue", sig, quoted(r.names))
		return false, codeSignal + proc.Number(sig), "interrupted", nil
	case errors.Is(err, holdfast.ErrHeld) && unasked(err) == nil:
		r.showBusy(err)
		return false, int(r.busyCode), "busy", nil
	case errors.As(err, &nested):
		return false, int(r.busyCode), "busy", &nested.exitError
	case errors.As(err, &dead):
		return false, int(r.busyCode), "busy", deadlockError(int(r.busyCode), dead)
	case err != nil:
		return false, 0, "", r.server.explainAny(r.names, err)
	}
	return true, 0, "", nil
}

// close releases what is left and leaves the wait queue. If the lock is kept, it
// abandons the client instead: closing it would remove the holder's name from the
// server, and status could not show it.
func (r *run) close() {
	if r.server == nil {
		return
	}
	if r.kept {
		r.server.client.Abandon()
		return
	}
	ctx, cancel := r.closing()
	defer cancel()
	r.server.close(ctx)
}

// closing bounds the last requests.
func (r *run) closing() (context.Context, context.CancelFunc) {
	if r.lost {
		return context.WithTimeout(context.Background(), lostCloseTimeout)
	}
	return context.WithTimeout(context.Background(), closeTimeout)
}

func (r *run) config() holdfast.Config {
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
func (r *run) logger() *slog.Logger {
	if r.say.level < levelVerbose {
		return nil
	}
	return slog.New(logHandler{say: r.say})
}

// surround notes what the command will find about its lock, and which runs there are around this one.
func (r *run) surround() {
	chain := strings.Fields(os.Getenv(envChain))
	h := heldLock{names: r.names, mode: r.mode(), owner: r.owner, ttl: time.Duration(r.ttl),
		server: r.server.public, prefix: r.server.inner()}
	if r.permits > 0 {
		h.permits, h.limit = r.weight, r.permits
	}
	for _, name := range r.names {
		key := wire.Key(r.server.prefix, name)
		if r.foreign() && !r.bridge {
			key = name
		}
		h.keys = append(h.keys, key)
		if r.server.old != nil {
			chain = append(chain, foreignLink(r.server.nameIn(r.server.old, name)), clientOf(r.server.old.ID()))
		}
		word := link(key)
		if r.server.byName {
			word = foreignLink(name)
		}
		chain = append(chain, word, clientOf(r.server.client.ID()))
	}
	r.outer = around(os.Getenv(envChain), r.server.prefix)
	h.chain = strings.Join(chain, " ")
	r.held = h
}

// foreignLink is the word of a chain for a lock in another library's form. No native key is like it.
func foreignLink(name string) string { return link("{" + wire.Encode(name) + "}") }

// insideItself refuses to wait for a lock that an outer run holds: that would never end. Between
// readers, and with permits, it ends unless a third client waits in between. The environment names the
// clients of the outer runs, and the server says whether one of them holds the lock: an outer run may have
// ended, and a server has many addresses. If the server does not say, the acquisition meets the same failure.
func (r *run) insideItself(ctx context.Context) error {
	clients := clientsOf(os.Getenv(envChain))
	if len(clients) == 0 {
		return nil
	}
	for _, name := range r.names {
		for _, form := range r.server.forms() {
			key := wire.Key(r.server.prefix, r.server.nameIn(form.client, name))
			record, err := wire.ReadRecord(func(args []string) (string, error) {
				limited, cancel := context.WithTimeout(ctx, closeTimeout)
				defer cancel()
				return form.store.Run(limited, script.Inspect, []string{key}, args)
			}, func(page *wire.Record) bool { return settled(page, clients, r.owner) })
			if err == nil && heldAround(&record, clients, r.owner) {
				return r.wouldDeadlock(name)
			}
		}
	}
	return nil
}

// nestedError refuses a run inside a run of the same lock.
type nestedError struct{ exitError }

func (r *run) wouldDeadlock(name string) error {
	hint := "run the inner command without holdfast, or use another lock name"
	if r.mode() == "exclusive" && !r.foreign() && r.server.quorum == nil && len(r.names) == 1 {
		hint += "; two runs with the same --owner NAME hold the lock together"
	}
	return &nestedError{exitError{codeBusy,
		fmt.Errorf("would deadlock: %q is held by the holdfast run around this one", name), hint}}
}

// acquire acquires the lock. It returns the signal that ended the waiting, if one
// did: then nothing is held, and closing the server leaves the wait queue.
func (r *run) acquire() (os.Signal, error) {
	ctx, cancel := context.WithCancel(waitsfor.WithOuter(context.Background(), r.outer))
	defer cancel()
	if r.splay > 0 {
		if sig := r.sleep(rand.N(time.Duration(r.splay))); sig != nil {
			return sig, nil
		}
	}
	options := []holdfast.LockOption{holdfast.Tags(r.tags)}
	if r.limited {
		options = append(options, holdfast.MaxWait(time.Duration(r.wait)))
	}
	if r.noRenew {
		options = append(options, holdfast.NoRenewal())
	}
	if r.breakDeadlock {
		options = append(options, holdfast.BreakDeadlock())
	}
	began := clock.Now()
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err = r.insideItself(ctx); err != nil {
			return
		}
		var get acquirer
		switch {
		case r.get != nil:
			get = r.get(r.server.client, options)
		case r.server.old != nil:
			get = r.server.bridged(r.names[0], options)
		default:
			get = r.acquirer(r.server.client, r.names, options)
		}
		r.lease, err = get(ctx, false)
		if r.wait > 0 && time.Duration(r.wait) < closeTimeout && cutShort(err) {
			// The limit may have been shorter than a request takes, which says nothing
			// about the lock or the server. So try once, as -n does.
			r.lease, err = get(ctx, true)
			if held, ok := errors.AsType[*holdfast.HeldError](err); ok {
				held.Waited = clock.Now() - began
			}
		}
	}()
	sig := r.waitOn(ctx, done)
	cancel()
	<-done
	if err != nil {
		return sig, err
	}
	if sig != nil {
		// The grant came after the signal. The command has not run.
		r.releaseOrKeep(0) //nolint:errcheck // closing the client is the second try
		return sig, nil
	}
	if err := r.confirm(); err != nil {
		return nil, err
	}
	r.begun(clock.Now() - began)
	return nil, nil
}

// begun notes and reports that we hold the lock.
func (r *run) begun(waited time.Duration) {
	r.since, r.held.at, r.held.tokens = clock.Now(), time.Now(), tokensOf(r.lease, r.names)
	tokens := r.held.tokenTexts()
	token := "token " + strings.Join(tokens, ", ")
	if r.foreign() && !r.bridge {
		token = "without a token: " + r.wire + " has none"
	}
	r.say.infof("acquired %s in %v, %s", quoted(r.names), waited.Round(time.Millisecond), token)
	ev := event{Event: "acquired", Token: tokens[0], WaitedMS: millis(waited)}
	if len(tokens) > 1 {
		ev.Tokens = tokens
	}
	r.events.emit(ev)
}

// confirm extends the lease to its TTL before the command begins. A pushed grant
// lasts for less until it is confirmed, and the command must be stopped before its
// lease can expire. If the request gets no answer, the renewals repeat it.
func (r *run) confirm() error {
	ttl := time.Duration(r.ttl)
	short, ok := r.lease.(extender)
	if !ok || r.lease.Remaining() >= ttl/2 {
		return nil
	}
	err := short.Extend(context.Background(), ttl)
	if errors.Is(err, holdfast.ErrNotHeld) {
		return err
	}
	return nil
}

// environment is the environment of what runs under the lock.
func (r *run) environment() []string {
	return environment(os.Environ(), r.held, r.variables, r.passURL)
}

// waitOn waits until done is closed, or until a signal comes that ends us. It shows
// the holder: with --verbose at once, at a terminal after a moment.
func (r *run) waitOn(ctx context.Context, done <-chan struct{}) os.Signal {
	var late <-chan time.Time
	wanted := r.names[0]
	for {
		select {
		case <-done:
			return nil
		case sig := <-r.signals:
			if proc.Ends(sig) {
				return sig
			}
		case e := <-r.waiting:
			switch e.Kind { //nolint:exhaustive // the observer passes on these only
			case observe.EventAway:
				r.showAway(e.Err)
				continue
			case observe.EventRenew, observe.EventRelease:
				continue
			case observe.EventDeadlock:
				r.showDeadlock(e.Err)
				continue
			}
			r.events.emit(event{Event: "waiting", Position: e.Position})
			wanted = e.Name
			switch {
			case r.say.level >= levelVerbose:
				go r.showHolder(ctx, wanted, e.Position)
			case r.say.level == levelNormal && r.say.terminal:
				late = time.After(showHolderAfter)
			}
		case <-late:
			go r.showHolder(ctx, wanted, 0)
		}
	}
}

// sleep waits for d, or until a signal comes that ends us.
func (r *run) sleep(d time.Duration) os.Signal {
	over := make(chan struct{})
	timer := time.AfterFunc(d, func() { close(over) })
	defer timer.Stop()
	return r.waitOn(context.Background(), over)
}

// unasked returns why a wait ended without an answer of the server, or nil.
func unasked(err error) error {
	if held, ok := errors.AsType[*holdfast.HeldError](err); ok {
		return held.Err
	}
	return nil
}

// cutShort reports that a wait ended before the server could answer, for lack of time
// only.
func cutShort(err error) bool {
	held, ok := errors.AsType[*holdfast.HeldError](err)
	if !ok || held.HeldBy != "" {
		return false
	}
	late, ok := errors.AsType[net.Error](held.Err)
	return held.Err == nil || ok && late.Timeout()
}

// runCommand runs the hook and the command under the lease. It returns the exit code
// and its reason.
func (r *run) runCommand() (code int, reason string, err error) {
	if r.acquireExec != "" {
		code, reason, err = r.hook()
		if code != 0 || err != nil {
			return code, reason, err
		}
	}
	if r.bare != nil {
		return r.holdOnly()
	}
	s, err := r.start(r.path, r.argv(), true)
	if err != nil {
		return proc.StartCode(err), "not-started", r.cannotStart(err)
	}
	defer s.child.Close()
	r.events.emit(event{Event: "started", PID: s.child.PID()})
	s.wait()
	code = s.child.Code()
	r.events.emit(event{Event: "exited", Code: &code})
	code, reason = s.verdict()
	return code, reason, nil
}

// holdOnly holds the lock without a command, until a signal comes or the lock is lost.
func (r *run) holdOnly() (code int, reason string, err error) {
	if err := r.bare(); err != nil {
		return 0, "", err
	}
	for {
		select {
		case sig := <-r.signals:
			if proc.Ends(sig) {
				return codeSignal + proc.Number(sig), "interrupted", nil
			}
		case <-r.lease.Context().Done():
			s := &supervisor{run: r, plan: plan{lost: true}}
			code, reason = s.verdict()
			return code, reason, nil
		}
	}
}

// hook runs --on-acquire-exec to its end. If it fails, the command is not started.
func (r *run) hook() (code int, reason string, err error) {
	argv := shell(r.acquireExec)
	s, err := r.start(argv[0], argv, false)
	if err != nil {
		return codeNotStarted, "", fmt.Errorf("--on-acquire-exec: %w", err)
	}
	defer s.child.Close()
	s.wait()
	code, reason = s.verdict()
	switch {
	case code == 0 || reason != "done":
		return code, reason, nil
	case code > codeSignal: // a signal ended it, and would have ended the command
		return code, "interrupted", nil
	}
	err = fmt.Errorf("--on-acquire-exec failed with exit code %d; the command was not started", code)
	return codeNotStarted, "", err
}

// release releases the lock and returns the exit code. It changes the code only if
// the lease turns out to be gone.
func (r *run) release(code int, reason string) int {
	held := clock.Now() - r.since
	r.lost = reason == "lost"
	keep := time.Duration(r.minHold) - held
	err := r.releaseOrKeep(keep)
	switch {
	case err == nil:
		r.events.emit(event{Event: "released", HeldMS: millis(held)})
		r.say.infof("released %s after %v", quoted(r.names), held.Round(time.Millisecond))
		if keep > 0 {
			r.say.infof("%s is kept locked for another %v", quoted(r.names), keep.Round(time.Millisecond))
		}
	case r.lost:
		// The loss was printed before, and explains why the release fails.
	case errors.Is(err, holdfast.ErrNotHeld), errors.Is(err, holdfast.ErrLost):
		r.say.put("error", lostName(err, r.names)+" was no longer held when the command ended", hintOf(err))
		return int(r.lostCode)
	default:
		r.say.warnf("the lease expires by itself within "+time.Duration(r.ttl).String(),
			"cannot release %s: %s", quoted(r.names), cause(err))
	}
	return code
}

// releaseOrKeep releases the lease, or keeps the lock for keep longer.
func (r *run) releaseOrKeep(keep time.Duration) error {
	ctx, cancel := r.closing()
	defer cancel()
	if later, ok := r.lease.(*holdfast.Lease); ok && keep > 0 {
		r.kept = true
		return later.ReleaseAfter(ctx, keep)
	}
	return r.lease.(releaser).Release(ctx)
}
