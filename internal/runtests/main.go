// Runtests is the program behind make test. It checks and tests the modules of the
// repository in two lanes at the same time, so that one lane compiles while the tests of
// the other wait for a server:
//
//   - one tests, with the race detector, the packages in which goroutines race;
//   - one tests the others, and then vets every module without the workspace.
//
// It prints the output of go test, and at the end the slowest tests and the result. It
// exits with 1 if anything failed, and with 2 if nothing could run.
//
//	runtests [-race=false] [-everywhere] [module…] [-- flag of go test…]
//
// Without a module it takes all modules in go.work.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"time"
)

// The exit statuses of the program.
const (
	failed   = 1
	notBegun = 2
)

func main() {
	var r run
	flag.BoolVar(&r.race, "race", true, "test with the race detector where goroutines race")
	flag.BoolVar(&r.everywhere, "everywhere", false, "test with the race detector in every package")
	flag.StringVar(&r.goTool, "go", "go", "the go command")
	own, flags := parts(os.Args[1:])
	r.flags = flags
	flag.CommandLine.Parse(own) //nolint:errcheck // it exits
	r.out = &digest{out: os.Stdout}

	// An interrupt also reaches the tests. Their output after that is still printed.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)

	code, err := r.all(context.Background(), flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "runtests:", err)
	}
	os.Exit(code)
}

// parts are the arguments before and after the first "--".
func parts(args []string) (own, flags []string) {
	i := slices.Index(args, "--")
	if i < 0 {
		return args, nil
	}
	return args[:i], args[i+1:]
}

// run is one run of the tests.
type run struct {
	goTool     string
	race       bool
	everywhere bool
	flags      []string
	out        *digest

	mu     sync.Mutex // guards broken
	broken []string   // what failed
}

// all runs both lanes over the modules, and returns the exit status.
func (r *run) all(ctx context.Context, modules []string) (int, error) {
	begun := time.Now()
	if err := r.shareBuilds(ctx); err != nil {
		return notBegun, err
	}
	modules, err := r.modules(ctx, modules)
	if err != nil {
		return notBegun, err
	}
	packages, err := r.packages(ctx, modules)
	if err != nil {
		return notBegun, err
	}
	raced, plain := split(packages, r.racing)

	var lanes sync.WaitGroup
	lanes.Go(func() { r.test(ctx, "test with the race detector", nil, raceFlags(r.race), raced) })
	lanes.Go(func() {
		r.test(ctx, "test", plainEnv, plainFlags, plain)
		if len(r.flags) == 0 {
			r.secured(ctx, packages)
		}
		// Last, because it waits for nothing. Most of what it needs is compiled by now,
		// and the other lane may leave a processor idle.
		for _, module := range modules {
			r.isolated(ctx, module)
		}
	})
	lanes.Wait()

	r.out.slowest(slowestShown)
	note := ""
	if !r.race {
		note = ", without the race detector"
	}
	took := time.Since(begun).Round(time.Second)
	if len(r.broken) > 0 {
		fmt.Fprintf(os.Stderr, "== test: FAILED after %v in %s\n", took, strings.Join(r.broken, ", "))
		return failed, nil
	}
	r.out.sayf("== test: %d of %d modules passed in %v%s", len(modules), len(modules), took, note)
	return 0, nil
}

// racing reports whether a package is tested with the race detector.
func (r *run) racing(p pkg) bool { return r.everywhere || races(p.ImportPath) }

// fail notes a failure. The run goes on after it, so that it reports all failures.
func (r *run) fail(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = append(r.broken, what)
}

var errNoModules = errors.New("no modules: is go.work here?")
