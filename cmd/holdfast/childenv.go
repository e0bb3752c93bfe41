package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockjson"
	"github.com/holdfast-go/holdfast/internal/waitsfor"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Variables that a command finds.
const (
	envHeld    = "HOLDFAST_LOCK_HELD"
	envLock    = "HOLDFAST_LOCK_NAME"
	envChain   = "HOLDFAST_LOCK_CHAIN"
	envID      = "HOLDFAST_LOCK_ID" // from holdfast acquire only
	envToken   = "HOLDFAST_LOCK_TOKEN"
	envPermits = "HOLDFAST_LOCK_PERMITS"
	envLimit   = "HOLDFAST_LOCK_LIMIT"
	envOwner   = "HOLDFAST_LOCK_OWNER"
)

// heldLock is what a command finds about its lock. The holder ID is not in it: with
// that, a program can renew and release the lock.
type heldLock struct {
	names, keys    []string
	tokens         []uint64
	mode           string
	permits, limit int // of a semaphore
	owner          string
	ttl            time.Duration
	at             time.Time
	chain          string
	server         string // its URL without the password; empty: the command finds it by itself
}

// environment is the environment of a command. Our variables replace those of an outer
// run: of two with one name, some programs take the first.
//
// Without --pass-url, the password is not in it. The rest of the URL is: a holdfast
// inside the command might fall back to another server otherwise. It would lock nothing,
// and nobody would notice.
func environment(base []string, g heldLock, passURL bool) []string {
	ours := []string{
		envHeld + "=true",
		envLock + "=" + strings.Join(g.names, "\n"),
		"HOLDFAST_LOCK_KEY=" + strings.Join(g.keys, "\n"),
		envToken + "=" + strings.Join(g.tokenTexts(), "\n"),
		fmt.Sprintf("HOLDFAST_LOCK_TTL_MS=%d", g.ttl.Milliseconds()),
		"HOLDFAST_LOCK_MODE=" + g.mode,
		fmt.Sprintf("HOLDFAST_LOCK_PID=%d", os.Getpid()),
		"HOLDFAST_LOCK_ACQUIRED_AT=" + lockjson.Stamp(g.at),
		envChain + "=" + g.chain,
	}
	if g.permits > 0 {
		ours = append(ours, fmt.Sprintf(envPermits+"=%d", g.permits), fmt.Sprintf(envLimit+"=%d", g.limit))
	}
	if g.owner != "" {
		ours = append(ours, envOwner+"="+g.owner)
	}
	if !passURL && g.server != "" {
		ours = append(ours, "HOLDFAST_REDIS="+g.server)
	}
	drop := func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		switch name {
		case "HOLDFAST_REDIS", "HOLDFAST_PASSWORD", "HOLDFAST_SENTINEL_PASSWORD":
			return !passURL
		case "HOLDFAST_EVENTS_FD": // the command does not inherit it
			return true
		case envPermits, envLimit, envOwner, envID: // of a lock around ours
			return true
		}
		return slices.ContainsFunc(ours, func(o string) bool { return strings.HasPrefix(o, name+"=") })
	}
	return append(slices.DeleteFunc(slices.Clone(base), drop), ours...)
}

// tokenTexts are the tokens as texts.
func (g heldLock) tokenTexts() []string {
	texts := make([]string, len(g.tokens))
	for i, token := range g.tokens {
		texts[i] = wire.Number(token)
	}
	return texts
}

// link names one lock on one server in a chain, with the owner name under which it is held.
// No part has a space: the key and the owner are encoded, and so is the address here.
func link(address, key, owner string) string {
	text := strings.ReplaceAll(address, " ", "%20") + "#" + key
	if owner != "" {
		text += "@" + wire.Owner(owner)
	}
	return text
}

// clientOf is the word of a chain behind a link: the ID of the client that holds the lock. With
// it nobody can renew or release the lock. An older holdfast does not look at it.
func clientOf(id string) string { return "=" + id }

// outerHolds are the holds in a chain that are on this server, under this prefix of the keys.
func outerHolds(chain, address, prefix string) (holds []waitsfor.Outer) {
	words := strings.Fields(chain)
	for i, word := range words[:max(len(words)-1, 0)] {
		client, ours := strings.CutPrefix(words[i+1], clientOf(""))
		rest, same := strings.CutPrefix(word, link(address, prefix+":{", ""))
		name, _, whole := strings.Cut(rest, "}") // an encoded name has none
		if ours && same && whole && client != "" {
			holds = append(holds, waitsfor.Outer{Lock: wire.Decode(name), Client: client})
		}
	}
	return holds
}

// within reports whether a chain has the lock already, so that a run inside would wait for
// the run around it. A run under the same owner name would not.
func within(chain, address, key, owner string) bool {
	plain, ours := link(address, key, ""), link(address, key, owner)
	return slices.ContainsFunc(strings.Fields(chain), func(held string) bool {
		return held == plain || strings.HasPrefix(held, plain+"@") && held != ours
	})
}
