package hold

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/waitsfor"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// What the runs around this one hold is read from the chain, whatever the names are: of this prefix only.
func TestTheHoldsOfOuterRuns(t *testing.T) {
	odd := "a b}{#@=%\n日本"
	words := []string{
		link(wire.Key("p", odd)), clientOf("c1"),
		link(wire.Key("p", "y")), clientOf("c2"),
		link(wire.Key("q", "z")), clientOf("c4"),
		foreignLink("old"), clientOf("c3"),
		link(wire.Key("p", "last")), clientOf("c5"),
	}
	want := []waitsfor.Outer{{Lock: odd, Client: "c1"}, {Lock: "y", Client: "c2"}, {Lock: "last", Client: "c5"}}
	chain := strings.Join(words, " ")
	assert.EqualSlices(t, around(chain, "p"), want, "around")
	assert.EqualSlices(t, clientsOf(chain), []string{"c1", "c2", "c4", "c3", "c5"}, "clientsOf")
	for _, chain := range []string{"", "=", "x", "= =", link(wire.Key("p", "a")) + " ="} {
		got, clients := around(chain, "p"), clientsOf(chain)
		assert.True(t, got == nil && clients == nil, "%q: %q, %q", chain, got, clients)
	}
}

// A run waits for itself if a live hold in the record is one of a run around it, and of another owner.
func TestAHoldOfARunAroundThisOne(t *testing.T) {
	record := func(holders ...wire.HolderLine) *wire.Record { return &wire.Record{Holders: holders} }
	for _, c := range []struct {
		name        string
		record      *wire.Record
		owner       string
		held, ended bool
	}{
		{"a free lock", record(), "", false, false},
		{"an outer run", record(wire.HolderLine{Mode: wire.Exclusive, Attempt: "c1/7"}), "", true, true},
		{"another client", record(wire.HolderLine{Mode: wire.Exclusive, Attempt: "c11/7"}), "", false, true},
		{"readers", record(wire.HolderLine{Mode: wire.Shared, Attempt: "x/1"}), "", false, false},
		{"a later reader", record(wire.HolderLine{Mode: wire.Shared, Attempt: "x/1"},
			wire.HolderLine{Mode: wire.Shared, Attempt: "c2/1"}), "", true, true},
		{
			"a hold that is kept", record(wire.HolderLine{Mode: wire.Exclusive, Attempt: "c1/7", Kept: true}),
			"", false, true,
		},
		{"our owner", record(wire.HolderLine{Mode: wire.Exclusive, Attempt: "c1/7", Owner: "o"}), "o", false, true},
		{"another owner", record(wire.HolderLine{Mode: wire.Exclusive, Attempt: "c1/7", Owner: "p"}), "o", true, true},
	} {
		clients := []string{"c1", "c2"}
		assert.Equal(t, heldAround(c.record, clients, c.owner), c.held, "%s: held", c.name)
		assert.Equal(t, settled(c.record, clients, c.owner), c.ended, "%s: settled", c.name)
	}
}

// The variables of every flag of every command end with this run, but for those of the flags that all commands
// have, and of no flag.
func TestACommandInheritsNoOptions(t *testing.T) {
	a, root := &target.App{Log: "text", Say: &say.Printer{W: io.Discard}}, &cobra.Command{Use: "holdfast"}
	a.Server.Add(root.PersistentFlags())
	root.AddCommand(NewRun(a), NewEvery(a), NewElect(a), NewAcquire(a), NewExtend(a), NewRelease(a))
	var base, kept []string
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { kept = append(kept, cli.EnvName(f.Name)+"=1") })
	kept = append(kept, cli.EnvPageToken+"=1", "HOLDFAST_VERSION=1", "REDIS_URL=x", "HOME=/")
	base = append(base, kept...)
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) { base = append(base, cli.EnvName(f.Name)+"=1") })
		for _, child := range cmd.Commands() {
			walk(child)
		}
	}
	walk(root)
	for _, known := range []string{"SHARED", "MIN_HOLD", "OWNER", "PERMITS", "WAIT", "STATE", "JSON", "EVENTS_FD"} {
		assert.True(t, slices.Contains(base, cli.EnvPrefix+known+"=1"), "no command has the flag of %s", known)
	}
	got := environment(base, heldLock{}, flagVariables(root), true)
	got = slices.DeleteFunc(got, func(entry string) bool { return strings.HasPrefix(entry, "HOLDFAST_LOCK_") })
	slices.Sort(got)
	slices.Sort(kept)
	assert.EqualSlices(t, slices.Compact(got), slices.Compact(kept), "what a command inherits")
}
