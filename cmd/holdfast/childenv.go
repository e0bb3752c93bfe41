package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Variables that a command finds.
const (
	envHeld  = "HOLDFAST_LOCK_HELD"
	envLock  = "HOLDFAST_LOCK_NAME"
	envChain = "HOLDFAST_LOCK_CHAIN"
)

// heldLock is what a command finds about its lock. The holder ID is not in it: with
// that, a program can renew and release the lock.
type heldLock struct {
	name, key string
	token     uint64
	ttl       time.Duration
	at        time.Time
	chain     string
	server    string // its URL without the password; empty: the command finds it by itself
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
		envLock + "=" + g.name,
		"HOLDFAST_LOCK_KEY=" + g.key,
		fmt.Sprintf("HOLDFAST_LOCK_TOKEN=%d", g.token),
		fmt.Sprintf("HOLDFAST_LOCK_TTL_MS=%d", g.ttl.Milliseconds()),
		"HOLDFAST_LOCK_MODE=exclusive",
		"HOLDFAST_LOCK_ACQUIRED_AT=" + stamp(g.at),
		envChain + "=" + g.chain,
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
		}
		return slices.ContainsFunc(ours, func(o string) bool { return strings.HasPrefix(o, name+"=") })
	}
	return append(slices.DeleteFunc(slices.Clone(base), drop), ours...)
}

// link names one lock on one server in a chain. Neither part has a space: the
// key is encoded, and so is the address here.
func link(address, key string) string { return strings.ReplaceAll(address, " ", "%20") + "#" + key }

// within reports whether a chain has the lock already.
func within(chain, link string) bool { return slices.Contains(strings.Fields(chain), link) }
