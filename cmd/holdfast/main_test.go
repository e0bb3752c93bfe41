//go:build unix

package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The scripts in testdata/script read like sessions in a shell. They run the
// tool as processes of its own, against real servers.
func TestScripts(t *testing.T) {
	// What nohup ignores the commands would ignore too, and what is listened for
	// here has its usual effect there.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	testscript.Run(t, testscript.Params{
		Dir:       "testdata/script",
		Setup:     setup,
		Condition: condition,
		Cmds:      commands,
		TestWork:  os.Getenv("HOLDFAST_TEST_WORK") != "",
	})
}

// condition decides about the lines of a script that begin with [secured] or [!secured].
func condition(word string) (bool, error) {
	if word != "secured" {
		return false, fmt.Errorf("no condition %q", word)
	}
	return redistest.Secured(), nil
}

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"holdfast": main,
		"exits":    exits,
		"running":  running,
	})
}

// running succeeds if a process runs whose id is in one of the files.
func running() {
	for _, file := range os.Args[1:] {
		b, err := os.ReadFile(file)
		pid, bad := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil || bad != nil || alive(pid) {
			fmt.Fprintln(os.Stderr, "running:", file, pid, err, bad)
			return
		}
	}
	os.Exit(1)
}

// exits runs a command and succeeds if its exit code is the one given first:
// scripts can tell success from failure only. The command and its process group die
// with it, so that a script that fails leaves nothing behind that would keep the test waiting.
func exits() {
	path, err := proc.Look(os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "exits:", err)
		os.Exit(1)
	}
	c, err := proc.Start(proc.Spec{
		Path: path, Args: os.Args[2:], Env: os.Environ(), Stdin: os.Stdin, Group: true, DieWithParent: true,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "exits:", err)
		os.Exit(1)
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt) // the script has failed
	select {
	case <-c.Done():
	case <-interrupted:
		c.Kill()
		<-c.Done()
	}
	if want, bad := strconv.Atoi(os.Args[1]); bad != nil || c.Code() != want {
		fmt.Fprintf(os.Stderr, "exits: code %d, want %s\n", c.Code(), os.Args[1])
		os.Exit(1)
	}
}
