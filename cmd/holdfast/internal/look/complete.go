package look

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
)

// completeTime bounds the completion of a name: somebody waits at a prompt.
const completeTime = 700 * time.Millisecond

// mostNames is how many names a completion offers.
const mostNames = 1000

// Complete completes a name from the server. at is the argument that is the name; what follows it is completed as
// files.
func Complete(a *target.App, at int, wanted func(holdfast.LockInfo) bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) (names []string, what cobra.ShellCompDirective) {
		switch {
		case len(args) > at:
			return nil, cobra.ShellCompDirectiveDefault
		case len(args) < at:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		answer := make(chan []string, 1)
		go func() { answer <- namesLike(a, cmd, typed, wanted) }()
		select {
		case names = <-answer:
		case <-time.After(completeTime): // the process ends, and the request with it
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// namesLike are the names on the server that begin with what was typed. Without an answer there
// is none: a completion has no place for an error.
func namesLike(a *target.App, cmd *cobra.Command, typed string, wanted func(holdfast.LockInfo) bool) []string {
	a.Say = &say.Printer{W: io.Discard}
	a.Server.URLs = unique(a.Server.URLs) // cobra reads the flags twice, and each --redis is one server more
	if a.Prepare(cmd) != nil {
		return nil
	}
	s, err := a.Open(holdfast.Config{})
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), completeTime)
	defer cancel()
	var names []string
	for state, err := range s.Client.List(ctx, globOf(typed)+"*") {
		if err != nil {
			continue // what else is found is right
		}
		// What begins or ends with a blank loses it on the way to the shell.
		// One that begins with a dash would be read as flags, unless -- stands before it.
		flag := strings.HasPrefix(state.Name, "-") && !slices.Contains(os.Args, "--")
		odd := flag || strings.ContainsAny(state.Name, "\t\r\n") || strings.TrimSpace(state.Name) != state.Name
		if wanted(state) && !odd {
			names = append(names, state.Name)
		}
		if len(names) == mostNames {
			break
		}
	}
	slices.Sort(names)
	return names
}

// unique leaves out what came before.
func unique(texts []string) (one []string) {
	for _, text := range texts {
		if !slices.Contains(one, text) {
			one = append(one, text)
		}
	}
	return one
}

// globOf is a pattern that matches a text.
func globOf(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(text)
}

// IsAny is for the commands that take a lock or a job, held or not.
func IsAny(holdfast.LockInfo) bool { return true }

// IsLock is for the commands that take a lock.
func IsLock(s holdfast.LockInfo) bool { return s.Job == nil }

// IsJob is for the commands that take a job.
func IsJob(s holdfast.LockInfo) bool { return s.Job != nil }

// IsHeld is for the commands that take a lock that is held, or a job that runs.
func IsHeld(s holdfast.LockInfo) bool { return s.Held() || s.Job != nil && s.Job.Run != nil }
