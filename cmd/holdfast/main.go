// Command holdfast holds distributed locks on Redis or Valkey from the shell: it
// runs a command while it holds a lock, and shows which client holds one.
//
//	holdfast run nightly-report -- ./report.sh
//	holdfast status nightly-report
//
// The rules for what it prints, and where, are in cli.go; exit codes are in
// exit.go and in holdfast help exit-codes.
package main

import (
	"os"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
)

func main() {
	if proc.IsGuardian(os.Args) {
		os.Exit(proc.RunGuardian(os.Args, guardianSays))
	}
	_ = proc.HideEnvironment(isSecret) // where it is not possible, everything works all the same
	os.Exit(execute(os.Args[1:]))
}
