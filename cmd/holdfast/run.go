package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
	"github.com/holdfast-go/holdfast/internal/wire"
)

const (
	defaultTTL = 30 * time.Second
	maxGrace   = 10 * time.Second // the longest default of --kill-after
	minTTL     = 10 * time.Millisecond
	maxOwner   = 128
)

// runOptions are the flags of run, as they were given.
type runOptions struct {
	name    string
	command []string

	nonblock   bool
	wait       span
	limited    bool // --wait was given
	skipIfHeld bool
	busyCode   exitCode

	ttl       span
	noRenew   bool
	maxRun    span
	onLost    string
	killAfter span
	lostCode  exitCode
	lostExec  string
	tookExec  string
	minHold   span
	oncePer   span
	splay     span

	owner       string
	shell       string
	noStdin     bool
	signalGroup bool
	passURL     bool
	eventsFD    int
}

const runLong = `run waits for the lock, runs the command while it is held, gives it back and ends
with the command's exit code. Locks are handed over in order of arrival.

The lease is renewed while the command runs. If it cannot be, the command is told
to stop (--on-lost) before the lease can end, and is killed at the latest then; the
exit code is 79. On Linux the command is killed too if holdfast itself is killed.

Signals are passed on to the command. While holdfast waits they end it, and its
place in line is given back. Without a terminal on standard input the command has a
process group of its own, and signals reach all of it; on a terminal it shares
holdfast's, so that Ctrl-C and Ctrl-Z work as ever.

DUR is a number of seconds such as 2.5, or 500ms, 5m, 1h30m.

`

const runExample = `  holdfast run nightly -- ./report.sh --full
  holdfast run -n nightly -- ./report.sh        busy: exit 75 at once
  holdfast run -w 30 nightly -- ./report.sh     busy for 30 s: exit 75
  holdfast run nightly -c 'dump | gzip > out'   through the shell
  holdfast run --skip-if-held --once-per 50m hourly -- ./report.sh
                                                cron on many machines, one run an hour
  holdfast run db -- sh -c 'migrate --fence "$HOLDFAST_LOCK_FENCE"'`

func newRun(a *app) *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use:     "run [flags] NAME -- COMMAND [ARG...]",
		Aliases: []string{"lock", "exec"},
		Short:   "Run a command while holding a lock",
		Long:    runLong + exitCodesText,
		Example: runExample,
	}
	flags := cmd.Flags()
	waitFlags(flags, o)
	leaseFlags(flags, o)
	commandFlags(flags, o)
	level := verbosity(a, flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := level(); err != nil {
			return err
		}
		o.limited = flags.Changed("wait")
		if err := o.read(cmd, args); err != nil {
			return err
		}
		if o.skipIfHeld {
			a.say.level = min(a.say.level, levelQuiet)
		}
		return runRun(a, o)
	}
	return cmd
}

func waitFlags(flags *pflag.FlagSet, o *runOptions) {
	o.busyCode = codeBusy
	flags.BoolVarP(&o.nonblock, "nonblock", "n", false, "do not wait")
	flags.VarP(&o.wait, "wait", "w", "wait at most so long; 0 is -n (also --timeout)")
	flags.Lookup("wait").DefValue = ""
	exclusive := flags.BoolP("exclusive", "x", true, "the only kind of lock in this version")
	_ = exclusive // accepted for those who write flock -x
	flags.Lookup("exclusive").DefValue = "false"
	flags.VarP(&o.busyCode, "conflict-exit-code", "E", "exit code for a lock that another holds")
	flags.BoolVar(&o.skipIfHeld, "skip-if-held", false, "for cron: -n -E 0 -q")
	flags.Var(&o.splay, "splay", "wait a random time up to DUR before trying")
	flags.Lookup("splay").DefValue = ""
}

func leaseFlags(flags *pflag.FlagSet, o *runOptions) {
	o.ttl, o.lostCode = span(defaultTTL), codeLost
	flags.Var(&o.ttl, "ttl", "the lease: a crashed holder keeps others out for so long")
	flags.BoolVar(&o.noRenew, "no-renew", false, "let the lease end after --ttl, and the command with it")
	flags.Var(&o.maxRun, "max-run", "stop a command that runs longer (exit 124)")
	flags.StringVar(&o.onLost, "on-lost", "TERM", "signal that stops the command before the lease is lost, or ignore")
	flags.Var(&o.killAfter, "kill-after", "from that signal to KILL (default a third of --ttl, at most 10s)")
	flags.Var(&o.lostCode, "lost-exit-code", "exit code for a lost lock")
	flags.StringVar(&o.lostExec, "on-lost-exec", "", "run STRING in the shell when the lock is lost")
	flags.StringVar(&o.tookExec, "on-acquire-exec", "", "run STRING in the shell before the command, under the lock")
	flags.Var(&o.minHold, "min-hold", "keep the lock taken for so long from its grant, though the command ends earlier")
	flags.Var(&o.oncePer, "once-per", "one run in so long: --min-hold, and do not wait unless --wait is given")
	for _, name := range []string{"max-run", "kill-after", "min-hold", "once-per"} {
		flags.Lookup(name).DefValue = ""
	}
	rename(flags, map[string]string{
		"on-lost": "TERM|INT|KILL|ignore", "on-lost-exec": "STRING", "on-acquire-exec": "STRING",
	})
}

func commandFlags(flags *pflag.FlagSet, o *runOptions) {
	flags.StringVar(&o.owner, "owner", "", "by what name to be shown as the holder (default the command's)")
	flags.StringVarP(&o.shell, "command", "c", "", "run STRING through $SHELL -c instead of a command after --")
	flags.BoolVar(&o.noStdin, "no-stdin", false, "give the command an empty standard input")
	flags.BoolVar(&o.signalGroup, "signal-group", false,
		"give the command its own process group even on a terminal (it cannot read from it then)")
	flags.BoolVar(&o.passURL, "pass-url", false, "leave the server's URL and password in the command's environment")
	flags.IntVar(&o.eventsFD, "events-fd", 0, "write what happens to this open file descriptor, as JSON (help events)")
	flags.Lookup("events-fd").DefValue = "0"
	rename(flags, map[string]string{"owner": "NAME", "command": "STRING", "events-fd": "N"})
}

// rename gives values their names in --help.
func rename(flags *pflag.FlagSet, names map[string]string) {
	for flag, name := range names {
		flags.Lookup(flag).Value = named{flags.Lookup(flag).Value, name}
	}
}

// read takes the arguments and refuses what cannot work.
func (o *runOptions) read(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	names := args
	if dash >= 0 {
		names, o.command = args[:dash], args[dash:]
	}
	const example = "write holdfast run NAME -- COMMAND, as in holdfast run nightly -- ./report.sh"
	switch {
	case len(names) == 0:
		return usageError("the lock's name is missing", example)
	case len(names) > 1 && dash < 0 && o.shell == "":
		hint, _ := missingDashes(cmd, os.Args[1:])
		return usageError("nothing says where the command begins: -- is missing", hint)
	case len(names) > 1:
		return usageError(fmt.Sprintf("%q is one name too many: a run holds one lock", names[1]), example)
	case o.shell != "" && len(o.command) > 0:
		return usageError("there is a command after -- and one in -c", "leave one of them out")
	case o.shell == "" && len(o.command) == 0:
		return usageError("the command is missing", "write it behind --, as in holdfast run "+
			quote(names[0])+" -- ./report.sh")
	}
	o.name = names[0]
	if err := wire.CheckName(o.name); err != nil {
		return usageError("lock name: "+err.Error(), "")
	}
	return o.check()
}

// check refuses values that contradict each other, and fills in defaults that
// depend on others.
func (o *runOptions) check() error {
	ttl := time.Duration(o.ttl)
	switch {
	case ttl < minTTL || ttl%time.Millisecond != 0:
		return usageError(fmt.Sprintf("--ttl %v: a lease has whole milliseconds, and at least %v", ttl, minTTL),
			"write --ttl 30s, the default, or what a crashed holder may keep others out for")
	case len(o.owner) > maxOwner:
		return usageError(fmt.Sprintf("--owner has %d bytes, the limit is %d", len(o.owner), maxOwner), "shorten it")
	case o.nonblock && o.limited && o.wait > 0:
		return usageError(fmt.Sprintf("-n means not to wait, --wait %v to wait", &o.wait), "leave one of them out")
	case o.onLost != "ignore" && o.signal() == nil:
		return usageError(fmt.Sprintf("--on-lost: %q is none of TERM, INT, KILL and ignore", o.onLost),
			"write --on-lost=TERM, the default")
	case time.Duration(o.killAfter) > ttl/2:
		return usageError(fmt.Sprintf("--kill-after %v is more than half of the lease of %v: "+
			"the command would be stopped before a renewal could be tried again", &o.killAfter, ttl),
			fmt.Sprintf("write --ttl %v or more, or a shorter --kill-after", 2*time.Duration(o.killAfter)))
	}
	if o.killAfter == 0 {
		o.killAfter = span(min(maxGrace, ttl/3))
	}
	if o.skipIfHeld {
		o.nonblock, o.busyCode = true, codeOK
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

// signal is what stops the command when the lock is lost; nil: nothing.
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

// missingDashes finds the first word of a command that stands before any --,
// and answers the command line with -- put in. It walks the words as the flag
// parser does, which has given up or taken the command's flags for its own.
func missingDashes(cmd *cobra.Command, words []string) (hint string, ok bool) {
	if cmd.Name() != "run" || slices.Contains(words, "--") {
		return "", false
	}
	plain := 0 // words that are no flags: run, the name, the command
	for i := 0; i < len(words); i++ {
		word := words[i]
		if strings.HasPrefix(word, "-") && word != "-" {
			name, _, inline := strings.Cut(strings.TrimLeft(word, "-"), "=")
			flag := cmd.Flags().Lookup(name)
			if !strings.HasPrefix(word, "--") {
				flag = cmd.Flags().ShorthandLookup(word[len(word)-1:])
			}
			if flag == nil {
				return "", false // the mistake is before the command
			}
			if !inline && flag.NoOptDefVal == "" {
				i++
			}
			continue
		}
		if plain++; plain == 3 {
			return "write holdfast " + quote(words[:i]...) + " -- " + quote(words[i:]...), true
		}
	}
	return "", false
}

// unquoted are the characters that mean nothing to a shell.
const unquoted = "%+,-./:=@_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// quote writes words as a shell reads them.
func quote(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = w
		if w == "" || strings.ContainsFunc(w, func(r rune) bool { return !strings.ContainsRune(unquoted, r) }) {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}
