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
  holdfast wait nightly                         until it is free
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
			return a.Prepare(cmd)
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
	help.Install(root)
	for _, c := range table(a) {
		c.cmd.GroupID, c.cmd.ValidArgsFunction = string(c.group), c.names
		root.AddCommand(c.cmd)
		completeValues(c.cmd)
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(helpTopics()...)
	refuseUnknownTopics(root)
	return root
}

// command is a row of the table of commands.
type command struct {
	group help.Group
	cmd   *cobra.Command
	names cobra.CompletionFunc // completes the names that the command takes; nil: it takes none
}

// table is the table of commands, in the order of the help.
func table(a *target.App) []command {
	return []command{
		{help.Hold, hold.NewRun(a), look.Complete(a, 0, look.IsLock)},
		{help.Hold, hold.NewEvery(a), look.Complete(a, 1, look.IsJob)},
		{help.Hold, hold.NewElect(a), look.Complete(a, 0, look.IsLock)},
		{help.Hold, hold.NewAcquire(a), look.Complete(a, 0, look.IsLock)},
		{help.Hold, hold.NewExtend(a), nil},
		{help.Hold, hold.NewRelease(a), nil},
		{help.Look, hold.NewWait(a), look.Complete(a, 0, look.IsLock)},
		{help.Look, look.NewStatus(a), look.Complete(a, 0, look.IsAny)},
		{help.Look, look.NewCheck(a), look.Complete(a, 0, look.IsHeld)},
		{help.Look, look.NewList(a), look.Complete(a, 0, look.IsAny)},
		{help.Look, look.NewInspect(a), look.Complete(a, 0, look.IsAny)},
		{help.Look, look.NewWatch(a), look.Complete(a, 0, look.IsAny)},
		{help.Look, look.NewTop(a), look.Complete(a, 0, look.IsAny)},
		{help.Look, look.NewServe(a), nil},
		{help.Operate, operate.NewEvict(a), look.Complete(a, 0, look.IsHeld)},
		{help.Operate, operate.NewLimit(a), look.Complete(a, 0, look.IsLock)},
		{help.Operate, operate.NewDoctor(a), nil},
		{help.Operate, operate.NewFence(), nil},
		{help.Operate, operate.NewDemo(), nil},
		{help.Operate, operate.NewVerify(), nil},
		{help.Operate, operate.NewVersion(), nil},
		{help.Operate, newCompletion(), nil},
		{help.Operate, newMan(), nil},
	}
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
	if known, _, err := cmd.Find(args[:1]); err == nil && known != cmd {
		return exit.Usage(fmt.Sprintf("the command %s stands behind --", args[0]), "write holdfast "+args[0]+" first")
	}
	cmd.SuggestionsMinimumDistance = 2
	hint := "holdfast help lists the commands"
	if args[0] == "" {
		return exit.Usage("the command is empty", hint)
	}
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		hint = "did you mean holdfast " + like[0] + "?"
	}
	return exit.Usage(fmt.Sprintf("there is no command %q", args[0]), hint)
}
