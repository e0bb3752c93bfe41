package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
)

// completeTime bounds the completion of a name: somebody waits at a prompt.
const completeTime = 700 * time.Millisecond

// mostNames is how many names a completion offers.
const mostNames = 1000

// completeNames makes a command complete a name from the server. at is the argument that is
// the name; what follows it is completed as files.
func (a *app) completeNames(cmd *cobra.Command, at int, wanted func(holdfast.LockInfo) bool) *cobra.Command {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) (
		names []string, what cobra.ShellCompDirective,
	) {
		switch {
		case len(args) > at:
			return nil, cobra.ShellCompDirectiveDefault
		case len(args) < at:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		answer := make(chan []string, 1)
		go func() { answer <- a.names(cmd, typed, wanted) }()
		select {
		case names = <-answer:
		case <-time.After(completeTime): // the process ends, and the request with it
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

// names are the names on the server that begin with what was typed. Without an answer there
// is none: a completion has no place for an error.
func (a *app) names(cmd *cobra.Command, typed string, wanted func(holdfast.LockInfo) bool) []string {
	a.say = &printer{w: io.Discard}
	if a.prepare(cmd) != nil {
		return nil
	}
	s, err := a.open(holdfast.Config{})
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), completeTime)
	defer cancel()
	var names []string
	for state, err := range s.client.List(ctx, globOf(typed)+"*") {
		if err != nil {
			break // what was found until then is right
		}
		odd := strings.ContainsAny(state.Name, "\t\r\n") // a shell cannot take it
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

// globOf is a pattern that matches a text.
func globOf(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(text)
}

// Which names a command completes.
func isAny(holdfast.LockInfo) bool    { return true }
func isLock(s holdfast.LockInfo) bool { return s.Job == nil }
func isJob(s holdfast.LockInfo) bool  { return s.Job != nil }
func isHeld(s holdfast.LockInfo) bool { return s.Job == nil && s.Held() }
