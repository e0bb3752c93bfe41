package oracle

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/wire"
	"pgregory.net/rapid"
)

// named is a key or a channel, by what it is of.
type named struct {
	kind, prefix, name, client string
}

// key is its name on the server. What it does not depend on is taken out.
func (n *named) key() string {
	switch n.kind {
	case "lock":
		n.client = ""
		return wire.Key(n.prefix, n.name)
	case "job":
		n.client = ""
		return wire.PeriodicKey(n.prefix, n.name)
	case "client":
		n.name = ""
		return wire.ClientKey(n.prefix, n.client)
	case "quorum":
		n.name, n.client = "", ""
		return n.prefix + ":quorum"
	case "push":
		n.name = ""
		return wire.ChannelPrefix(n.prefix, n.name, false) + n.client
	case "push, sharded":
		return wire.ChannelPrefix(n.prefix, n.name, true) + n.client
	case "watch":
		n.client = ""
		return wire.Watch(n.prefix, n.name, false)
	default:
		n.client = ""
		return wire.Watch(n.prefix, n.name, true)
	}
}

// drawNamed draws from the bytes and words that keys are made of, so that two
// of them are near each other often.
func drawNamed(rt *rapid.T, label string) *named {
	words := func(what string, words ...string) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 1, 6).Draw(rt, label+what), "")
	}
	return &named{
		kind: rapid.SampledFrom([]string{
			"lock", "job", "client", "quorum", "push", "push, sharded", "watch", "watch, sharded",
		}).Draw(rt, label+"kind"),
		prefix: words("prefix", "a", ":", "every", "watch", "push", "client", "quorum", "periodic", "-", "/"),
		name:   words("name", "a", ":", "=", "{", "}", "%", "%7B", " ", "é", "every", "watch", "push", "periodic", "/"),
		client: rapid.StringMatching(`[a-c]{22}`).Draw(rt, label+"client"),
	}
}

// No key or channel is that of another kind, prefix, name or client, whatever
// these are: prefixes may contain each other.
func TestKeysAndChannelsOfAllPrefixesAreApart(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		one, other := drawNamed(rt, "one "), drawNamed(rt, "other ")
		if wire.CheckPrefix(one.prefix) != nil || wire.CheckPrefix(other.prefix) != nil {
			rt.Skip("no prefixes")
		}
		key := one.key()
		if key == other.key() && *one != *other {
			rt.Fatalf("%q is that of %+v and of %+v", key, one, other)
		}
		// A name of the server's own making, turned round: a second prefix and
		// name that would give the key by the form of a lock, a job or a channel.
		if at := strings.LastIndexAny(key, "={"); at > 0 {
			prefix, rest := key[:at], strings.Trim(key[at:], "={}")
			for _, kind := range []string{"lock", "job", "client", "quorum", "push", "watch", "watch, sharded"} {
				for prefix := range prefixesOf(prefix) {
					n := &named{kind, prefix, wire.Decode(rest), other.client}
					if wire.CheckPrefix(prefix) == nil && n.name != "" && n.key() == key && *n != *one {
						rt.Fatalf("%q is that of %+v and of %+v", key, one, n)
					}
				}
			}
		}
	})
}

// prefixesOf are the beginnings of a key up to a colon.
func prefixesOf(key string) map[string]bool {
	all := map[string]bool{}
	for i := range len(key) {
		if key[i] == ':' {
			all[key[:i]] = true
		}
	}
	return all
}
