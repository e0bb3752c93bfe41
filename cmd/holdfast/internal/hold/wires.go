package hold

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/describe"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/compat/bridge"
)

// checkWire refuses what the form of another library cannot carry.
func (o *runOptions) checkWire() error {
	lib, flags := "--wire "+o.Wire, "--wire"
	if o.Bridge {
		lib, flags = "--bridge", "--wire and --bridge"
	}
	if err := refuse([]clash{
		{
			o.Foreign() && !slices.Contains(target.Wires, o.Wire),
			fmt.Sprintf("--wire: %q is not redsync, redislock, redisson or native", o.Wire),
			"write one of these, as in --wire redsync",
		},
		{!o.Bridge && o.OldName != "", "--bridge-name without --bridge", "add --bridge, or give the key as NAME"},
		{o.Bridge && !o.Foreign(), "--bridge without --wire", "write --wire LIBRARY, too, as in --wire redsync"},
	}); err != nil || !o.Foreign() {
		return err
	}
	only, native := lib+" has only exclusive locks", "without "+flags+", the lock is a native one, which supports this"
	return refuse([]clash{
		{len(o.names) > 1, only + ", and several names are given", native},
		{o.shared, only + ", and does not support --shared", native},
		{o.permits > 0, only + ", and does not support --permits", native},
		{o.owner != "", only + ", and does not support --owner", native},
		{
			o.Bridge && o.minHold > 0,
			"--bridge releases both locks when the command ends: it has no --min-hold and no --once-per",
			cli.LeaveOut,
		},
	})
}

// bridged acquires both forms.
func bridged(s *target.Server, name string, options []holdfast.LockOption) acquirer {
	own := append(optionsOf[holdfast.MutexOption](options), holdfast.Checked())
	m := bridge.New(bridge.Both, s.Old.Mutex(s.NameIn(s.Old, name), own...), s.Client.Mutex(name, own...))
	return eitherOf(m.Lock, m.TryLock)
}

// holdersOf describes who holds a lock in any form, or says that nobody can; empty if neither is known.
func holdersOf(ctx context.Context, s *target.Server, name string) string {
	for _, c := range s.Clients() {
		switch state, err := c.Holders(ctx, s.NameIn(c, name)); {
		case err != nil:
		case state.Held():
			return "held " + describe.Holders(state)
		case state.Drained:
			return "drained: nobody gets a permit"
		}
	}
	return ""
}
