package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/bridge"
	"github.com/holdfast-go/holdfast/compat/redisson"
	"github.com/holdfast-go/holdfast/internal/stringlock"
	"github.com/holdfast-go/holdfast/store"
)

// wires are the libraries in whose form run can hold a lock. Of Redisson's kinds it is the RLock.
var wires = []string{"redsync", "redislock", "redisson"}

// wireFlags say in whose form a lock is held.
type wireFlags struct {
	wire    string
	bridge  bool
	oldName string // of the lock of --wire; empty: that of the native one
}

func (f *wireFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.wire, "wire", "native",
		"hold the lock as another library does: redsync, redislock or redisson. NAME is its key")
	flags.BoolVar(&f.bridge, "bridge", false,
		"hold the lock of --wire and the native one, while programs move from one to the other")
	flags.StringVar(&f.oldName, "bridge-name", "",
		"with --bridge: the key of the lock of --wire. Default: NAME")
	rename(flags, map[string]string{"wire": "LIBRARY", "bridge-name": "KEY"})
}

// foreign reports whether the lock is in another library's form.
func (f *wireFlags) foreign() bool { return f.wire != "" && f.wire != "native" }

// checkWire refuses what the form of another library cannot carry.
func (o *runOptions) checkWire() error {
	lib, flags := "--wire "+o.wire, "--wire"
	if o.bridge {
		lib, flags = "--bridge", "--wire and --bridge"
	}
	if err := refuse([]clash{
		{
			o.foreign() && !slices.Contains(wires, o.wire),
			fmt.Sprintf("--wire: %q is not redsync, redislock, redisson or native", o.wire),
			"write one of these, as in --wire redsync",
		},
		{!o.bridge && o.oldName != "", "--bridge-name without --bridge", "add --bridge, or give the key as NAME"},
		{o.bridge && !o.foreign(), "--bridge without --wire", "write --wire LIBRARY, too, as in --wire redsync"},
	}); err != nil || !o.foreign() {
		return err
	}
	only, native := lib+" has only exclusive locks", "without "+flags+", the lock is a native one, which supports this"
	return refuse([]clash{
		{len(o.names) > 1, only + ", and several names are given", native},
		{o.shared, only + ", and does not support --shared", native},
		{o.permits > 0, only + ", and does not support --permits", native},
		{o.owner != "", only + ", and does not support --owner", native},
		{
			o.bridge && o.minHold > 0,
			"--bridge releases both locks when the command ends: it has no --min-hold and no --once-per",
			leaveOut,
		},
	})
}

// openWire makes the client of another library's form. Without a bridge it is the only one.
func (s *server) openWire(f *wireFlags, servers []store.Store, cfg holdfast.Config) (err error) {
	switch {
	case !f.foreign():
		return nil
	case f.wire != "redsync" && len(servers) > 1:
		return usageError(fmt.Sprintf("--wire %s takes one server, and %d are named", f.wire, len(servers)),
			"write --wire redsync to use a quorum the way redsync does")
	case !f.bridge:
		s.store, s.byName = f.storeOf(servers), true
		return nil
	}
	s.oldName, s.oldStore = f.oldName, f.storeOf(servers)
	s.old, err = holdfast.New(s.oldStore, cfg)
	return err
}

func (f *wireFlags) storeOf(servers []store.Store) store.Store {
	if f.wire == "redisson" {
		return redisson.New(servers[0], redisson.Config{Kind: redisson.Lock})
	}
	return stringlock.NewStore(servers, f.wire)
}

// nameIn is the name that a lock has for a client: the old form may have another one.
func (s *server) nameIn(c *holdfast.Client, name string) string {
	if c == s.old && s.oldName != "" {
		return s.oldName
	}
	return name
}

// form is one form of a lock: a client, and its store.
type form struct {
	client *holdfast.Client
	store  store.Store
}

// forms are the forms of a lock, in the order in which a bridge acquires them.
func (s *server) forms() []form {
	if s.old == nil {
		return []form{{s.client, s.store}}
	}
	return []form{{s.old, s.oldStore}, {s.client, s.store}}
}

// bridged acquires both forms.
func (s *server) bridged(name string, options []holdfast.LockOption) acquirer {
	own := optionsOf[holdfast.MutexOption](options)
	m := bridge.New(bridge.Both, s.old.Mutex(s.nameIn(s.old, name), own...), s.client.Mutex(name, own...))
	return eitherOf(m.Lock, m.TryLock)
}

// holders describes who holds a lock in any form, after a blank; empty if nobody does, as far as known.
func (s *server) holders(ctx context.Context, name, before string) string {
	for _, form := range s.forms() {
		c := form.client
		if state, err := c.Holders(ctx, s.nameIn(c, name)); err == nil && state.Held() {
			return before + heldBy(state)
		}
	}
	return ""
}
