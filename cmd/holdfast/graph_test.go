package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
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
	on := redistest.Start(t, redistest.Tenant(defaultPrefix), listing)
	s := opened(t, on)
	ctx, cancel := context.WithCancel(t.Context())
	found := make(deadlocked, 1)
	ended := make(chan error, 2)
	var calls []func()
	for _, names := range [][]string{{"x", "y"}, {"y", "x"}} {
		c := opened(t, on, holdfast.Config{App: "app-" + names[0], Observer: found, TTL: 3 * time.Second}).client
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
