package suite_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/fault"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
	"github.com/holdfast-go/holdfast/verify/report"
	"github.com/holdfast-go/holdfast/verify/suite"
	"github.com/holdfast-go/holdfast/verify/workload"
)

func TestMain(m *testing.M) {
	harness.Program{Child: func() error { return workload.Client(os.Stdin, os.Stdout, workload.Files) }}.Main(m)
}

// TestSmoke is a short run on each of the topologies, three at a time: they wait for
// most of it. What is slow there, and each fault once, is what make verify is
// for; here each run has a few of them, and on one server all the workloads.
func TestSmoke(t *testing.T) {
	var all sync.WaitGroup
	some := make(chan struct{}, 3)
	for _, o := range []suite.Options{
		{Topology: fault.Sentinel, Works: []string{workload.Mutex, workload.Crowd, workload.Election},
			Faults: []string{"stop", "failover", "half-open", "forget"}},
		{Topology: fault.Cluster, Works: []string{workload.Mutex, workload.Semaphore, workload.Period},
			Faults: []string{"stop", "failover", "migrate", "late"}},
		{Topology: fault.Standalone, TTL: time.Second, Duration: 16 * time.Second, Faults: []string{
			"stop-writer", "kill", "cut", "reply-lost", "server-kill", "flush-all", "clock-forward", "evict"}},
		{Topology: fault.Durable, TTL: time.Second, Duration: 16 * time.Second,
			Works: []string{workload.Mutex, workload.ReadWrite, workload.Many}, Faults: []string{
				"read-only", "master-down", "no-replicas", "save-failed", "memory", "loading", "busy",
				"no-auth", "no-perm"}},
		{Topology: fault.EverySec, Works: []string{workload.Mutex, workload.ReadWrite},
			Faults: []string{"stop", "server-kill", "reorder", "late"}},
		{Topology: fault.Quorum, TTL: 3 * time.Second, Works: []string{workload.Mutex, workload.ReadWrite},
			Faults: []string{"stop", "server-kill", "clock-back", "cut", "forget"}},
	} {
		all.Go(func() {
			some <- struct{}{} // with more at a time the machine would be the fault
			smoke(t, o)
			<-some
		})
	}
	all.Wait()
}

// smoke runs in a goroutine of its own, so it fails by t.Error only. In some seconds, of
// which a failover takes some, chance may keep the faults apart, and a busy machine may
// get little done: then that was no run of two at once. Another seed is tried, for longer.
func smoke(t *testing.T, o suite.Options) {
	o.TTL, o.Clients = cmp.Or(o.TTL, 2*time.Second), 3
	first := cmp.Or(o.Duration, 12*time.Second)
	o.Argv = []string{os.Args[0]}
	if err := fault.Movable(); err != nil {
		clock := func(name string) bool { return slices.Contains(fault.Clocks(), name) }
		o.Faults = slices.DeleteFunc(o.Faults, clock)
		t.Logf("%s: without moved clocks: %v", o.Topology, err)
	}
	var thin string
	for o.Seed = 1; o.Seed <= 3; o.Seed++ {
		o.Duration = time.Duration(o.Seed) * first
		if thin = smokeOnce(t, o); thin == "" {
			return
		}
	}
	t.Errorf("%s: %s: it was no run", o.Topology, thin)
}

// smokeOnce says what the run lacks of one that shows something.
func smokeOnce(t *testing.T, o suite.Options) (thin string) {
	out, err := suite.Run(t.Context(), o)
	if err != nil {
		t.Error(o.Topology, err)
		return ""
	}
	doc := report.Make(out)
	defer func() { // whole reports of what went well would hide the one that did not
		t.Logf("%s, seed %d: %d acquisitions, %d faults, %d pairs, %v; %s", o.Topology, o.Seed, doc.Acquisitions,
			doc.Injected, len(doc.Pairs), doc.Elapsed, cmp.Or(thin, "ok"))
		if !doc.OK || thin != "" {
			t.Log(doc.Text())
		}
	}()
	if !doc.OK && !doc.Thin() {
		t.Errorf("%s: %d promises were broken", o.Topology, doc.Violations)
		return ""
	}
	if !doc.OK || len(doc.Pairs) == 0 || doc.Acquisitions < 20 || doc.Injected < len(doc.Setup.Faults) {
		return fmt.Sprintf("too thin: %d acquisitions, %d faults, %d pairs",
			doc.Acquisitions, doc.Injected, len(doc.Pairs))
	}
	if accounted := o.Topology != fault.Quorum; accounted && doc.Changes < doc.Acquisitions {
		t.Errorf("%s: the servers told of %d changes for %d acquisitions", o.Topology, doc.Changes, doc.Acquisitions)
	}
	for _, c := range doc.Checks {
		only := []string{"order", "owners", "least", "evictions", "refused"} // each is of one workload
		if len(o.Works) == 0 && c.Examined == 0 && slices.Contains(only, c.Name) {
			return c.Name + " looked at nothing" // as in a run whose locks were in other hands
		}
	}
	var page strings.Builder
	assert.NoError(t, doc.HTML(&page))
	for _, want := range []string{"Every promise was kept", "<svg", o.Faults[0], doc.Setup.Command[:20]} {
		assert.Contains(t, page.String(), want)
	}
	return ""
}

func TestWhatCannotBeRunIsRefused(t *testing.T) {
	for want, o := range map[string]suite.Options{
		"topology":              {Topology: "moon"},
		"duration":              {Duration: time.Second},
		"ttl":                   {TTL: time.Millisecond},
		"clients":               {Clients: 1},
		"rest":                  {Rest: -1},
		"calm":                  {Calm: -1},
		`--works "sleep"`:       {Works: []string{"sleep"}},
		"there is no fault":     {Faults: []string{"sleep"}},
		"on standalone":         {Faults: []string{"failover"}},
		"would break":           {Faults: []string{"flush-all"}, URL: "redis://127.0.0.1:1"},
		"not possible with TLS": {Faults: []string{"cut"}, URL: "rediss://127.0.0.1:1"},
		"needs the workload":    {Faults: []string{"stop-writer"}, Works: []string{workload.Mutex}},
	} {
		o.Argv = []string{"true"}
		_, err := o.Complete()
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "%+v: %v, want %q", o, err, want)
	}
}

// On a server of the user's only the suite's own processes and connections are
// hurt.
func TestAUsersServerIsLeftWhole(t *testing.T) {
	o, err := suite.Options{URL: "redis://127.0.0.1:1", Argv: []string{"true"}}.Complete()
	assert.Must(t, err)
	for _, f := range fault.All() {
		for _, name := range o.Faults {
			assert.False(t, name == f.Name && f.Side == fault.OnServer, "%s would be injected", name)
		}
	}
	assert.AtLeast(t, len(o.Faults), 5, "only %v are left", o.Faults)
}

// withRights is a run on a server of the user's, as a user who has what the manual gives it,
// but for one command.
func withRights(t *testing.T, but string) (*report.Document, error) {
	t.Helper()
	s := redistest.Start(t, redistest.Needs("for `holdfast verify`"))
	rights := slices.DeleteFunc(s.Rights(t), func(rule string) bool { return rule == but })
	args := []any{"ACL", "SETUSER", "app", "on", ">pw"}
	for _, rule := range rights {
		args = append(args, rule)
	}
	s.Do(t, args...)
	for seconds := time.Duration(3); ; seconds *= 4 { // a busy machine may need more than three
		out, err := suite.Run(t.Context(), suite.Options{
			URL: strings.Replace(s.URL(), "://", "://app:pw@", 1), Prefix: redistest.Prefix() + ":verify",
			Argv: []string{os.Args[0]}, TTL: time.Second, Duration: seconds * time.Second, Clients: 2,
			Works: []string{workload.Mutex}, Faults: []string{"kill"},
		})
		if err != nil {
			return nil, err
		}
		if doc := report.Make(out); !doc.Thin() || seconds > 30 {
			return doc, nil
		}
	}
}

func TestAUserWithTheRightsOfTheManualIsEnough(t *testing.T) {
	doc, err := withRights(t, "")
	assert.Must(t, err)
	assert.True(t, doc.OK && doc.Acquisitions > 0, "%s", doc.Text())
}

// The subscription to the servers' notes repeats itself for as long as a server may come back.
func TestAServerThatRefusesTheNotesEndsTheRun(t *testing.T) {
	_, err := withRights(t, "+subscribe")
	assert.True(t, err != nil && strings.Contains(err.Error(), "NOPERM"), "%v", err)
}
