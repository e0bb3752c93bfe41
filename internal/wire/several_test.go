package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestAnAnswerOnAllLocksIsReadInOrder(t *testing.T) {
	g, err := ParseAll("granted 7 0 9 3", 2)
	if err != nil || len(g.Locks) != 2 || g.Locks[0].Token != 7 || g.Locks[1].Token != 9 || g.Locks[1].Waiting != 3 {
		t.Errorf("read %+v, %v", g, err)
	}
	g, err = ParseAll("busy 2 1500 c/7", 2)
	if err != nil || g.Locks != nil || g.Busy != 1 || g.Left != 1500*time.Millisecond || g.Holder != "c/7" {
		t.Errorf("read %+v, %v", g, err)
	}
	for _, s := range []string{
		"", "granted", "granted 1 0", "granted 1 0 2", "granted 1 0 2 0 3 0", "busy 0 1 -", "busy 3 1 -", "busy 1 1",
		"gone",
	} {
		g, err := ParseAll(s, 2)
		assert.True(t, err != nil, "ParseAll(%q) = %+v", s, g)
	}
}

func TestARunAnswerIsRead(t *testing.T) {
	for s, want := range map[string]RunAnswer{
		"granted 7 1500": {Granted: true, Token: 7, Left: 1500 * time.Millisecond},
		"early 20 c/7":   {Left: 20 * time.Millisecond, Attempt: "c/7"},
		"early 20 -":     {Left: 20 * time.Millisecond},
		"busy 20 c/7":    {Busy: true, Left: 20 * time.Millisecond, Attempt: "c/7"},
	} {
		got, err := ParseRun(s)
		assert.True(t, err == nil && got == want, "ParseRun(%q) = %+v, %v", s, got, err)
	}
	for s, want := range map[string]Plan{
		"other 1500 -": {Period: 1500 * time.Millisecond},
		"other 1500 0": {Period: 1500 * time.Millisecond, Aligned: true},
		"other 20 7":   {Period: 20 * time.Millisecond, Aligned: true, Offset: 7 * time.Millisecond},
		// No version writes these, but a record may have them.
		"other 20 -7":              {Period: 20 * time.Millisecond, Aligned: true, Offset: -7 * time.Millisecond},
		"other 9007199254740992 -": {Period: time.Duration(maxMillis) * time.Millisecond},
	} {
		got, err := ParseRun(s)
		assert.True(t, err == nil && got.Other != nil && *got.Other == want, "ParseRun(%q) = %+v, %v", s, got, err)
	}
	for _, s := range []string{
		"", "granted 7", "granted 7 1 2", "early -1 c/7", "early 1", "late 1 c/7",
		"other", "other 7", "other - 7", "other 7 --1", "other 7 - 1",
	} {
		got, err := ParseRun(s)
		assert.True(t, err != nil, "ParseRun(%q) = %+v", s, got)
	}
}

func TestALeaderIsRead(t *testing.T) {
	want := LeaderLine{
		Known: true, Token: 7, Since: time.UnixMilli(1000), Left: 20 * time.Millisecond, Attempt: "c/7", Value: "a b",
	}
	got, err := ParseLeader("leader 7 1000 20 c/7 " + Value("a b"))
	assert.True(t, err == nil && got == want, "read %+v, %v", got, err)
	got, err = ParseLeader("leader 7 1000 20 c/7 " + Value(""))
	assert.True(t, err == nil && got.Known && got.Value == "", "read %+v, %v", got, err)
	got, err = ParseLeader("none 20")
	assert.True(t, err == nil && !got.Known && got.Left == 20*time.Millisecond, "read %+v, %v", got, err)
	for _, s := range []string{"", "leader", "leader 7 1000 20 c/7", "leader 7 1000 20 c/7 a", "none", "none 1 2"} {
		got, err := ParseLeader(s)
		assert.True(t, err != nil, "ParseLeader(%q) = %+v", s, got)
	}
}

func FuzzParseSeveral(f *testing.F) {
	f.Add("granted 7 0 9 3")
	f.Add("busy 2 1500 c/7")
	f.Add("leader 7 1000 20 c/7 =a")
	f.Fuzz(func(_ *testing.T, s string) {
		_, _ = ParseAll(s, 2)
		_, _ = ParseRun(s)
		_, _ = ParseLeader(s)
	})
}

func TestNamesOfOneLockShareASlot(t *testing.T) {
	for _, name := range []string{"a", "a{b}", "}", "with space"} {
		want := tag(Key("p", name))
		if tag(PeriodicKey("p", name)) != want || tag(Watch("p", name, true)) != want {
			t.Errorf("%q: %q and %q are apart", name, PeriodicKey("p", name), Watch("p", name, true))
		}
		// A channel with a brace is a sharded one.
		assert.False(t, strings.Contains(Watch("p", name, false), "{"), "%q: %q", name, Watch("p", name, false))
	}
}
