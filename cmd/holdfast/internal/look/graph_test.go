package look

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/commandline"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
)

// deadlocked tells its channel of the first deadlock.
type deadlocked chan struct{}

// Observe implements [observe.Observer].
func (d deadlocked) Observe(e observe.Event) {
	if e.Kind == observe.EventDeadlock {
		select {
		case d <- struct{}{}:
		default:
		}
	}
}

// Two clients hold a lock each and wait for that of the other: list --graph shows the waiters
// and what they hold, and names the deadlock. Once it is over, nobody waits.
func TestTheGraphShowsADeadlock(t *testing.T) {
	on := redistest.Start(t, redistest.Tenant(target.DefaultPrefix), redistest.Needs("for `Client.List`"))
	s := openedAt(t, on)
	ctx, cancel := context.WithCancel(t.Context())
	found := make(deadlocked, 1)
	ended := make(chan error, 2)
	var calls []func()
	for _, names := range [][]string{{"x", "y"}, {"y", "x"}} {
		c := openedAt(t, on, holdfast.Config{App: "app-" + names[0], Observer: found, TTL: 3 * time.Second}).Client
		first, err := c.Mutex(names[0]).Lock(ctx)
		assert.Must(t, err)
		calls = append(calls, func() {
			_, err := c.Mutex(names[1]).Lock(first.Context())
			ended <- err
		})
	}
	for _, call := range calls { // both hold their first lock now
		go call()
	}
	redistest.Next(t, "the deadlock", found)

	graph := func(form outputForm) string {
		var out strings.Builder
		l := &lister{listOptions: &listOptions{output: form, graph: true}, server: s, w: &out}
		assert.Must(t, l.printGraph(t.Context()))
		return out.String()
	}
	text := graph("table")
	for _, want := range []string{
		"x  held by app-x@", "y  held by app-y@", ", holds x\n", ", holds y\n", "\ndeadlock: app-",
		` holds "x" and waits for "y"`, ` holds "y" and waits for "x"`, "holdfast evict ",
	} {
		assert.Contains(t, text, want)
	}
	var lines []graphJSON
	for dec := json.NewDecoder(strings.NewReader(graph("json"))); dec.More(); {
		var line graphJSON
		assert.Must(t, dec.Decode(&line))
		lines = append(lines, line)
	}
	if len(lines) != 3 || lines[0].Name != "x" || len(lines[0].Waiters) != 1 || lines[0].Waiters[0].Holds[0] != "y" ||
		len(lines[2].Deadlock) != 2 {
		t.Errorf("the lines are %+v", lines)
	}
	cancel()
	<-ended
	<-ended
	// The calls have returned; their places in the queues are given back in the background.
	redistest.Await(t, "the graph shows no waiter", func() bool { return graph("table") == "nobody waits\n" })
}

// openedAt is what a command has of a server.
func openedAt(t *testing.T, on *redistest.Server, cfg ...holdfast.Config) *target.Server {
	t.Helper()
	t.Setenv("SSL_CERT_FILE", on.CAFile())
	a := &target.App{Say: &say.Printer{W: io.Discard}}
	a.Server.Add(pflag.NewFlagSet("test", pflag.ContinueOnError))
	a.Server.URLs = commandline.URLs{on.URL()}
	s, err := a.Open(append(cfg, holdfast.Config{})[0])
	assert.Must(t, err)
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

// Without code that holds a lock and waits for another one, deadlocks cost no request: there is no client here to
// send one.
func TestMostLocksCostNoRequestForDeadlocks(t *testing.T) {
	held := holdfast.LockInfo{Name: "x", Holders: []holdfast.Holder{{HolderID: "a/1"}}, Waiting: 3}
	cycle, err := deadlockOf(t.Context(), nil, held)
	assert.True(t, cycle == nil && err == nil, "%v, %v", cycle, err)
	waits := []holdfast.WaitInfo{{Name: "y", Holds: "z", HolderID: "b/2"}}
	waiting := holdfast.LockInfo{Name: "z", Holders: []holdfast.Holder{{HolderID: "b/1", WaitsFor: waits}}}
	y := holdfast.LockInfo{Name: "y", Holders: []holdfast.Holder{{HolderID: "c/1"}}}
	y.Waiters = []holdfast.Waiter{{HolderID: "b/2"}}
	found, err := deadlocksOf(t.Context(), nil, []holdfast.LockInfo{held, waiting, y})
	assert.True(t, found == nil && err == nil, "%v, %v", found, err)
}
