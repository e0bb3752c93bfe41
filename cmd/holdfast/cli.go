package main

// The rules for output. They hold for every command.
//
//   - Standard output carries the result, or belongs to the command that is run.
//   - Standard error carries messages: lines that begin with "holdfast: ", lower
//     case, no full stop. If there is a next step to suggest, a line that begins
//     with "hint: " follows an error.
//   - A message is not cut or wrapped to the terminal: scripts read it, as the runbook does with
//     awk, and people copy it. Only top, which has the whole screen, cuts its lines.
//   - A password is never printed, wherever it came from.
//   - Exit codes are in internal/exit, and in --help of the commands that set them.
//   - --json prints one object with documented fields: fields may be added, and
//     are never renamed, removed or given another type.

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/help"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// app has what all commands share.
type app struct {
	say    *printer
	server serverFlags
	log    logFormat
}

// logFormat is the value of --log-format.
type logFormat string

func (f *logFormat) String() string { return string(*f) }
func (f *logFormat) Type() string   { return "text|json" }
func (f *logFormat) Set(s string) error {
	if s != "text" && s != "json" {
		return fmt.Errorf("%q is not a log format: write text or json", s)
	}
	*f = logFormat(s)
	return nil
}

// execute runs the tool and returns its exit code.
func execute(args []string) int {
	a := &app{log: "text", say: &printer{
		w: os.Stderr, level: levelNormal, terminal: term.IsTerminal(int(os.Stderr.Fd())),
	}}
	a.say.json = asksForJSON(args, os.Getenv(envName("log-format"))) // until prepare has read the flags
	root := newRoot(a)
	root.SetArgs(withDashes(root, args))
	err := cmp.Or(root.Execute(), stdout.failed)
	if err != nil {
		a.say.fail(err)
	}
	return exit.Of(err)
}

// asksForJSON reports whether --log-format is json. It is for the errors that come before any
// flag is read, such as an unknown one.
func asksForJSON(args []string, form string) bool {
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if value, ok := strings.CutPrefix(arg, "--log-format="); ok {
			form = value
		} else if arg == "--log-format" && i+1 < len(args) {
			form = args[i+1]
		}
	}
	return form == "json"
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Distributed locks on Redis and Valkey, from the shell",
		Long: `holdfast holds a lock on a Redis or Valkey server while it runs a command. It also
shows which clients hold locks and wait for them, ends the holds of a stuck lock, and
checks the server.`,
		Example: `  holdfast run nightly -- ./report.sh           wait for the lock, run, release
  holdfast run -n nightly -- ./report.sh        do not wait: if held, exit 75
  holdfast run --skip-if-held nightly -- ./report.sh
                                                for cron: no message, exit 0
  holdfast status nightly                       show the holder and the waiters
  holdfast list                                 show all locks that are held
  holdfast top                                  watch them on the whole screen
  holdfast doctor                               check the server
  holdfast demo                                 watch locks at work, no server
  holdfast verify                               try to break the locks`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		Version:           holdfast.Version,
		Args:              unknownCommand,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if name := cmd.Name(); name == cobra.ShellCompRequestCmd || name == cobra.ShellCompNoDescRequestCmd {
				return nil // the command that is completed does it
			}
			return a.prepare(cmd)
		},
	}
	root.Flags().Bool("version", false, "print the version") // without the -v that cobra would give it
	root.SetOut(stdout)
	root.SetErr(os.Stderr)
	root.SetFlagErrorFunc(flagError)
	root.SetGlobalNormalizationFunc(flagAlias)
	a.server.add(root.PersistentFlags())
	end := help.Messages.In(root.PersistentFlags())
	root.PersistentFlags().Var(&a.log, "log-format", "form of the messages on standard error")
	end()
	// The commands that take a name complete it from the server.
	names := a.completeNames
	help.Install(root)
	root.AddCommand(help.Hold.Commands(
		names(newRun(a), 0, isLock), names(newEvery(a), 1, isJob), names(newElect(a), 0, isLock),
		names(newAcquire(a), 0, isLock), newExtend(a), newRelease(a))...)
	root.AddCommand(help.Look.Commands(
		names(newStatus(a), 0, isAny), names(newList(a), 0, isAny), names(newInspect(a), 0, isAny),
		names(newWatch(a), 0, isAny), names(newTop(a), 0, isAny), newServe(a))...)
	root.AddCommand(help.Operate.Commands(
		names(newEvict(a), 0, isHeld), newDoctor(a), newDemoCommand(), newVerify(), newVersion(), newCompletion(),
		newMan())...)
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(helpTopics()...)
	refuseUnknownTopics(root)
	return root
}

// refuseUnknownTopics makes holdfast help refuse a word that is neither a command nor a topic.
func refuseUnknownTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	ask, _, _ := root.Find([]string{"help"})
	ask.Args = func(_ *cobra.Command, args []string) error {
		if found, _, err := root.Find(args); err == nil && found != root {
			return nil
		}
		return unknownCommand(root, args)
	}
}

// prepare applies the environment and the flags of all commands.
func (a *app) prepare(cmd *cobra.Command) error {
	if err := checkGiven(cmd.Flags()); err != nil {
		return err
	}
	if err := fromEnvironment(cmd, os.LookupEnv); err != nil {
		return err
	}
	if err := wire.CheckPrefix(a.server.prefix); err != nil {
		return exit.Usage("--prefix: "+err.Error(), "write a short word, as in --prefix staging")
	}
	a.say.json = a.log == "json"
	return nil
}

func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	hint := "holdfast help lists the commands"
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		hint = "did you mean holdfast " + like[0] + "?"
	}
	return exit.Usage(fmt.Sprintf("there is no command %q", args[0]), hint)
}

// noArguments refuses every argument.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return exit.Usage(fmt.Sprintf("%s takes no arguments: %q is one too many", cmd.Name(), args[0]),
		cmd.CommandPath()+" --help lists the flags")
}

// verbosity adds --quiet and --verbose to a command.
func verbosity(a *app, flags *pflag.FlagSet) func() error {
	defer help.Messages.In(flags)()
	quiet := flags.BoolP("quiet", "q", false, "print only errors and warnings")
	verbose := flags.BoolP("verbose", "v", false, "print each step on standard error")
	return func() error {
		switch {
		case *quiet && *verbose:
			return exit.Usage("--quiet and --verbose contradict each other", "leave one out")
		case *quiet:
			a.say.level = levelQuiet
		case *verbose:
			a.say.level = levelVerbose
		}
		return nil
	}
}
