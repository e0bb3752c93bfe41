package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// refusal carries out a command line that must be refused, and returns the error and its hint.
func refusal(t *testing.T, args ...string) (text, hint string) {
	t.Helper()
	root := newRoot(&target.App{Log: "text", Say: &say.Printer{W: io.Discard}})
	root.SetArgs(args)
	root.SetOut(io.Discard)
	err := root.Execute()
	assert.MustTrue(t, exit.Of(err) == exit.CodeUsage, "holdfast %q: %v, want a refusal", args, err)
	return err.Error(), exit.HintOf(err)
}

// A shell makes an empty value of a variable that is not set. Whatever the flag is, the command must
// not guess: --redis would be another server, --if-token every holder, --listen every address.
func TestNoFlagTakesAnEmptyValue(t *testing.T) {
	var walk func(cmd *cobra.Command)
	checked := map[string]bool{}
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		if cmd.DisableFlagParsing || cmd.Name() == "help" || cmd.IsAdditionalHelpTopicCommand() {
			return // verify has a test of its own; the others do nothing
		}
		path := strings.Fields(cmd.CommandPath())[1:]
		check := func(f *pflag.Flag) {
			checked[f.Name] = true
			lines := [][]string{append(slices.Clip(path), "--"+f.Name+"=")}
			if f.NoOptDefVal == "" {
				lines = append(lines, append(slices.Clip(path), "--"+f.Name, ""))
			}
			for _, line := range lines {
				text, hint := refusal(t, line...)
				assert.True(t, strings.HasPrefix(text, "--"+f.Name) && hint != "",
					"holdfast %q: %s (hint: %s)", line, text, hint)
			}
		}
		cmd.InheritedFlags().VisitAll(check)
		cmd.LocalFlags().VisitAll(check)
	}
	walk(newRoot(&target.App{Log: "text", Say: &say.Printer{W: io.Discard}}))
	for _, name := range []string{"redis", "ttl", "wire", "if-token", "json", "acl"} {
		assert.True(t, checked[name], "the test has not seen --%s", name)
	}
}

func TestWhatTwoFlagsCannotMeanAtOnceIsRefused(t *testing.T) {
	const skip = "--skip-if-held is the same as -n -E 0 -q, and "
	for line, want := range map[string]string{
		"run --redis a --redis  --redis b": "--redis is empty",
		"run --tag x=1 --tag x=2":          `--tag: the tag "x" has two values, "1" and "2": write one`,
		"list -o name --json":              "--json and -o name contradict each other",
		"run --skip-if-held -w 5":          skip + "--wait 5s contradicts it",
		"run --skip-if-held -E 9":          skip + "-E 9 contradicts it",
		"run --skip-if-held -v":            skip + "-v contradicts it",
		"acquire -E 0 n":                   "acquire -E 0 would exit with 0 although another client holds the lock",
		"acquire --skip-if-held n":         "holdfast acquire has no flag --skip-if-held",
		"version now":                      `version takes no arguments: "now" is one too many`,
		"man":                              "man takes one directory",
		"elect -n n ":                      "the value is empty",
	} {
		text, hint := refusal(t, strings.Split(line, " ")...)
		assert.Equal(t, text, want, "holdfast %s", line)
		assert.True(t, hint != "", "holdfast %s: no hint", line)
	}
}
