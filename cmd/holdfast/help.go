package main

import "github.com/spf13/cobra"

// helpTopics are pages of help that belong to no command.
func helpTopics() []*cobra.Command {
	return []*cobra.Command{
		{Use: "exit-codes", Short: "What the exit codes mean", Long: exitCodesText()},
		{Use: "environment", Short: "Variables that holdfast reads, and those that it sets", Long: environmentText},
		{
			Use: "events", Short: "The JSON of run --events-fd, and of --log-format json",
			Long: eventsText + "\n\n" + logText,
		},
	}
}

const logText = `With --log-format json, every message on standard error is a JSON object on its own
line: "time" (UTC), "level" (error, warning, notice or info), "msg", and "hint" if there
is one.`
