package main

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/help"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/hold"
)

// helpTopics are pages of help that belong to no command.
func helpTopics() []*cobra.Command {
	return []*cobra.Command{
		{Use: "exit-codes", Short: "What the exit codes mean", Long: exit.Text()},
		{Use: "environment", Short: "Variables that holdfast reads, and those that it sets", Long: environmentText},
		{
			Use: "events", Short: "The JSON of run --events-fd, and of --log-format json",
			Long: hold.EventsText + "\n\n" + logText,
		},
	}
}

const logText = `With --log-format json, every message on standard error is a JSON object on its own
line: "time" (UTC), "level" (error, warning, notice or info), "msg", and "hint" if there
is one.`

// newMan makes the hidden command that make install writes the man pages with.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Hidden: true,
		Short: "Write the man pages into DIR/man1 and DIR/man7",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.Usage("man takes one directory", "write holdfast man DIR")
			}
			if err := help.WriteMan(cmd.Root(), args[0]); err != nil {
				return exit.With(exit.CodeFailed, err, "")
			}
			return nil
		},
	}
}
