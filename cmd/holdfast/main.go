// Command holdfast holds distributed locks on Redis or Valkey from the shell: it
// runs a command while it holds a lock, and shows which client holds one.
//
//	holdfast run nightly-report -- ./report.sh
//	holdfast status nightly-report
//
// Each command is in the package of what a user does with it: internal/hold, internal/look or
// internal/operate. They share where the servers are (target), what a flag means (cli), how
// messages are printed (say) and the exit codes (exit). Here is the table of the commands.
package main

import (
	"os"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
)

func main() {
	proc.KeepIgnored()
	if proc.IsGuardian(os.Args) {
		os.Exit(proc.RunGuardian(os.Args, say.Guardian))
	}
	_ = proc.HideEnvironment(cli.IsSecret) // where it is not possible, everything works all the same
	os.Exit(execute(os.Args[1:]))
}
