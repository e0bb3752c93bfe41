// Package audit makes the server give an account of its locks. [Store] wraps a store so
// that each script publishes, in the same atomic step, what it changed in the records. A
// subscriber of the channel learns of every grant and every end, in their order, and
// from no client.
//
// Without the wrapper the library sends its scripts as they are, and pays nothing. With
// it, each script that changes something costs the server about ten microseconds more,
// and a message to the channel. The user needs the right to publish there, beside the
// rights that the library needs.
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

// Who is a channel to which the collector of a server's notes subscribes on that server
// only. By it the notes say which server they are from; replicas repeat them.
func Who(prefix, name string) string { return Channel(prefix) + "@" + name }

// Store returns st with scripts that publish an account of themselves on channel, see
// [Channel]. The result can do what st can do beyond [store.Store].
func Store(st store.Store, channel string) store.Store {
	return wrapped(st, func(action *script.Script) *script.Script { return Noted(action, channel) })
}

// Noted is a script with its notes.
func Noted(action *script.Script, channel string) *script.Script {
	return made(action, action.Declaration()+noted(action, channel))
}

// Undeclared is Store for a server that does not know the declaration of a script, such
// as miniredis.
func Undeclared(st store.Store, channel string) store.Store {
	return wrapped(st, func(action *script.Script) *script.Script { return made(action, noted(action, channel)) })
}

func wrapped(st store.Store, wrap func(*script.Script) *script.Script) store.Store {
	a := &audited{Store: st, actions: make(map[*script.Script]*script.Script)}
	for _, action := range script.All() {
		a.actions[action] = wrap(action)
	}
	if acker, ok := store.As[store.Acker](st); ok {
		return &acking{a, acker}
	}
	return a
}

type audited struct {
	store.Store
	actions map[*script.Script]*script.Script
}

// callers says in Lua for which attempt a script was sent, if that is not the script's
// first argument.
var callers = map[string]string{
	"acquire_free": "ARGV[i + 2]",
	"release_idle": "ARGV[i]",
	"renew":        "string.match(ARGV[i + 2], '^%S*')",
	"evict":        "'-'",
	"set_limit":    "'-'",
}

// noted is the body of a script, with its notes if it changes the record of a lock.
func noted(action *script.Script, channel string) string {
	switch action {
	case script.RegisterClient, script.ReadClient, script.Inspect, script.ReadLeader, script.Check:
		return action.Body()
	}
	caller := callers[action.Name]
	if caller == "" {
		caller = "ARGV[1]"
	}
	pushes := strings.TrimSuffix(channel, "audit") + "push:"
	text := strings.NewReplacer("'CHANNEL'", "'"+channel+"'", "'PUSHES'", "'"+pushes+"'",
		"'ACTION'", "'"+action.Name+"'", "CALLER", caller, "'CHANNEL@*'", "'"+channel+"@*'").Replace(code(wrapping))
	return strings.Replace(text, "--include action\n", action.Body(), 1)
}

// made is a script with another text.
func made(action *script.Script, text string) *script.Script {
	sum := sha1.Sum([]byte(text))
	return &script.Script{Name: action.Name, Text: text, SHA1: hex.EncodeToString(sum[:]), Repeats: action.Repeats}
}

// code is a script without its header.
func code(text string) string {
	_, body, _ := strings.Cut(text, "\n\n")
	return body
}

// Run implements [holdfast.Store].
func (a *audited) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	return a.Store.Run(ctx, a.of(action), keys, args)
}

func (a *audited) of(action *script.Script) *script.Script {
	if wrapped := a.actions[action]; wrapped != nil {
		return wrapped
	}
	return action // it is no script of the protocol
}

// Unwrap implements [store.Wrapper].
func (a *audited) Unwrap() store.Store { return a.Store }

type acking struct {
	*audited
	acker store.Acker
}

// RunAcked implements [holdfast.Acker].
func (a *acking) RunAcked(
	ctx context.Context, action *script.Script, keys, args []string, need store.Acks, limit time.Duration,
) (string, store.Acks, error) {
	return a.acker.RunAcked(ctx, a.of(action), keys, args, need, limit)
}
