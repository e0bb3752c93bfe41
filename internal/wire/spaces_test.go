package wire

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// Kinds of keys and channels, and what their names depend on.
var spaces = map[string]func(prefix, name, client string) string{
	"lock":         func(prefix, name, _ string) string { return Key(prefix, name) },
	"job":          func(prefix, name, _ string) string { return PeriodicKey(prefix, name) },
	"client":       func(prefix, _, client string) string { return ClientKey(prefix, client) },
	"quorum":       func(prefix, _, _ string) string { return prefix + ":quorum" },
	"push":         func(prefix, name, client string) string { return ChannelPrefix(prefix, name, false) + client },
	"push sharded": func(prefix, name, client string) string { return ChannelPrefix(prefix, name, true) + client },
	"watch":        func(prefix, name, _ string) string { return Watch(prefix, name, false) },
	"watch sharded": func(prefix, name, _ string) string {
		return Watch(prefix, name, true)
	},
}

// No key or channel is equal to one of another kind, prefix, name or client. The test
// tries prefixes and names that consist of words of the protocol.
func TestKeysAndChannelsOfAllKindsAreDistinct(t *testing.T) {
	clients := []string{"AAAAAAAAAAAAAAAAAAAAAA", "periodicperiodicperiod"}
	words := []string{
		"app", "every", "watch", "push", "client", "quorum", "periodic", "audit",
		"{app}", "}:periodic", "=app", clients[0],
	}
	var prefixes, names []string
	for _, a := range words {
		names = append(names, a)
		for _, b := range words {
			names = append(names, a+":"+b, a+"="+b)
			for _, prefix := range []string{a, a + ":" + b, a + ":" + b + ":", a + ":" + b + ":" + a} {
				if CheckPrefix(prefix) == nil && !slices.Contains(prefixes, prefix) {
					prefixes = append(prefixes, prefix)
				}
			}
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return CheckName(name) != nil })
	seen := make(map[string]string)
	for kind, of := range spaces {
		for _, prefix := range prefixes {
			for _, name := range names {
				for _, client := range clients {
					whose := strings.Join([]string{kind, prefix, name, client}, " ")
					key := of(prefix, name, client)
					switch { // parts on which the key does not depend
					case kind == "client" || kind == "push":
						whose = strings.Join([]string{kind, prefix, client}, " ")
					case kind == "quorum":
						whose = kind + " " + prefix
					case kind != "push sharded":
						whose = strings.Join([]string{kind, prefix, name}, " ")
					}
					if other, there := seen[key]; there && other != whose {
						t.Fatalf("%q is that of %s and of %s", key, other, whose)
					}
					seen[key] = whose
				}
			}
		}
	}
	assert.True(t, len(prefixes) >= 50 && len(names) >= 200 && len(seen) >= 100_000,
		"%d keys of %d prefixes and %d names are not many", len(seen), len(prefixes), len(names))
}
