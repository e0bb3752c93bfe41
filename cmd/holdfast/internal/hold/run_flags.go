package hold

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/help"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/internal/commandline"
)

const (
	defaultTTL = 30 * time.Second
	maxGrace   = 10 * time.Second // the longest default of --kill-after
	minTTL     = 10 * time.Millisecond
	maxApp     = 128
)

// runOptions are the flags of run.
type runOptions struct {
	verb      string // the command's name
	awaits    bool   // it is wait, and acquires nothing
	names     []string
	command   []string
	variables []string // flagVariables of the tool
	kindFlags
	target.WireFlags

	nonblock   bool
	wait       commandline.Span
	limited    bool // --wait was given
	skipIfHeld bool
	busyCode   cli.ExitCode

	breakDeadlock bool

	ttl         commandline.Span
	lockDelay   commandline.Span
	noRenew     bool
	maxRun      commandline.Span
	waitAll     bool
	onLost      string
	killAfter   commandline.Span
	lostCode    cli.ExitCode
	lostExec    string
	acquireExec string
	minHold     commandline.Span
	oncePer     commandline.Span
	splay       commandline.Span

	app         string
	tags        tagsFlag
	shell       string
	noStdin     bool
	signalGroup bool
	passURL     bool
	eventsFD    int
}

func waitFlags(flags *pflag.FlagSet, o *runOptions) {
	defer help.Waiting.In(flags)()
	o.busyCode = exit.CodeBusy
	flags.BoolVarP(&o.nonblock, "nonblock", "n", false, "do not wait")
	flags.VarP(&o.wait, "wait", "w", "wait at most DUR; 0 is the same as -n (also --timeout)")
	flags.Lookup("wait").DefValue = ""
	flags.VarP(&o.busyCode, "conflict-exit-code", "E", "exit code if another client holds the lock")
	flags.BoolVar(&o.breakDeadlock, "break-deadlock", false,
		"give up if nested runs wait for each other in a deadlock, and this wait is the youngest")
	splayFlag(flags, o)
}

// skipFlag is for commands that do the work themselves. A script would go on without the lock.
func skipFlag(flags *pflag.FlagSet, o *runOptions) {
	defer help.Waiting.In(flags)()
	flags.BoolVar(&o.skipIfHeld, "skip-if-held", false, "for cron: the same as -n -E 0 -q")
}

func splayFlag(flags *pflag.FlagSet, o *runOptions) {
	defer help.Waiting.In(flags)()
	flags.Var(&o.splay, "splay", "wait a random time, at most DUR, before the first try")
	flags.Lookup("splay").DefValue = ""
}

func leaseFlags(flags *pflag.FlagSet, o *runOptions) {
	defer help.Lease.In(flags)()
	o.ttl, o.lostCode = commandline.Span(defaultTTL), exit.CodeLost
	flags.Var(&o.ttl, "ttl", "lease: after a crash, others wait up to DUR")
	flags.Var(&o.lockDelay, "lock-delay", "if the lock is lost or its holder crashes, others wait for another DUR")
	flags.BoolVar(&o.noRenew, "no-renew", false, "do not renew the lease: stop the command before --ttl is over")
	flags.Var(&o.maxRun, "max-run", "stop the command if it runs longer than DUR (exit 124)")
	flags.BoolVar(&o.waitAll, "wait-all", false,
		"keep the lock until the processes that the command leaves behind have ended, too")
	flags.StringVar(&o.onLost, "on-lost", "TERM", "signal for the command before its lease expires; ignore: none")
	flags.Var(&o.killAfter, "kill-after", "time from the first signal to KILL (default: a third of --ttl, at most 10s)")
	flags.Var(&o.lostCode, "lost-exit-code", "exit code if the lock is lost")
	flags.StringVar(&o.lostExec, "on-lost-exec", "", "run STRING in the shell if the lock is lost")
	flags.StringVar(&o.acquireExec, "on-acquire-exec", "",
		"run STRING in the shell before the command, while holding the lock")
	for _, name := range []string{"max-run", "kill-after", "lock-delay"} {
		flags.Lookup(name).DefValue = ""
	}
	cli.Rename(flags, map[string]string{
		"on-lost": "TERM|INT|KILL|ignore", "on-lost-exec": "STRING", "on-acquire-exec": "STRING",
	})
}

// keepFlags keep the lock after the command has ended.
func keepFlags(flags *pflag.FlagSet, o *runOptions) {
	defer help.Lease.In(flags)()
	flags.Var(&o.minHold, "min-hold",
		"keep the lock for at least DUR from its grant, even if the command ends earlier")
	flags.Var(&o.oncePer, "once-per", "at most one run in DUR: --min-hold DUR, and -n unless --wait is given")
	flags.Lookup("min-hold").DefValue = ""
	flags.Lookup("once-per").DefValue = ""
}

func commandFlags(flags *pflag.FlagSet, o *runOptions) {
	defer help.Command.In(flags)()
	tagFlag(flags, o)
	flags.StringVar(&o.app, "app", "", "name that status shows for this holder (default: the command's)")
	flags.StringVarP(&o.shell, "command", "c", "", "run STRING through $SHELL -c, in place of a command")
	flags.BoolVar(&o.noStdin, "no-stdin", false, "give the command an empty standard input")
	flags.BoolVar(&o.signalGroup, "signal-group", false,
		"give the command its own process group even on a terminal (it cannot read the terminal then)")
	flags.BoolVar(&o.passURL, "pass-url", false, "keep the server's URL and password in the command's environment")
	flags.IntVar(&o.eventsFD, "events-fd", 0,
		"write events as JSON to the open file descriptor N (holdfast help events)")
	flags.Lookup("events-fd").DefValue = "0"
	cli.Rename(flags, map[string]string{"app": "NAME", "command": "STRING", "events-fd": "N"})
}

// perform makes a command of what the commands that acquire have in common: it reads the
// flags and the arguments, and then acts.
func (o *runOptions) perform(
	a *target.App, cmd *cobra.Command, read func(cmd *cobra.Command, args []string) error, act func() error,
) {
	o.verb = cmd.Name()
	level := cli.Verbosity(a.Say, cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := level(); err != nil {
			return err
		}
		o.limited, o.variables = cmd.Flags().Changed("wait"), flagVariables(cmd.Root())
		if err := o.checkSkip(cmd.Flags()); err != nil {
			return err
		}
		if err := read(cmd, args); err != nil {
			return err
		}
		if o.skipIfHeld {
			a.Say.Level = min(a.Say.Level, say.Quiet)
		}
		return act()
	}
}

// read reads the arguments and refuses what cannot work.
func (o *runOptions) read(cmd *cobra.Command, args []string) error {
	names, dash := o.split(cmd, args, 1)
	if err := cli.LikeFlock(cmd, names, o.shell == "" && len(o.command) == 0); err != nil {
		return err
	}
	const example = "write holdfast run NAME -- COMMAND, as in holdfast run nightly -- ./report.sh"
	switch {
	case len(args) > 0 && dash == 0 && len(names) == 0 && strings.HasPrefix(args[0], "-"):
		return exit.Usage("-- is missing between the lock's name and the command",
			"write holdfast run -- "+cli.Quote(args[0])+" -- "+cmp.Or(cli.Quote(args[1:]...), "COMMAND"))
	case len(names) == 0:
		return exit.Usage("the lock's name is missing", example+cli.MayBeName(cmd, os.Args[1:], cli.ShortFlags))
	case o.shell != "" && len(o.command) > 0:
		return exit.Usage("the command is given twice: with -c, and after the lock's name",
			"leave one of them out; for several locks, write holdfast run -c STRING -- NAME1 NAME2")
	case o.bare() && dash >= 0:
		return exit.Usage("the command is missing", "write it after --, as in holdfast run "+
			cli.Operand(names[0])+" -- ./report.sh; to hold the lock without a command, leave -- out")
	}
	o.names = names
	given := cmd.Flags().Changed
	if err := o.checkBare(cmd.Flags()); err != nil {
		return err
	}
	if err := o.kindFlags.check(names, given); err != nil {
		return err
	}
	if err := o.checkMinHold(given); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	return o.checkWire()
}

// bare reports whether there is no command.
func (o *runOptions) bare() bool { return o.shell == "" && len(o.command) == 0 }

// forCommand are the flags that say how a command runs or ends.
var forCommand = []string{"max-run", "wait-all", "kill-after", "on-lost", "signal-group", "pass-url"}

// checkBare refuses what a run without a command cannot do. A command that was forgotten must not look like one
// that has run, so cron and systemd, which give no input, are told.
func (o *runOptions) checkBare(flags *pflag.FlagSet) error {
	if !o.bare() {
		return nil
	}
	for _, flag := range forCommand {
		if cli.OnCommandLine(flags, flag) {
			return exit.Usage("--"+flag+" needs a command", "write it after --, or leave --"+flag+" out")
		}
	}
	if o.noStdin || !isNull(os.Stdin) {
		return nil
	}
	return exit.Usage("the command is missing, and nothing would end the hold: standard input is the null device",
		"write the command after --, as in holdfast run "+cli.Operand(o.names[0])+
			" -- ./report.sh; --no-stdin holds the lock until a signal")
}

// checkSkip refuses what --skip-if-held would override.
func (o *runOptions) checkSkip(flags *pflag.FlagSet) error {
	const text = "--skip-if-held is the same as -n -E 0 -q, and %s contradicts it"
	return refuse([]clash{
		{o.skipIfHeld && o.limited && o.wait > 0, fmt.Sprintf(text, "--wait "+o.wait.String()), cli.LeaveOut},
		{
			o.skipIfHeld && o.busyCode != exit.CodeOK && cli.OnCommandLine(flags, "conflict-exit-code"),
			fmt.Sprintf(text, "-E "+o.busyCode.String()), cli.LeaveOut,
		},
		{o.skipIfHeld && cli.OnCommandLine(flags, "verbose"), fmt.Sprintf(text, "-v"), cli.LeaveOut},
	})
}

// split splits the arguments at the -- before the command: at least n words stand before
// it. A name that begins with a dash has a -- of its own before it. dash is the position of
// the first --, or below 0.
func (o *runOptions) split(cmd *cobra.Command, args []string, n int) (words []string, dash int) {
	words, dash = args, cmd.ArgsLenAtDash()
	if dash < 0 {
		return words, dash
	}
	words, o.command = args[:dash], args[dash:]
	if dash >= n {
		return words, dash
	}
	// The first word behind such a -- is the name, also if that is -- itself.
	if next := slices.Index(o.command[min(1, len(o.command)):], "--"); next >= 0 {
		words, o.command = args[:dash+next+1], args[dash+next+2:]
	} else if o.shell != "" {
		words, o.command = args, nil
	}
	return words, dash
}

// checkMinHold refuses a minimum time for kinds that have none.
func (o *runOptions) checkMinHold(given func(flag string) bool) error {
	which := "--min-hold"
	if given("once-per") {
		which = "--once-per"
	} else if !given("min-hold") {
		return nil
	}
	const hint = "keep one exclusive lock for a minimum time, as in holdfast run A -- holdfast run %s DUR B -- COMMAND"
	return refuse([]clash{
		{len(o.names) > 1, which + " takes one lock", fmt.Sprintf(hint, which)},
		{o.shared, which + " and --shared contradict each other: only exclusive locks have a minimum time",
			fmt.Sprintf(hint, which)},
		{o.permits > 0, which + " and --permits contradict each other: only exclusive locks have a minimum time",
			fmt.Sprintf(hint, which)},
	})
}

// check refuses values that contradict each other, and sets the defaults that depend
// on other flags.
func (o *runOptions) check() error {
	ttl := time.Duration(o.ttl)
	switch {
	case ttl < minTTL || ttl%time.Millisecond != 0:
		return exit.Usage(fmt.Sprintf("--ttl %v: it must be in whole milliseconds, at least %v", ttl, minTTL),
			fmt.Sprintf("the least is --ttl %v; the default, 30s, is how long others wait after a crash", minTTL))
	case time.Duration(o.lockDelay)%time.Millisecond != 0:
		return exit.Usage(fmt.Sprintf("--lock-delay %v: it must be in whole milliseconds", &o.lockDelay),
			"write --lock-delay "+time.Duration(o.lockDelay).Truncate(time.Millisecond).String())
	case len(o.app) > maxApp:
		return exit.Usage(fmt.Sprintf("--app has %d bytes; the limit is %d", len(o.app), maxApp),
			"write a shorter name")
	case o.nonblock && o.limited && o.wait > 0:
		return exit.Usage(fmt.Sprintf("-n and --wait %v contradict each other", &o.wait), cli.LeaveOut)
	case o.onLost != "ignore" && o.signal() == nil:
		return exit.Usage(fmt.Sprintf("--on-lost: %q is not TERM, INT, KILL or ignore", o.onLost),
			"write --on-lost=TERM, the default")
	case o.waitAll && o.onLost == "ignore":
		return exit.Usage("--wait-all and --on-lost=ignore contradict each other: without a guardian, "+
			"holdfast does not know what the command has started", cli.LeaveOut)
	case o.waitAll && !proc.KnowsRest:
		return exit.Usage("--wait-all does not work on this system: it has no guardian",
			"let the command wait for what it starts")
	case time.Duration(o.killAfter) > ttl/2:
		return exit.Usage(fmt.Sprintf("--kill-after %v is more than half of --ttl %v: "+
			"holdfast would stop the command before it can retry a renewal", &o.killAfter, ttl),
			fmt.Sprintf("write --ttl %v or more, or a shorter --kill-after", 2*time.Duration(o.killAfter)))
	}
	if o.killAfter == 0 {
		o.killAfter = commandline.Span(min(maxGrace, ttl/3))
	}
	if o.skipIfHeld {
		o.nonblock, o.busyCode = true, exit.CodeOK
	}
	if o.oncePer > 0 {
		o.minHold = max(o.minHold, o.oncePer)
		o.nonblock = o.nonblock || !o.limited
	}
	if o.nonblock {
		o.limited, o.wait = true, 0
	}
	return nil
}

// signal is what the command is sent when the lock is lost; nil: nothing.
func (o *runOptions) signal() os.Signal {
	sig, _ := proc.Named(strings.TrimPrefix(strings.ToUpper(o.onLost), "SIG"))
	return sig
}

// argv is the command as it is executed.
func (o *runOptions) argv() []string {
	if o.shell == "" {
		return o.command
	}
	return shell(o.shell)
}

// shell runs text through the user's shell.
func shell(text string) []string {
	sh := os.Getenv("SHELL")
	if sh == "" {
		sh = "/bin/sh"
	}
	return []string{sh, "-c", text}
}

// uses are the words of a command line that a topology may not be able to carry out.
func (o *runOptions) uses() []string {
	words := []string{o.verb}
	if o.owner != "" {
		words = append(words, "--owner")
	}
	if o.permits > 0 {
		words = append(words, "--permits")
	}
	return words
}
