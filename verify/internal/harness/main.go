// Package harness is what the tests of this module share: how a test program
// starts and ends, its clients and what they observe, and child processes.
package harness

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// envChild turns the test binary into a child process.
const envChild = "HOLDFAST_VERIFY_CHILD"

// Program is a test program.
type Program struct {
	// Child is what the test binary does in the processes that this one starts.
	Child func() error
	// Parallel is how many tests run at a time, in place of one per processor: for
	// tests that mostly wait.
	Parallel int
	// Known are goroutines that stay, or that end by themselves a little later.
	Known []goleak.Option
}

// Main runs the tests and exits. All goroutines that they have started must have
// ended by then. In a child process it runs the child.
func (p Program) Main(m *testing.M) {
	logging.Disable() // servers are killed on purpose
	if p.Child != nil {
		if os.Getenv(envChild) != "" {
			fail(p.Child())
			os.Exit(0)
		}
		fail(os.Setenv(envChild, "yes"))
	}
	if p.Parallel > 0 {
		fail(flag.Set("test.parallel", strconv.Itoa(p.Parallel)))
	}
	code := m.Run()
	if code == 0 {
		fail(p.leaked())
	}
	os.Exit(code)
}

// leaked returns an error if a goroutine of the tests goes on. goleak itself waits for half a second, which is
// little on a busy machine.
func (p Program) leaked() (err error) {
	known := append(p.Known,
		// One goroutine of childproc keeps the thread that servers are tied to.
		goleak.IgnoreAnyFunction("github.com/holdfast-go/holdfast/internal/childproc.StartTied.func1.1"),
		// A pool of go-redis that could not connect tries again each second, and sees
		// only then that it was closed.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
	for late := time.Now().Add(redistest.Patience); time.Now().Before(late); {
		if err = goleak.Find(known...); err == nil {
			break
		}
	}
	return err
}

// fail ends the process if there is an error.
func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
