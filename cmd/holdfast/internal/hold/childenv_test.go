package hold

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// What the runs around this one hold is read from the chain, whatever the names are: of this prefix only.
func TestTheHoldsOfOuterRuns(t *testing.T) {
	odd := "a b}{#@=%\n日本"
	words := []string{
		link(keyOf(t, "p", odd)), clientOf("c1"),
		link(keyOf(t, "p", "y")), clientOf("c2"),
		link(keyOf(t, "q", "z")), clientOf("c4"),
		foreignLink("old"), clientOf("c3"),
		link(keyOf(t, "p", "last")), clientOf("c5"),
	}
	want := []holdfast.LeaseInfo{
		{Name: odd, HolderID: "c1"}, {Name: "y", HolderID: "c2"}, {Name: "last", HolderID: "c5"},
	}
	chain := strings.Join(words, " ")
	assert.EqualSlices(t, around(chain, "p"), want, "around")
	assert.EqualSlices(t, clientsOf(chain), []string{"c1", "c2", "c4", "c3", "c5"}, "clientsOf")
	for _, chain := range []string{"", "=", "x", "= =", link(keyOf(t, "p", "a")) + " ="} {
		got, clients := around(chain, "p"), clientsOf(chain)
		assert.True(t, got == nil && clients == nil, "%q: %v, %q", chain, got, clients)
	}
}

func keyOf(t *testing.T, prefix, name string) string {
	t.Helper()
	key, err := holdfast.Key(prefix, name)
	assert.Must(t, err)
	return key
}

// A run waits for itself if a live hold is one of a run around it, and of another owner.
func TestAHoldOfARunAroundThisOne(t *testing.T) {
	by := func(client string) holdfast.Holder { return holdfast.Holder{ClientID: client} }
	for _, c := range []struct {
		name    string
		holders []holdfast.Holder
		owner   string
		held    bool
	}{
		{"a free lock", nil, "", false},
		{"an outer run", []holdfast.Holder{by("c1")}, "", true},
		{"another client", []holdfast.Holder{by("c11")}, "", false},
		{"a later reader", []holdfast.Holder{by("x"), by("c2")}, "", true},
		{"a hold that is kept", []holdfast.Holder{{ClientID: "c1", Released: true}}, "", false},
		{"our owner", []holdfast.Holder{{ClientID: "c1", Owner: "o"}}, "o", false},
		{"another owner", []holdfast.Holder{{ClientID: "c1", Owner: "p"}}, "o", true},
	} {
		held := heldAround(holdfast.LockInfo{Holders: c.holders}, []string{"c1", "c2"}, c.owner)
		assert.Equal(t, held, c.held, "%s: held", c.name)
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
