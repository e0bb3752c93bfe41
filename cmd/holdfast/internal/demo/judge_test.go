package demo

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/audit"
)

// held is a record that an attempt holds. Times are ms.
func held(attempt string, token uint64, expiry int64) audit.Record {
	return audit.Record{Holder: attempt, Fence: token, Expiry: expiry}
}

func judged(notes ...audit.Note) *account {
	a := &account{}
	for _, n := range notes {
		a.step(n)
	}
	return a
}

func TestAHoldLastsUntilItsOwnReleaseOrItsLastExpiry(t *testing.T) {
	free := func(token uint64) audit.Record { return audit.Record{Fence: token} }
	a := judged(
		audit.Note{At: 1000, Action: "acquire", Caller: "a/1", After: held("a/1", 1, 50)},
		audit.Note{At: 20_000, Action: "renew", Caller: "a/1", Before: held("a/1", 1, 50), After: held("a/1", 1, 70)},
		audit.Note{At: 30_000, Action: "release", Caller: "a/1", Before: held("a/1", 1, 70), After: held("b/1", 2, 80)},
		// b/1 dies; nobody is granted the lock before its lease is over.
		audit.Note{At: 81_000, Action: "poll", Caller: "c/1", Before: held("b/1", 2, 80), After: held("c/1", 3, 120)},
		audit.Note{At: 90_000, Action: "release", Caller: "c/1", Before: held("c/1", 3, 120), After: free(3)},
		audit.Note{At: 95_000, Action: "acquire", Caller: "a/2", Before: free(3), After: held("a/2", 4, 150)},
	)
	want := []grant{
		{"a/1", 1, "acquire", 1000, 30_000, true}, {"b/1", 2, "release", 30_000, 80_000, false},
		{"c/1", 3, "poll", 81_000, 90_000, true}, {"a/2", 4, "acquire", 95_000, 150_000, false},
	}
	assert.True(t, slices.Equal(a.grants, want) && len(a.problems) == 0 && overlaps(a.grants) == 0,
		"%+v, problems %q, want %+v", a.grants, a.problems, want)
}

func TestWhatTheServerMustNotDoIsFound(t *testing.T) {
	first := audit.Note{At: 1000, Action: "acquire", Caller: "a/1", After: held("a/1", 5, 50)}
	early := judged(first,
		audit.Note{At: 9000, Action: "poll", Caller: "b/1", Before: held("a/1", 5, 50), After: held("b/1", 6, 60)})
	assert.True(t, overlaps(early.grants) == 1,
		"a grant before the end of the lease is no overlap: %+v", early.grants)
	other := judged(first,
		audit.Note{At: 9000, Action: "release", Caller: "b/1", Before: held("a/1", 5, 50), After: held("b/2", 6, 60)})
	assert.True(t, overlaps(other.grants) == 1, "another's release has ended the hold: %+v", other.grants)
	for want, n := range map[string]audit.Note{
		"the token 5 was granted after 5": {
			At: 60_000, Action: "acquire", Caller: "b/1", Before: held("a/1", 5, 50), After: held("b/1", 5, 90),
		},
		"had the token 7, but the previous step had left it with 5": {
			At: 60_000, Action: "acquire", Caller: "b/1", Before: held("x/1", 7, 50), After: held("b/1", 8, 90),
		},
	} {
		a := judged(first, n)
		assert.True(t, len(a.problems) == 1 && strings.Contains(a.problems[0], want), "%q, want %q", a.problems, want)
	}
}

func TestHoldsAreJoinedByClient(t *testing.T) {
	holds := holdsOf([]event{
		{Kind: got, Client: "a", ID: 1, Token: 10}, {Kind: got, Client: "b", ID: 1, Token: 20},
		{Kind: end, Client: "b", ID: 1, At: 5}, {Kind: end, Client: "c", ID: 1, At: 6},
	})
	assert.True(t, len(holds) == 2 && holds[0].over == nil && holds[1].over != nil && holds[1].over.At == 5,
		"%+v", holds)
}

func TestLostUpdatesAreCounted(t *testing.T) {
	events := []event{
		{Kind: wrote, Value: 1, Plain: 1}, {Kind: wrote, Value: 2, Plain: 2},
		{Kind: wrote, Value: 2, Plain: 2, Stale: true}, // late: refused, and written over the other's
		{Kind: wrote, Value: 4, Plain: 4},              // 3 was written by a worker that died
	}
	assert.Equal(t, lossesOf(events, 4, 4), (losses{Taken: 3, Refused: 1, Fenced: 0, Plain: 1}), "lossesOf")
	got := lossesOf(events, 3, 4)
	assert.True(t, got.Fenced == 1, "the fenced file has lost a write: %+v", got)
	assert.Equal(t, lossesOf(nil, 0, 0), (losses{}), "nothing was written")
}
