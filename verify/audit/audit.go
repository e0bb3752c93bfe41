// Package audit has the server keep the truth about its locks. [Store] wraps a
// store so that each action, in the same atomic step, publishes what it changed
// in the records that it worked on; who subscribes to the channel learns every
// grant and every end in the order in which they happened, from no client.
//
// This is the one switch: without the wrapper the library sends its scripts as
// they are, and pays nothing. With it each action that changes something costs
// the server about ten microseconds more and a message to the channel. Besides
// the rights that the library needs, the user must be allowed to publish there.
package audit

import (
	"context"
	"crypto/sha1" // names a script to EVALSHA; no security rests on it
	_ "embed"
	"encoding/hex"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

//go:embed audit.lua
var wrapping string

// Channel is where the notes about the locks under prefix are published.
func Channel(prefix string) string { return prefix + ":audit" }

// Who is a channel that whoever collects the notes of the server called name hears
// there, and nowhere else: by that its notes say whose they are. Replicas repeat them.
func Who(prefix, name string) string { return Channel(prefix) + "@" + name }

// Store returns store with actions that keep an account of themselves on
// channel, see [Channel]. What the store can do beyond [store.Store], the result
// can do too.
func Store(st store.Store, channel string) store.Store {
	s := &audited{Store: st, actions: make(map[*script.Script]*script.Script)}
	for _, action := range script.All() {
		s.actions[action] = wrap(action, channel)
	}
	if acker, ok := st.(store.Acker); ok {
		return &acking{s, acker}
	}
	return s
}

type audited struct {
	store.Store
	actions map[*script.Script]*script.Script
}

// callers says in Lua for which attempt an action was sent, if it is not its
// first argument.
var callers = map[string]string{
	"acquire_free": "ARGV[i + 2]",
	"release_idle": "ARGV[i]",
	"renew":        "ARGV[3 * i - 1]",
	"evict":        "'-'",
	"set_limit":    "'-'",
}

// wrap is the action with its notes. What is no record of a lock is left as it is.
func wrap(action *script.Script, channel string) *script.Script {
	switch action {
	case script.RegisterClient, script.ReadClient, script.Inspect, script.ReadLeader:
		return action
	}
	caller := callers[action.Name]
	if caller == "" {
		caller = "ARGV[1]"
	}
	pushes := strings.TrimSuffix(channel, "audit") + "push:"
	text := strings.NewReplacer("'CHANNEL'", "'"+channel+"'", "'PUSHES'", "'"+pushes+"'",
		"'ACTION'", "'"+action.Name+"'", "CALLER", caller, "'CHANNEL@*'", "'"+channel+"@*'").Replace(code(wrapping))
	text = action.Declaration() + strings.Replace(text, "--include action\n", action.Body(), 1)
	sum := sha1.Sum([]byte(text))
	return &script.Script{Name: action.Name, Text: text, SHA1: hex.EncodeToString(sum[:])}
}

// code is a script without its header.
func code(text string) string {
	_, body, _ := strings.Cut(text, "\n\n")
	return body
}

// Run implements [holdfast.Store].
func (s *audited) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	return s.Store.Run(ctx, s.of(action), keys, args)
}

func (s *audited) of(action *script.Script) *script.Script {
	if wrapped := s.actions[action]; wrapped != nil {
		return wrapped
	}
	return action // one that is none of the protocol's
}

// Batches implements [store.Batcher].
func (s *audited) Batches() bool {
	g, ok := s.Store.(store.Batcher)
	return ok && g.Batches()
}

// CloseIdleConnections implements [holdfast.IdleCloser].
func (s *audited) CloseIdleConnections() {
	if own, ok := s.Store.(store.IdleCloser); ok {
		own.CloseIdleConnections()
	}
}

type acking struct {
	*audited
	acker store.Acker
}

// RunAcked implements [holdfast.Acker].
func (s *acking) RunAcked(
	ctx context.Context, action *script.Script, keys, args []string, need store.Acks, limit time.Duration,
) (string, store.Acks, error) {
	return s.acker.RunAcked(ctx, s.of(action), keys, args, need, limit)
}
