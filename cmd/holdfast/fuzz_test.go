package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
)

// Whatever stands on the command line: flags and arguments are read or refused with a
// message of the tool's, and nothing panics. Nothing is run.
func FuzzFlags(f *testing.F) {
	for _, line := range []string{
		"run a -- true", "run -n -w 5 a -- true", "run --wait=1h30m --ttl 500ms a -- x",
		"run --wait", "run --wait=-1 a",
		"run --ttl NaN a -- x", "run -E 300 a -- x", "run --nonblok a -- x", "run -s a -- x", "run --prefix {} a -- x",
		"status --json a", "status", "statu a", "--redis redis://:secret@h:1/0 status a",
		"run a true", "run -n a true -n", "flock -s -w5 a true", "run a b -- true", "run --permits 3 --weight=2 a -- x",
		"run -- -a b -- true", "-x", "--", "",
		"run -- -a -- true", "run -nightly -- x", "status -vv", "run -w5x",
		"run --url \x00 a -- x", "run --once-per 0 a -- x", "version --json", "help", "run --timeout 1e99 a -- x",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		root := newRoot(&target.App{Say: &say.Printer{W: io.Discard, Level: say.Normal}, Log: "text"})
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		disarm(root)
		args := strings.Split(line, " ")
		was := os.Args
		os.Args = append([]string{"holdfast"}, args...) // a hint looks there
		defer func() { os.Args = was }()
		root.SetArgs(cli.WithDashes(root, args))
		if err := root.Execute(); err != nil && (err.Error() == "" || exit.Of(err) == 0) {
			t.Errorf("%q: %v, exit code %d", line, err, exit.Of(err))
		}
	})
}

// disarm takes from every command what it does.
func disarm(cmd *cobra.Command) {
	cmd.Run = nil
	cmd.RunE = func(*cobra.Command, []string) error { return nil }
	for _, sub := range cmd.Commands() {
		disarm(sub)
	}
}
