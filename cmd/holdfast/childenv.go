package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Variables that a command is given.
const (
	envHeld  = "HOLDFAST_LOCK_HELD"
	envLock  = "HOLDFAST_LOCK_NAME"
	envChain = "HOLDFAST_LOCK_CHAIN"
)

// grant is what a command is told of its lock. The attempt by which the server
// knows the holder is not in it: whoever has that can renew and release.
type grant struct {
	name, key string
	token     uint64
	ttl       time.Duration
	at        time.Time
	chain     string
	server    string // its URL without the password; empty: as the command finds it by itself
}

// environment is what a command finds around it. Ours come last, and instead
// of those of an outer run: of two with one name some programs take the first.
//
// Unless the URL is to be passed on, the password is not in it. The rest of the
// URL is: a holdfast inside the command that fell back to another server would
// lock nothing, and nobody would notice.
func environment(base []string, g grant, passURL bool) []string {
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
		case "HOLDFAST_REDIS", "HOLDFAST_PASSWORD":
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
