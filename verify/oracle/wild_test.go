package oracle

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
	"pgregory.net/rapid"
)

// wild takes steps of which only the form is right.
type wild struct {
	*world
	tokens []int64 // seen in answers
}

func pick[T any](rt *rapid.T, from ...T) T { return rapid.SampledFrom(from).Draw(rt, "pick") }

// anyAttempt is one of few, so that they meet.
func anyAttempt(rt *rapid.T) string { return pick(rt, "c1/1", "c1/2", "c2/1", "c2/2~50", "c3/1") }

// withOwner puts one behind the words, or none. An owner may be named like an
// attempt.
func withOwner(rt *rapid.T, words ...any) []any {
	if owner := pick(rt, "", "", "alice", "c1/1", "c2/1"); owner != "" {
		words = append(words, owner)
	}
	return words
}

func (m *wild) token(rt *rapid.T) int64 { return pick(rt, append(m.tokens, 0, 7)...) }

func (m *wild) step(action *script.Script, words ...any) {
	m.micros += pick(m.rt, int64(0), 1, 1500)
	keys, args := []string{key}, []string(nil)
	for _, word := range words {
		args = append(args, fmt.Sprint(word))
	}
	switch action {
	case script.Renew, script.AcquireFree, script.ReleaseIdle:
		keys = append(keys, key)
	case script.RaiseFence:
		keys = append(keys, "oracle:mark")
	}
	answer := m.run(action, keys, args).answer
	if words := strings.Fields(answer); words[0] == "granted" {
		m.tokens = append(m.tokens, number(words[1]))
	}
}

func (m *wild) Acquire(rt *rapid.T) {
	want := pick(rt, "x", "x", "s", "s", "p:1:2", "p:2:2", "p:1:3", "p:2:3", "p:4:3", "p:0:3", "p:1:2+", "q",
		"p:123456789012345:999999999999999", "p:99999999999999:999999999999999")
	ttl, retention := pick(rt, 1, 3000, 30_000), pick(rt, 5000, 60_000)
	m.step(script.Acquire, withOwner(rt, anyAttempt(rt), ttl, ttl+retention, want,
		pick(rt, 0, 3000, 60_000), base)...)
}

func (m *wild) AcquireFree(rt *rapid.T) {
	ttl := pick(rt, 1, 3000, 30_000)
	m.step(script.AcquireFree, ttl, ttl+pick(rt, 5000, 60_000), anyAttempt(rt), anyAttempt(rt))
}

func (m *wild) ReleaseIdle(rt *rapid.T) {
	m.step(script.ReleaseIdle, anyAttempt(rt), anyAttempt(rt))
}

func (m *wild) Poll(rt *rapid.T) {
	m.step(script.Poll, withOwner(rt, anyAttempt(rt), pick(rt, 1, 30_000), 60_000, pick(rt, 0, 60_000), base)...)
}

func (m *wild) ReleaseAfter(rt *rapid.T) {
	m.step(script.ReleaseAfter, withOwner(rt, anyAttempt(rt), m.token(rt), pick(rt, 0, 1, 3000, 60_000),
		pick(rt, 0, 2000), 60_000, base)...)
}

func (m *wild) Release(rt *rapid.T) {
	m.step(script.Release, withOwner(rt, anyAttempt(rt), m.token(rt), 60_000, base)...)
}

func (m *wild) Cancel(rt *rapid.T) {
	m.step(script.Cancel, withOwner(rt, anyAttempt(rt), 60_000, base)...)
}

func (m *wild) Renew(rt *rapid.T) {
	lease := func(ttl string) string {
		return wire.LeaseWord(anyAttempt(rt), ttl, pick(rt, "", "alice", "c1/1"), "3000")
	}
	m.step(script.Renew, 60_000, 3000, lease(pick(rt, "1", "3000")), lease(pick(rt, "1", "3000", "30000")))
}

func (m *wild) Inspect(*rapid.T) { m.step(script.Inspect) }

func (m *wild) Evict(rt *rapid.T) {
	words := []any{"ann", "test", m.token(rt), 60_000, base}
	if request := pick(rt, "", "o/1", "o/2"); request != "" {
		words = append(words, request, m.token(rt))
		if how := pick(rt, "", wire.Ask, wire.Ask, "x"); how != "" {
			words = append(words, how)
		}
	}
	m.step(script.Evict, words...)
}

func (m *wild) Convert(rt *rapid.T) {
	m.step(script.Convert, withOwner(rt, anyAttempt(rt), m.token(rt), pick(rt, "x", "s", "s", "q"),
		pick(rt, 1, 3000, 30_000), 60_000, base)...)
}

func (m *wild) SetLimit(rt *rapid.T) {
	m.step(script.SetLimit, pick(rt, 0, 1, 2, 3, 4, 999999999999999), pick(rt, 5000, 60_000), base)
}

func (m *wild) Lessen(rt *rapid.T) {
	m.step(script.Lessen, anyAttempt(rt), pick(rt, 0, 1, 3000, 30_000), pick(rt, 0, 1, 2, 3),
		pick(rt, 5000, 60_000), base)
}

func (m *wild) AwaitFree(rt *rapid.T) {
	mode := pick(rt, "x", "x", "s", "p:1:3", "p:3:3", "p:1:2", "p:2:2+")
	m.step(script.AwaitFree, mode, pick(rt, "0", "1", "1"), 60_000, base)
}

func (m *wild) AcquireAll(rt *rapid.T) {
	m.step(script.AcquireAll, anyAttempt(rt), pick(rt, 1, 3000, 30_000), pick(rt, 5000, 60_000), base)
}

func (m *wild) BeginRun(rt *rapid.T) {
	words := []any{
		anyAttempt(rt), pick(rt, 1, 3000, 30_000), pick(rt, 5000, 60_000),
		pick(rt, 1, 3000, 10_000), pick(rt, "-", "0", "700", "3000000000000"), // ahead of the first clock
		pick(rt, "now", "now", "next", "change"), base,
	}
	if tries := pick(rt, 0, 1, 3); tries > 0 {
		words = append(words, tries)
	}
	m.step(script.BeginRun, words...)
}

func (m *wild) CancelRun(rt *rapid.T) {
	words := []any{anyAttempt(rt), pick(rt, 5000, 60_000), base}
	if pick(rt, false, true) {
		words = append(words, 1)
	}
	m.step(script.CancelRun, words...)
}

func (m *wild) Proclaim(rt *rapid.T) {
	m.step(script.Proclaim, anyAttempt(rt), m.token(rt), pick(rt, 1, 2, 3),
		pick(rt, "", "=", "=a", "=b%20c"), base+"c1", 60_000)
}

func (m *wild) Resume(rt *rapid.T) {
	m.step(script.Resume, anyAttempt(rt), anyAttempt(rt), m.token(rt), pick(rt, 1, 3000, 30_000),
		pick(rt, 5000, 60_000), base+"c1", base)
}

// RaiseFence also draws tokens that no grant had, and that the clock has not reached. It draws none of
// another shared hold: the order in which the two sides list such a pair differs.
func (m *wild) RaiseFence(rt *rapid.T) {
	attempt, token := anyAttempt(rt), m.token(rt)+pick(rt, int64(0), 1, 2000, 40_000_000)
	for m.hasOther(attempt, token) {
		token++
	}
	m.step(script.RaiseFence, withOwner(rt, attempt, token, pick(rt, 5000, 60_000))...)
}

// hasOther reports whether a shared hold of another attempt has this token.
func (m *wild) hasOther(attempt string, token int64) bool {
	for name, value := range m.spec.Dump(key) {
		if words := strings.Fields(value); strings.HasPrefix(name, "h:") && name != "h:"+attempt &&
			words[3] == strconv.FormatInt(token, 10) {
			return true
		}
	}
	return false
}

func (m *wild) CheckToken(rt *rapid.T) { m.step(script.Check, m.token(rt)) }

func (m *wild) ReadLeader(*rapid.T) { m.step(script.ReadLeader) }

// century is more than any lease or retention, in ms. A clock may jump like that.
const century = 3_000_000_000_000

func (m *wild) Advance(rt *rapid.T) {
	d := time.Duration(pick(rt, 1, 2999, 3000, 10_000, 70_000, -5000, -100_000, century, -century)) * time.Millisecond
	if now := m.micros + d.Microseconds(); now < 1e15 || now > 1<<53 {
		rt.Skip("tokens have 16 digits, and are exact")
	}
	m.advance(d)
}

func (m *wild) Listen(rt *rapid.T) { m.listen(pick(rt, "c1", "c2", "c3", news, news)) }
func (m *wild) Deafen(rt *rapid.T) { m.deafen(pick(rt, "c1", "c2", "c3", news)) }

// Check has nothing to add: every step has compared both sides.
func (m *wild) Check(*rapid.T) {}
