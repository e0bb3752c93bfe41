package hold

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/describe"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/help"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/commandline"
	"github.com/holdfast-go/holdfast/observe"
)

const everyLong = `every runs the command at most once in each period, over all machines. The first one to
ask in a period runs the command. The others exit with 0, and one line on standard error
says why. So cron may start the same line on many machines, as often as it likes. The
periods are measured by the server's clock.

A period counts as used as soon as its run begins, even if the command fails, is killed,
or its machine dies. With --done success, it counts as used when the command has exited
with 0. After any other end, such as a failure, a lost lease, an eviction or a machine
that died, the next one to ask runs it again, when the lease of that run has ended. After
--tries runs without a success, the period counts as used. Without --start-at, a period begins with its
run. With --start-at DUR, periods begin at fixed times: DUR after midnight of
1970-01-01, UTC, and then every PERIOD.

The command runs under a lease, as with holdfast run: holdfast renews it, stops the
command before the lease can expire (exit code 79), and passes signals on. If a run is longer
than the period, the next run waits for its end.

With --loop, holdfast stays, and runs the command in each period in which it is the
first. A command that fails does not end the loop. A signal does: it is passed on to a
command that runs, and holdfast ends after that command. If no command is running, the
exit code is 128+n.

run waits for its lock, and so also for a server that is away. every does not wait, like
run -n: the next call of cron asks again. If cron asks once in a period only, write
-w DUR. Then every waits that long for the server, for an earlier run, and for a period
that begins in this time: cron is never exact, and the clocks of machines differ.

All machines must write the same PERIOD and --start-at. If the server has different
ones, nothing is run, and the exit code is 64; --reschedule changes what the server
knows. --again runs nothing and needs no PERIOD: it makes the job due again, and the next
one to ask runs it.

The job NAME and the lock NAME are two things: they do not exclude each other. every does
not work on a quorum; use holdfast run --skip-if-held --once-per PERIOD there.
PERIOD and DUR are a number of seconds, or have a unit: 90s, 5m, 24h.`

const everyExample = `  holdfast every 24h nightly -- ./report.sh     once a day; cron asks each hour
  holdfast every -w 10m 24h nightly -- ./report.sh
                                                once a day; cron asks once
  holdfast every 24h --start-at 2h nightly -- ./report.sh
                                                a day is from 2:00 to 2:00, UTC
  holdfast every 1h --done success sync -- ./sync.sh
                                                again in this hour, if it fails
  holdfast every --loop 30s probe -- ./probe.sh
  holdfast every --again nightly                it may run again in this period`

// everyOptions are the flags of every.
type everyOptions struct {
	runOptions
	period     commandline.Span
	startAt    commandline.Span
	aligned    bool // --start-at was given
	done       doneOn
	tries      int
	loop       bool
	reschedule bool
	again      bool
}

// doneOn is the value of --done.
type doneOn string

const (
	doneOnStart   doneOn = "start"
	doneOnSuccess doneOn = "success"
)

func (d *doneOn) String() string { return string(*d) }
func (d *doneOn) Type() string   { return "start|success" }
func (d *doneOn) Set(s string) error {
	if *d = doneOn(s); *d != doneOnStart && *d != doneOnSuccess {
		return fmt.Errorf("%q is neither start nor success", s)
	}
	return nil
}

// NewEvery makes holdfast every.
func NewEvery(a *target.App) *cobra.Command {
	o := &everyOptions{done: doneOnStart}
	cmd := &cobra.Command{
		Use:     "every [flags] PERIOD NAME -- COMMAND [ARG...]\n  holdfast every --again NAME",
		Short:   "Run a command at most once per period, over all machines",
		Long:    everyLong,
		Example: everyExample,
	}
	flags := cmd.Flags()
	flags.Var(&o.startAt, "start-at", "periods begin at fixed times: DUR after midnight UTC, and every PERIOD")
	flags.Lookup("start-at").DefValue = ""
	flags.VarP(&o.wait, "wait", "w", "wait at most DUR for the server and for the period (also --timeout)")
	flags.Lookup("wait").DefValue = ""
	flags.Var(&o.done, "done", "a period is used when its run begins, or when one has succeeded: start or success")
	flags.IntVar(&o.tries, "tries", 3, "with --done success: at most N runs in a period")
	cli.Rename(flags, map[string]string{"done": "start|success", "tries": "N"})
	flags.BoolVar(&o.loop, "loop", false, "stay, and run the command in each period")
	flags.BoolVar(&o.reschedule, "reschedule", false, "first change the job's period on the server to PERIOD")
	flags.BoolVar(&o.again, "again", false, "run nothing: make the job due again, so that the next one to ask runs it")
	splayFlag(flags, &o.runOptions)
	leaseFlags(flags, &o.runOptions)
	commandFlags(flags, &o.runOptions)
	help.Brief(cmd, "wait", "start-at", "done", "loop", "reschedule", "again", "ttl", "max-run",
		"command", "redis")
	o.perform(a, cmd, o.read, func() error {
		if o.again {
			return o.runAgain(a)
		}
		return conduct(a, &o.runOptions, func(a *target.App, r *session) (int, string, error) {
			j := &job{session: r, every: o, turns: make(chan turn)}
			return j.carryOut(a)
		})
	})
	return cmd
}

// read reads the arguments and refuses what cannot work.
func (o *everyOptions) read(cmd *cobra.Command, args []string) error {
	if o.again {
		return o.readAgain(cmd, args)
	}
	words, _ := o.split(cmd, args, 2)
	const example = "write holdfast every PERIOD NAME -- COMMAND, as in holdfast every 24h nightly -- ./report.sh"
	if len(words) > 0 {
		if err := o.period.Set(words[0]); err != nil {
			return exit.Usage("period: "+err.Error(), example)
		}
	}
	switch {
	case len(words) == 0:
		return exit.Usage("the period and the job's name are missing", example)
	case len(words) == 1:
		return exit.Usage("the job's name is missing", example)
	case len(words) > 2:
		return exit.Usage(fmt.Sprintf("%q is one word too many: every takes a period and one name", words[2]), example)
	case o.shell != "" && len(o.command) > 0:
		return exit.Usage("the command is given twice: with -c, and after the job's name", cli.LeaveOut)
	case o.shell == "" && len(o.command) == 0:
		return exit.Usage("the command is missing", example)
	}
	o.names = words[1:]
	if err := target.CheckName("job", o.names[0]); err != nil {
		return err
	}
	o.aligned = cmd.Flags().Changed("start-at")
	switch {
	case o.loop && cli.OnCommandLine(cmd.Flags(), "wait"):
		return exit.Usage("--loop and --wait contradict each other: --loop waits for the server in any case",
			cli.LeaveOut)
	case o.done == doneOnStart && cmd.Flags().Changed("tries"):
		return exit.Usage("--tries has no meaning without --done success: a period is used when its run begins",
			"write --done success, too, or leave --tries out")
	case o.tries < 1:
		return exit.Usage(fmt.Sprintf("--tries %d: there must be at least 1", o.tries), "the default is --tries 3")
	case o.period < commandline.Span(minTTL):
		return exit.Usage(fmt.Sprintf("the period is %v; it must be at least %v", &o.period, minTTL), example)
	case !cmd.Flags().Changed("ttl"):
		o.ttl = min(o.ttl, max(o.period-o.lockDelay, commandline.Span(minTTL)))
	}
	if o.ttl+o.lockDelay > o.period {
		what, lease := "--ttl", o.ttl+o.lockDelay
		if o.lockDelay > 0 {
			what = "--ttl and --lock-delay together,"
		}
		return exit.Usage(fmt.Sprintf("%s %v is longer than the period %v: a run that crashes would block the next",
			what, &lease, &o.period), "write a shorter --ttl, or leave it out")
	}
	o.limited = o.limited && !o.loop
	return o.check()
}

// readAgain reads the arguments of --again. A period may be there, and does not matter.
func (o *everyOptions) readAgain(cmd *cobra.Command, args []string) error {
	const example = "write holdfast every --again NAME, as in holdfast every --again nightly"
	switch dash := cmd.ArgsLenAtDash(); {
	case len(args) == 0:
		return exit.Usage("the job's name is missing", example)
	case len(args) > 1 || dash > 0 || o.shell != "":
		return exit.Usage("--again takes one job's name and nothing else: it runs no command", example)
	}
	o.names = args
	return target.CheckName("job", args[0])
}

// runAgain makes the job due again.
func (o *everyOptions) runAgain(a *target.App) error {
	s, err := a.Open(holdfast.Config{}, "every")
	if err != nil {
		return err
	}
	defer s.CloseSoon()
	ctx, cancel := context.WithTimeout(context.Background(), 2*target.CloseTimeout)
	defer cancel()
	name := o.names[0]
	job, err := s.Client.InspectJob(ctx, name)
	switch {
	case err != nil:
		return s.ExplainJob(name, err)
	case job.Schedule.Period == 0:
		a.MayBePattern(name)
		_, err = fmt.Fprintf(say.Stdout, "%s is no job that the server remembers: it may run at once\n",
			say.OneLine(name))
		return err
	}
	err = s.Client.Periodic(name, time.Hour).Again(ctx)
	switch {
	case errors.Is(err, holdfast.ErrHeld):
		text := fmt.Sprintf("%q is running", name)
		if job.Run != nil {
			text += ", " + describe.Holder(*job.Run)
		}
		return exit.With(exit.CodeBusy, errors.New(text), "wait for its end, or end the run: holdfast evict --job "+
			cli.Operand(name)+" --reason TEXT")
	case err != nil:
		return s.ExplainJob(name, err)
	}
	_, err = fmt.Fprintf(say.Stdout, "%s is due again\n", say.OneLine(name))
	return err
}

// job is one holdfast every.
type job struct {
	*session
	every *everyOptions
	turns chan turn
	// unused: the present period had a run that did not begin its command, so it is to be due again.
	unused bool
}

// turn is the right to run the command in this period. The library's function waits until
// the command has ended: its lease ends with it.
type turn struct {
	ctx   context.Context
	ended chan<- error
}

// errNoSuccess is what the library's function returns if the run has not succeeded.
var errNoSuccess = errors.New("the run has not succeeded")

// carryOut is the whole of holdfast every. It returns the exit code and its reason.
func (j *job) carryOut(a *target.App) (code int, reason string, err error) {
	if code, reason, err = j.findCommand(); err != nil {
		return code, reason, err
	}
	if j.server, err = a.Open(j.config(), j.uses()...); err != nil {
		return 0, "", err
	}
	defer j.close()
	name := j.names[0]
	j.held = heldLock{names: j.names, keys: []string{j.server.JobKey(name)}, mode: "exclusive",
		ttl: time.Duration(j.ttl), server: j.server.Public, prefix: j.server.Inner(), inside: j.server.Inside,
		chain: os.Getenv(envChain)}
	if j.splay > 0 {
		if sig := j.sleep(rand.N(time.Duration(j.splay))); sig != nil {
			return exit.CodeSignal + proc.Number(sig), "interrupted", nil
		}
	}
	options := []holdfast.PeriodicOption{holdfast.Tags(j.tags), holdfast.LockDelay(time.Duration(j.lockDelay))}
	if j.every.done == doneOnSuccess {
		options = append(options, holdfast.DoneOnSuccess(j.every.tries))
	}
	if j.every.aligned {
		options = append(options, holdfast.StartAt(time.Duration(j.every.startAt)))
	}
	if j.noRenew {
		options = append(options, holdfast.NoRenewal())
	}
	if j.wait > 0 {
		options = append(options, holdfast.MaxWait(time.Duration(j.wait)))
	}
	p := j.server.Client.Periodic(name, time.Duration(j.every.period), options...)
	if j.every.reschedule {
		ctx, cancel := context.WithTimeout(context.Background(), target.CloseTimeout)
		defer cancel()
		if err := p.Reschedule(ctx); err != nil {
			return 0, "", j.explain(err)
		}
	}
	defer j.watchServer(false)()
	if j.every.loop {
		return j.repeat(p)
	}
	return j.once(p)
}

// explain says what to do about another period, in the words of the tool.
func (j *job) explain(err error) error {
	if errors.Is(err, holdfast.ErrPeriod) {
		return exit.With(exit.CodeUsage, err, "write the same PERIOD and --start-at on all machines; "+
			"--reschedule changes what the server knows")
	}
	return j.server.ExplainJob(j.names[0], err)
}

// begin is the library's function: it passes its turn on, and waits until the run has ended.
func (j *job) begin(ctx context.Context) error {
	ended := make(chan error)
	j.turns <- turn{ctx, ended}
	return <-ended
}

// once runs the command in this period, unless it has run.
func (j *job) once(p *holdfast.Periodic) (code int, reason string, err error) {
	var result holdfast.RunResult
	code, reason, sig, err := j.serve(func(ctx context.Context) (err error) {
		result, err = p.Do(ctx, j.begin)
		return err
	})
	j.giveBack(p)
	switch {
	case err != nil && !result.Ran:
		return 0, "", j.explain(err)
	case sig != nil && !result.Ran:
		return exit.CodeSignal + proc.Number(sig), "interrupted", nil
	case result.Ran:
		return j.ended(code, reason, err)
	case result.Busy && j.every.done == doneOnSuccess:
		j.say.Noticef("%q is running; the next one to ask runs it, if that run does not succeed; "+
			"its lease expires in %s unless renewed", j.names[0], describe.Length(result.Next))
	case result.Busy:
		j.say.Noticef("%q has been running since an earlier period; its lease expires in %s unless renewed",
			j.names[0], describe.Length(result.Next))
	default:
		text := fmt.Sprintf("%q has already run in this period; the next one begins in %s",
			j.names[0], describe.Length(result.Next))
		if j.say.Level >= say.Normal {
			j.say.Put("notice", text, j.tooEarly(result.Next))
		}
	}
	return exit.CodeOK, "", nil
}

// tooEarly is the hint for a call that came a little before its period. If cron asks once in a period, it
// has come for nothing. left is the time until the period.
func (j *job) tooEarly(left time.Duration) string {
	if j.wait > 0 || left > min(time.Duration(j.every.period)/10, 5*time.Minute) {
		return ""
	}
	return "if cron asks only once in a period, this call came too early and the period has no run: write -w 10m"
}

// giveBack makes the period due again if its run did not begin the command.
func (j *job) giveBack(p *holdfast.Periodic) {
	if !j.unused {
		return
	}
	j.unused = false
	ctx, cancel := context.WithTimeout(context.Background(), target.CloseTimeout)
	defer cancel()
	if err := p.Again(ctx); err != nil {
		j.say.Warnf("holdfast every --again "+cli.Operand(j.names[0])+" makes the job due again",
			"%q did not run, and its period may count as used: %s", j.names[0], target.Cause(err))
	}
}

// ended returns the exit code of a run whose lease has been released, or could not be.
func (j *job) ended(code int, reason string, err error) (int, string, error) {
	switch err = without(err, errNoSuccess); {
	case err == nil || reason == "lost" || errors.Is(err, holdfast.ErrClosed):
	case errors.Is(err, holdfast.ErrNotHeld), errors.Is(err, holdfast.ErrLost):
		j.say.Put("error", goneAtEnd(err, j.names), exit.HintOf(err))
		return int(j.lostCode), "lost", nil
	default:
		j.cannotRelease(err)
	}
	return code, reason, nil
}

// without removes one error from those that are joined.
func without(err, drop error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var rest []error
		for _, e := range joined.Unwrap() {
			if e != drop { //nolint:errorlint // the joined error itself
				rest = append(rest, e)
			}
		}
		return errors.Join(rest...)
	}
	if err == drop { //nolint:errorlint // the error itself
		return nil
	}
	return err
}

// repeat runs the command in each period, until a signal ends us or the server refuses.
func (j *job) repeat(p *holdfast.Periodic) (code int, reason string, err error) {
	for {
		var sig os.Signal
		code, reason, sig, err = j.serve(func(ctx context.Context) error { return p.Loop(ctx, j.begin) })
		j.giveBack(p)
		switch {
		case sig != nil:
			return exit.CodeSignal + proc.Number(sig), "interrupted", nil
		case j.interrupted != nil:
			return code, reason, nil
		case err != nil && !errors.Is(err, errNoSuccess): // after a run, how its release ended does not matter
			return 0, "", j.explain(err)
		}
		// The command failed, and its period may be due. Others may try, and so do we, but not
		// as fast as the machine can.
		if sig := j.sleep(min(time.Duration(j.every.period)/10, time.Minute)); sig != nil {
			return exit.CodeSignal + proc.Number(sig), "interrupted", nil
		}
	}
}

// serve does work, which calls begin for each turn, and runs the command in each. sig is the
// signal that ended the wait for a turn. code and reason are those of the last run.
func (j *job) serve(work func(ctx context.Context) error) (code int, reason string, sig os.Signal, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- work(ctx) }()
	for {
		select {
		case err = <-done:
			for len(j.waiting) > 0 {
				j.told(<-j.waiting)
			}
			return code, reason, sig, err
		case s := <-j.signals:
			if proc.Ends(s) && sig == nil {
				sig = s
				cancel()
			}
		case e := <-j.waiting:
			j.told(e)
		case t := <-j.turns:
			if sig != nil {
				j.unused = true
				t.ended <- errNoSuccess
				continue
			}
			var answer error
			code, reason, answer = j.work(t.ctx)
			t.ended <- answer
			if j.interrupted != nil && j.every.loop {
				cancel()
			}
		}
	}
}

// work runs the command once. answer is errNoSuccess if the period may be due again.
func (j *job) work(ctx context.Context) (code int, reason string, answer error) {
	j.lease, j.lost, j.began = jobLease{ctx}, false, false
	j.begun(0)
	code, reason, err := j.afterHook(j.superviseCommand)
	if err != nil {
		j.say.Fail(err)
	}
	j.lost = reason == "lost"
	if j.stoppedEarly() {
		if j.every.loop && j.interrupted == nil {
			j.interrupted = j.sleep(time.Duration(j.lockDelay)) // under the lease, which may be renewed meanwhile
		}
		if !j.every.loop || j.interrupted != nil {
			j.abandon()
		}
	}
	then := "it runs again in the next period"
	j.unused = !j.began && !j.lost
	switch {
	case j.unused:
		then, answer = "its period is due again", errNoSuccess
	case (code != exit.CodeOK || j.lost) && j.every.done == doneOnSuccess: // --lost-exit-code may be 0
		then, answer = "another try follows, if this period has one left", errNoSuccess
	}
	if j.every.loop && code != exit.CodeOK && j.interrupted == nil {
		j.say.Noticef("%q failed with exit code %d; %s", j.names[0], code, then)
	}
	return code, reason, answer
}

// told reports an event of the library.
func (j *job) told(e observe.Event) {
	switch {
	case e.Kind == observe.EventAway:
		j.isAway(e.Err)
	case e.Kind == observe.EventRelease && e.Err == nil:
		held := clock.Now() - j.since
		j.events.emit(event{Event: "released", HeldMS: millis(held)})
		j.say.Infof("released %s after %v", quoted(j.names), held.Round(time.Millisecond))
	}
}

// jobLease is the lease of a run, by the context that the library gave it.
type jobLease struct{ ctx context.Context }

func (l jobLease) Context() context.Context { return l.ctx }

// Err returns why the lease ended.
func (l jobLease) Err() error {
	if l.ctx.Err() == nil {
		return nil
	}
	return context.Cause(l.ctx)
}

func (l jobLease) Remaining() time.Duration {
	lease, _ := holdfast.LeaseOf(l.ctx)
	return lease.Remaining
}

func (l jobLease) Token() uint64 {
	lease, _ := holdfast.LeaseOf(l.ctx)
	return lease.Token
}
