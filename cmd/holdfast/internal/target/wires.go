package target

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/help"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/compat/redislock"
	"github.com/holdfast-go/holdfast/compat/redisson"
	"github.com/holdfast-go/holdfast/compat/redsync"
	"github.com/holdfast-go/holdfast/store"
)

// Wires are the libraries in whose form run can hold a lock. Of Redisson's kinds it is the RLock.
var Wires = []string{"redsync", "redislock", "redisson"}

// WireFlags say in whose form a lock is held.
type WireFlags struct {
	Wire    string
	Bridge  bool
	OldName string // of the lock of --wire; empty: that of the native one
}

// Add adds the flags to a command.
func (f *WireFlags) Add(flags *pflag.FlagSet) {
	defer help.Foreign.In(flags)()
	flags.StringVar(&f.Wire, "wire", "native",
		"hold the lock as another library does: redsync, redislock or redisson. NAME is its key")
	flags.BoolVar(&f.Bridge, "bridge", false,
		"hold the lock of --wire and the native one, while programs move from one to the other")
	flags.StringVar(&f.OldName, "bridge-name", "",
		"with --bridge: the key of the lock of --wire. Default: NAME")
	cli.Rename(flags, map[string]string{"wire": "LIBRARY", "bridge-name": "KEY"})
}

// Foreign reports whether the lock is in another library's form.
func (f *WireFlags) Foreign() bool { return f.Wire != "" && f.Wire != "native" }

// openWire makes the client of another library's form. Without a bridge it is the only one.
func (s *Server) openWire(f *WireFlags, servers []store.Store, cfg holdfast.Config) (err error) {
	switch {
	case !f.Foreign():
		return nil
	case f.Wire != "redsync" && len(servers) > 1:
		return exit.Usage(fmt.Sprintf("--wire %s takes one server, and %d are named", f.Wire, len(servers)),
			"write --wire redsync to use a quorum the way redsync does")
	case !f.Bridge:
		s.Store, s.ByName = f.storeOf(servers), true
		return nil
	}
	s.oldName = f.OldName
	s.Old, err = holdfast.New(f.storeOf(servers), cfg)
	return err
}

func (f *WireFlags) storeOf(servers []store.Store) store.Store {
	switch f.Wire {
	case "redisson":
		return redisson.New(servers[0], redisson.Config{Kind: redisson.Lock})
	case "redislock":
		return redislock.NewStore(servers[0])
	}
	return redsync.NewStore(servers...)
}

// NameIn is the name that a lock has for a client: the old form may have another one.
func (s *Server) NameIn(c *holdfast.Client, name string) string {
	if c == s.Old && s.oldName != "" {
		return s.oldName
	}
	return name
}

// Clients has a client for each form of a lock, in the order in which a bridge acquires them.
func (s *Server) Clients() []*holdfast.Client {
	if s.Old == nil {
		return []*holdfast.Client{s.Client}
	}
	return []*holdfast.Client{s.Old, s.Client}
}

// ForeignAt reads the key of that name as the lock of another library; nil if it is none, or cannot be read.
func (s *Server) ForeignAt(ctx context.Context, key string) (found *survey.Foreign) {
	err := survey.ReadForeign(ctx, s.Conns(), key, func(f survey.Foreign) { found = &f })
	if err != nil {
		return nil // the user may not read other keys
	}
	return found
}
