package wire

import (
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// tag is the cluster's rule: what is between the first { and the next }.
func tag(key string) string {
	_, rest, found := strings.Cut(key, "{")
	inner, _, closed := strings.Cut(rest, "}")
	if !found || !closed || inner == "" {
		return key
	}
	return inner
}

func TestAnyNameKeepsRecordAndChannelInOneSlot(t *testing.T) {
	names := []string{"a", "a{b", "}a", "{}", "a{}b", "{a}b", "with space", "line\nbreak", "100%", "日本語", "\x00"}
	same := func(name string) bool {
		return name == "" || tag(Key("p", name)) == tag(ChannelPrefix("p", name, true)+"client") &&
			tag(Key("p", name)) == Encode(name)
	}
	for _, name := range names {
		assert.True(t, same(name), "%q: key %q, channel %q", name, Key("p", name), ChannelPrefix("p", name, true))
	}
	assert.NoError(t, quick.Check(same, nil))
}

func TestDecodeReversesEncodeAndNamesAreDistinct(t *testing.T) {
	roundTrip := func(name string) bool { return Decode(Encode(name)) == name }
	assert.NoError(t, quick.Check(roundTrip, nil))
	oneWord := func(name string) bool { return !strings.ContainsAny(Encode(name), " \n\r\t{}") }
	assert.NoError(t, quick.Check(oneWord, nil))
	assert.True(t, Encode("a%20b") != Encode("a b"), "two names share one encoding")
}

func TestBadNamesAreRefusedWithAdvice(t *testing.T) {
	for name, want := range map[string]string{
		"":                       "empty",
		strings.Repeat("x", 513): "512",
		"a\xffb":                 "UTF-8",
	} {
		if err := CheckName(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("CheckName(%.10q) = %v, want %q in it", name, err, want)
		}
	}
	assert.NoError(t, CheckName(strings.Repeat("x", 512)))
	for _, prefix := range []string{"", "a{b", "a b", strings.Repeat("x", 65)} {
		assert.True(t, CheckPrefix(prefix) != nil, "prefix %q is accepted", prefix)
	}
}

func TestAnswersAreReadExactly(t *testing.T) {
	for s, want := range map[string]Answer{
		"granted 1795252066322120 3":   {Kind: Granted, Token: 1795252066322120, Waiting: 3},
		"queued 2 29984 1795252066322": {Kind: Queued, Place: 2, Left: 29984 * time.Millisecond, Now: 1795252066322},
		"busy 0 -":                     {Kind: Busy},
		"busy 12 c/1":                  {Kind: Busy, Left: 12 * time.Millisecond, Holder: "c/1"},
		"queued 1 9223372036854 7":     {Kind: Queued, Place: 1, Left: 100 * 365 * 24 * time.Hour, Now: 7},
		"conflict 3":                   {Kind: Conflict, Count: 3},
		"released":                     {Kind: Released},
		"held 2":                       {Kind: Held, Count: 2},
		"gone":                         {Kind: Gone},
		"changed 7":                    {Kind: Changed, Token: 7},
		"set 4":                        {Kind: Set, Count: 4},
		"idle":                         {Kind: Idle},
	} {
		got, err := Parse(s)
		assert.True(t, err == nil && got == want, "Parse(%q) = %+v, %v; want %+v", s, got, err, want)
	}
}

func TestAnswersOfAnotherProtocolAreErrors(t *testing.T) {
	for _, s := range []string{
		"", " ", "OK", "granted", "granted x 0", "granted -1 0", "granted 1", "granted 1 -1",
		"granted 9007199254740992 0",
		"queued 1", "queued 1 5", "queued 1 -5 7", "queued 1 99999999999999999999 7", "queued 1 5 -7",
		"busy", "held", "released 1", "evicted -1", "GRANTED 1 0", "set", "idle 1",
	} {
		got, err := Parse(s)
		assert.True(t, err != nil, "Parse(%q) = %+v, want an error", s, got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("granted 1795252066322120 3")
	f.Add("lock 1 2 0 3 0 0\nholder x c/1 - 1 2 1 5 1")
	f.Add("renewed 0 - evicted")
	f.Fuzz(func(_ *testing.T, s string) {
		// Whatever a broken server answers: the result is an answer or an error, and
		// never a panic.
		_, _ = Parse(s)
		_, _ = ParseRecord(s)
		_, _ = ParseRenewals(s, 3)
		_, _, _ = ParsePush(s)
		_, _, _ = ParsePush("granted c/7 " + s)
		_, _, _ = ParseClient(s)
	})
}

// A server's clock was set to the year 2255, a lock was taken, and the clock was put right.
func TestALeaseThatLastsForCenturiesIsRead(t *testing.T) {
	rec, err := ParseRecord("lock 1795252066322 77 1 600000 0 0\n" +
		"holder x c/1 - 1 77 9000000000000 7204747963678 1\n" +
		"waiter 1 x d/4 - 1 9000000000000 7204747963678")
	assert.Must(t, err)
	assert.Equal(t, rec.Holders[0].Left, 100*365*24*time.Hour, "the holder's time left")
	assert.Equal(t, rec.Waiters[0].Left, 100*365*24*time.Hour, "the waiter's time left")
}

func TestRenewalsAreReadInOrder(t *testing.T) {
	got, err := ParseRenewals("renewed 0 - evicted 12 ?", 5)
	want := []Renewal{{Held: true}, {}, {Evicted: true}, {Held: true, Waiting: 12}, {Unknown: true}}
	assert.MustTrue(t, err == nil && len(got) == len(want), "got %v, %v", got, err)
	for i := range want {
		assert.Equal(t, got[i], want[i], "lease %d", i)
	}
	assert.True(t, assert.Err(ParseRenewals("renewed 0 0", 3)) != nil, "an answer for two leases is taken for three")
}

func TestInspectIsRead(t *testing.T) {
	rec, err := ParseRecord("lock 1000 77 1 600000 0 0\n" +
		"holder x c/1 order%207 1 77 900 500 2\n" +
		"waiter 1 x d/4 - 1 950 800\n" +
		"leader =a%20b\n" +
		"period 9000 - 5000 2000\n" +
		"evicted 500 ops stuck%20job c/0")
	assert.Must(t, err)
	h, w := rec.Holders[0], rec.Waiters[0]
	if rec.Fence != 77 || h.Owner != "order 7" || h.Entries != 2 || h.Left != 500*time.Millisecond ||
		w.Attempt != "d/4" || w.Owner != "" || w.Joined.UnixMilli() != 950 ||
		rec.Evicted.Reason != "stuck job" || rec.Evicted.Attempts[0] != "c/0" || *rec.Leader != "a b" {
		t.Errorf("read %+v", rec)
	}
	plan := Plan{Period: 5 * time.Second, Aligned: true, Offset: 2 * time.Second}
	assert.Equal(t, *rec.Job, (JobLine{Next: time.UnixMilli(9000), Plan: plan}), "read")
	for _, s := range []string{
		"", "lock", "holder x", "lock 1 2 3 4 5 6\nlock 1 2 3 4 5 6", "lock 1 2 3 4 5 6\nholder x",
		"lock 1 2 3 4 5 6\nleader a", "lock 1 2 3 4 5 6\nleader", "lock 1 2 3 4 5 6\nperiod 1 - 5",
	} {
		assert.True(t, assert.Err(ParseRecord(s)) != nil, "ParseRecord(%q) is accepted", s)
	}
}
