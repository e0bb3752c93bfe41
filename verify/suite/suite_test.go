package suite_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/verify/fault"
	"github.com/holdfast-go/holdfast/verify/report"
	"github.com/holdfast-go/holdfast/verify/suite"
	"github.com/holdfast-go/holdfast/verify/workload"
)

// envClient turns the test binary into a client process.
const envClient = "HOLDFAST_VERIFY_CLIENT"

func TestMain(m *testing.M) {
	if os.Getenv(envClient) != "" {
		if err := workload.Client(os.Stdin, os.Stdout, workload.Files); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if err := os.Setenv(envClient, "yes"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// One goroutine of redistest keeps the thread that servers are tied to.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(
		"github.com/holdfast-go/holdfast/internal/redistest.startTied.func1.1"))
}

// TestSmoke is a run with every fault that one server can have, short enough for
// every change. make verify runs more.
func TestSmoke(t *testing.T) {
	out, err := suite.Run(t.Context(), suite.Options{
		Topology: fault.Standalone, Duration: 25 * time.Second, TTL: 2 * time.Second, Clients: 4,
		Seed: 1, Argv: []string{os.Args[0]},
	})
	if err != nil {
		t.Fatal(err)
	}
	doc := report.Make(out)
	t.Log(doc.Text())
	if !doc.OK {
		t.Errorf("%d promises were broken", doc.Violations)
	}
	if doc.Acquisitions < 100 || doc.Injected < len(doc.Setup.Faults) || doc.Changes < doc.Acquisitions {
		t.Errorf("%d acquisitions, %d faults, %d changes: it was no run", doc.Acquisitions, doc.Injected, doc.Changes)
	}
	for _, c := range doc.Checks {
		only := []string{"order", "owners", "least", "evictions", "refused"} // each is of one workload
		if c.Examined == 0 && slices.Contains(only, c.Name) {
			t.Errorf("%s looked at nothing", c.Name)
		}
	}
	var page strings.Builder
	if err := doc.HTML(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Every promise was kept", "<svg", "stop-writer", doc.Setup.Command[:20]} {
		if doc.OK && !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestWhatCannotBeRunIsRefused(t *testing.T) {
	for want, o := range map[string]suite.Options{
		"topology":             {Topology: "moon"},
		"duration":             {Duration: time.Second},
		"ttl":                  {TTL: time.Millisecond},
		"clients":              {Clients: 1},
		"workload":             {Works: []string{"sleep"}},
		"no fault is called":   {Faults: []string{"sleep"}},
		"not on standalone":    {Faults: []string{"failover"}},
		"would break":          {Faults: []string{"flush-all"}, URL: "redis://127.0.0.1:1"},
		"cannot look into TLS": {Faults: []string{"cut"}, URL: "rediss://127.0.0.1:1"},
		"needs the workload":   {Faults: []string{"stop-writer"}, Works: []string{workload.Mutex}},
	} {
		o.Argv = []string{"true"}
		if _, err := o.Complete(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

// On a server of the user's only the suite's own processes and connections are
// hurt.
func TestAUsersServerIsLeftWhole(t *testing.T) {
	o, err := suite.Options{URL: "redis://127.0.0.1:1", Argv: []string{"true"}}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fault.All() {
		for _, name := range o.Faults {
			if name == f.Name && f.Side == fault.OnServer {
				t.Errorf("%s would be injected", name)
			}
		}
	}
	if len(o.Faults) < 5 {
		t.Errorf("only %v are left", o.Faults)
	}
}
