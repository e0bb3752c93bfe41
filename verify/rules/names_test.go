package rules_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// names are hard to keep whole: each byte of them ends something somewhere.
var names = []string{
	"{", "}", "{}", "}{", "{a}", "a{b}c", "{{a}}", "a}b{c", "%", "%7B", "100%",
	"a b", " ", "a\nb", "a\r\nb", "\x00", "\x7f\x1b",
	"a/b:c*d?e[f]", "-", "x 1 2 3", "\"quoted\"", "ключ", "鍵 {一}", "🔒🔑", "é", "e\u0301", "\u2028", "a\u00a0b",
	strings.Repeat("{", 512), strings.Repeat("鍵", 170),
}

// Bad input that is none. Any text is a name: it comes back as it was, is
// nobody else's, and its record and push channel are in one slot.
func TestAnyTextIsAName(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a, _ := w.local(t, holdfast.Config{})
		b, seen := w.local(t, holdfast.Config{})
		// It knows slots, and is asked for nothing else.
		node := redistest.Start(t, redistest.Args("--cluster-enabled", "yes"), redistest.BusPort())
		slot := func(key string) int64 {
			n, ok := node.Do(t, "CLUSTER", "KEYSLOT", key).(int64)
			assert.MustTrue(t, ok, "CLUSTER KEYSLOT %q failed", key)
			return n
		}
		keys := map[string]string{}
		var held []*holdfast.Lease
		for _, name := range names {
			held = append(held, harness.Lock(t, a.Mutex(name))) // all at once: none is another's
			s := state(t, b, name)
			if s.Name != name || len(s.Holders) != 1 || s.Holders[0].HolderID != held[len(held)-1].HolderID() {
				t.Errorf("%q: the state is %+v", name, s)
			}
			var taken *holdfast.HeldError
			_, err := b.Mutex(name).TryLock(harness.Within(t))
			assert.True(t, errors.As(err, &taken) && taken.Name == name, "%q: TryLock: %v", name, err)
			key := wire.Key(redistest.Prefix(), name)
			other, used := keys[key]
			assert.True(t, !used, "%q and %q have one key", name, other)
			keys[key] = name
			assert.True(t, w.Do(t, "EXISTS", key) == int64(1), "%q: there is no key %q", name, key)
			channel := wire.ChannelPrefix(redistest.Prefix(), name, true) + b.ID()
			if slot(key) != slot(channel) {
				t.Errorf("%q: %q is in slot %v, %q in %v", name, key, slot(key), channel, slot(channel))
			}
		}
		for i, l := range held {
			waits := len(seen.Of(observe.EventWait, l.Name()))
			got := harness.Acquiring(harness.Within(t), b.Mutex(names[i]).Lock)
			seen.Await(t, observe.EventWait, l.Name(), waits+1)
			harness.Release(t, l)
			next := harness.Granted(t, got)
			if next.Name() != names[i] {
				t.Errorf("%q came back as %q", names[i], next.Name())
			}
			harness.Release(t, next)
		}
	})
}

// Users with different prefixes may do nothing with each other's locks.
func TestPrefixesKeepApplicationsApart(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		tenant := func(prefix string) *holdfast.Client {
			rules := append(w.Rights(t), "resetkeys", "resetchannels", "~"+prefix+":*", "&"+prefix+":*")
			c, _ := harness.Client(t, w.open(t, w.user(t, prefix, rules...)), holdfast.Config{Prefix: prefix})
			return c
		}
		a, b, c := tenant("one"), tenant("one:two"), tenant("two")
		var leases []*holdfast.Lease
		for _, client := range []*holdfast.Client{a, b, c} {
			leases = append(leases, harness.Lock(t, client.Mutex("x")))
		}
		for _, l := range leases {
			harness.Release(t, l)
		}
	})
}
