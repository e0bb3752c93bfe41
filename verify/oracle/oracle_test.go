package oracle

import (
	"flag"
	"os"
	"testing"

	"pgregory.net/rapid"
)

// The size of a normal run, of so many [sequences]; -rapid.checks and
// -rapid.steps ask for another, -rapid.seed repeats one.
const steps = "60"

func TestMain(m *testing.M) {
	flag.Parse()
	asked := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { asked[f.Name] = true })
	for name, value := range map[string]string{
		"rapid.checks":     sequences,
		"rapid.steps":      steps,
		"rapid.nofailfile": "true",
	} {
		if asked[name] {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// Clients that keep to the protocol, on both sides at once, with the invariants
// asserted. Guarantee: I1 I2 I3 I4 I5 I6 I7.
func TestProtocol(t *testing.T) {
	srv := newServer(t)
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(srv, rt)
		defer w.close()
		rt.Repeat(rapid.StateMachineActions(newMachine(w)))
	})
}

// Any client of the server may send anything: attempts with other arguments than before,
// owners named like attempts, tokens of others. Both sides must still agree.
func TestAnyArguments(t *testing.T) {
	srv := newServer(t)
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(srv, rt)
		defer w.close()
		rt.Repeat(rapid.StateMachineActions(&wild{world: w}))
	})
}
