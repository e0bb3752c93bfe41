package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/help"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/hold"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/look"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/operate"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
)

// execute runs the tool and returns its exit code.
func execute(args []string) int {
	a := &target.App{Log: "text", Say: &say.Printer{
		W: os.Stderr, Level: say.Normal, Terminal: term.IsTerminal(int(os.Stderr.Fd())),
	}}
	a.Say.JSON = asksForJSON(args, os.Getenv(cli.EnvName("log-format"))) // until prepare has read the flags
	root := newRoot(a)
	root.SetArgs(cli.WithDashes(root, args))
	err := cmp.Or(root.Execute(), say.Stdout.Failed)
	if err != nil {
		a.Say.Fail(err)
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

func newRoot(a *target.App) *cobra.Command {
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
			return target.Prepare(a, cmd)
		},
	}
	root.Flags().Bool("version", false, "print the version") // without the -v that cobra would give it
	root.SetOut(say.Stdout)
	root.SetErr(os.Stderr)
	root.SetFlagErrorFunc(cli.FlagError)
	root.SetGlobalNormalizationFunc(cli.FlagAlias)
	a.Server.Add(root.PersistentFlags())
	end := help.Messages.In(root.PersistentFlags())
	root.PersistentFlags().Var(&a.Log, "log-format", "form of the messages on standard error")
	end()
	// The commands that take a name complete it from the server.
	names := func(cmd *cobra.Command, at int, wanted func(holdfast.LockInfo) bool) *cobra.Command {
		return look.Complete(a, cmd, at, wanted)
	}
	help.Install(root)
	root.AddCommand(help.Hold.Commands(
		names(hold.NewRun(a), 0, look.IsLock), names(hold.NewEvery(a), 1, look.IsJob), names(hold.NewElect(a), 0, look.IsLock),
		names(hold.NewAcquire(a), 0, look.IsLock), hold.NewExtend(a), hold.NewRelease(a))...)
	root.AddCommand(help.Look.Commands(
		names(look.NewStatus(a), 0, look.IsAny), names(look.NewList(a), 0, look.IsAny), names(look.NewInspect(a), 0, look.IsAny),
		names(look.NewWatch(a), 0, look.IsAny), names(look.NewTop(a), 0, look.IsAny), look.NewServe(a))...)
	root.AddCommand(help.Operate.Commands(
		names(operate.NewEvict(a), 0, look.IsHeld), operate.NewDoctor(a), operate.NewDemo(), operate.NewVerify(), operate.NewVersion(), newCompletion(),
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
