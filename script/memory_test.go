package script_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
)

// full is a server without free memory, with one lock of each kind that was acquired
// before.
type full struct {
	*redistest.Server
	tokens map[string]string // by key
}

func (f *full) run(t *testing.T, s *script.Script, key string, args ...string) string {
	t.Helper()
	words := []any{"EVAL", s.Text, 1, key}
	for _, arg := range args {
		words = append(words, arg)
	}
	switch reply := f.Do(t, words...).(type) {
	case string:
		return reply
	case redistest.Error:
		code, _, _ := strings.Cut(string(reply), " ")
		return code
	default:
		t.Fatalf("%s answered %v", s.Name, reply)
		return ""
	}
}

const base = "full:push:"

func (f *full) acquire(t *testing.T, key, attempt, mode, waiterTTL string, owner ...string) string {
	t.Helper()
	args := append([]string{attempt, "30000", "630000", mode, waiterTTL, base}, owner...)
	return f.run(t, script.Acquire, key, args...)
}

// Holders and waiters can go on, and can release, when the server is out of memory and
// evicts nothing. A new attempt is refused, and nothing changes.
func TestServerOutOfMemory(t *testing.T) {
	f := &full{Server: redistest.Start(t), tokens: map[string]string{}}
	take := func(key, attempt, want string, owner ...string) {
		answer := f.acquire(t, key, attempt, want, "0", owner...)
		token, ok := strings.CutPrefix(answer, "granted ")
		assert.MustTrue(t, ok, "acquire %s: %s", key, answer)
		f.tokens[attempt], _, _ = strings.Cut(token, " ")
	}
	take("{plain}", "c1/1", "x")
	take("{named}", "c1/2", "x", "alice")
	take("{named}", "c1/3", "x", "alice")
	take("{named}", "c1/4", "x", "alice")
	take("{shared}", "c1/5", "s")
	take("{permit}", "c1/6", "p:1:3")
	take("{convert}", "c1/7", "x")
	f.acquire(t, "{convert}", "c2/3", "s", "60000")
	take("{release_after}", "c1/8", "x")
	f.acquire(t, "{plain}", "c2/1", "x", "60000")
	f.acquire(t, "{named}", "c2/2", "x", "60000")
	f.Do(t, "CONFIG", "SET", "maxmemory", "1")

	expect := func(what, got, want string) {
		t.Helper()
		first, _, _ := strings.Cut(got, " ")
		assert.True(t, first == want, "%s: %s, want %s", what, got, want)
	}
	expect("a new lock", f.acquire(t, "{new}", "c3/1", "x", "0"), "OOM")
	expect("a new reader", f.acquire(t, "{shared}", "c3/2", "s", "0"), "OOM")
	expect("a new waiter", f.acquire(t, "{plain}", "c3/3", "x", "60000"), "OOM")
	// A client that does not know its answer polls, or cancels.
	expect("a holder again", f.acquire(t, "{plain}", "c1/1", "x", "0"), "OOM")
	expect("a holder's poll", f.run(t, script.Poll, "{plain}", "c1/1", "30000", "600000", "60000", base), "granted")
	expect("a reader's poll", f.run(t, script.Poll, "{shared}", "c1/5", "30000", "600000", "60000", base), "granted")
	expect("a heartbeat", f.run(t, script.Poll, "{plain}", "c2/1", "30000", "600000", "60000", base), "queued")
	for attempt, lease := range map[string][2]string{
		"c1/1": {"{plain}", ""},
		"c1/2": {"{named}", "alice"},
		"c1/5": {"{shared}", ""},
		"c1/6": {"{permit}", ""},
	} {
		answer := f.run(t, script.Renew, lease[0], "600000", "40000", strings.TrimSpace(attempt+" 40000 "+lease[1]))
		assert.True(t, answer != "renewed -", "renew %s: %s", attempt, answer)
		expect("renew "+attempt, answer, "renewed")
	}
	convert := func(token, mode string) string {
		return f.run(t, script.Convert, "{convert}", "c1/7", token, mode, "30000", "600000", base)
	}
	answer := convert(f.tokens["c1/7"], "s")
	expect("a downgrade", answer, "granted")
	expect("an upgrade", convert(strings.Fields(answer)[1], "x"), "granted")
	expect("a lower limit", f.run(t, script.SetLimit, "{permit}", "2", "600000", base), "set")
	f.leave(t, expect)
}

// leave releases all holds.
func (f *full) leave(t *testing.T, expect func(what, got, want string)) {
	t.Helper()
	release := func(key, attempt string, owner ...string) string {
		args := append([]string{attempt, f.tokens[attempt], "600000", base}, owner...)
		return f.run(t, script.Release, key, args...)
	}
	expect("cancel an entry", f.run(t, script.Cancel, "{named}", "c1/4", "600000", base, "alice"), "released")
	expect("release an entry", release("{named}", "c1/3", "alice"), "held")
	expect("cancel a waiter", f.run(t, script.Cancel, "{named}", "c2/2", "600000", base), "withdrawn")
	expect("release the last entry", release("{named}", "c1/2", "alice"), "released")
	expect("release with a waiter", release("{plain}", "c1/1"), "released")
	expect("the waiter's turn", f.run(t, script.Poll, "{plain}", "c2/1", "30000", "600000", "60000", base), "granted")
	expect("release_after", f.run(t, script.ReleaseAfter, "{release_after}", "c1/8", f.tokens["c1/8"], "60000", "0",
		"600000", base), "kept")
	expect("release a reader", release("{shared}", "c1/5"), "released")
	expect("evict", f.run(t, script.Evict, "{permit}", "ann", "test", "0", "600000", base), "evicted")
	expect("release after it", release("{permit}", "c1/6"), "gone")
}
