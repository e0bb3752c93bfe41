package suite_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/verify/fault"
	"github.com/holdfast-go/holdfast/verify/suite"
	"github.com/holdfast-go/holdfast/verify/workload"
)

// envClient turns the test binary into a client process.
const envClient = "HOLDFAST_VERIFY_CLIENT"

func TestMain(m *testing.M) {
	if os.Getenv(envClient) != "" {
		if err := workload.Client(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Setenv(envClient, "yes")
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(
		"github.com/holdfast-go/holdfast/internal/redistest.startTied.func1.1"))
}

// TestSmoke is a short run with every fault that one server can have.
func TestSmoke(t *testing.T) { run(t, fault.Standalone, 25*time.Second) }

func run(t *testing.T, topology string, d time.Duration) {
	out, err := suite.Run(t.Context(), suite.Options{
		Topology: topology, Duration: d, TTL: time.Second, Clients: 4,
		Seed: 1, Argv: []string{os.Args[0]}, Dir: os.Getenv("HOLDFAST_VERIFY_DIR"),
		Progress: func(p suite.Progress) { t.Logf("%+v", p) },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range out.Rounds {
		t.Logf("%+v", r.Tally)
		for _, c := range r.Checks {
			t.Logf("%-18s examined %6d excused %4d undecided %d %s", c.Name, c.Examined, c.Excused, c.Undecided, c.Figure)
			for i, v := range c.Violations {
				if i < 10 {
					t.Errorf("%s: %+v", c.Name, v)
				}
			}
		}
		if !r.OK {
			t.Errorf("history: %s\nagain: %s", r.History, r.Setup.Command)
		}
	}
}
