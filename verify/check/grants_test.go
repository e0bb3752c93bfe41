package check_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/verify/check"
	"github.com/holdfast-go/holdfast/verify/history"
)

// renewed is held, after a renewal at a later instant.
func renewed(n, later float64, attempt string) string {
	return fmt.Sprintf("%d %d %s", token(n), ttl.Milliseconds()+int64(later-n), attempt)
}

func TestGrantsAreTheHoldsOfTheServersAccount(t *testing.T) {
	r := check.Index(newStory().
		note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
		note(50, "renew", "l", "c1/1", renewed(1, 50, "c1/1")).
		note(60, "release", "l", "c1/1", held(60, "c2/1")). // handed over
		note(70, "release", "l", "c2/1", free(60)).
		note(80, "acquire", "l", "c1/2", held(80, "c1/2")).
		note(185, "poll", "l", "c2/2", held(185, "c2/2")). // the client of c1/2 had died
		events, nil)
	at := func(n float64) int64 { return at(n) / us }
	want := []check.Grant{
		{"c1/1", uint64(token(1)), "acquire", at(1), at(60), true},
		{"c2/1", uint64(token(60)), "release", at(60), at(70), true},
		{"c1/2", uint64(token(80)), "acquire", at(80), at(180), false},
		{"c2/2", uint64(token(185)), "poll", at(185), at(285), false},
	}
	got := r.Grants("l")
	assert.True(t, slices.Equal(got, want), "grants:\n%+v\nwant\n%+v", got, want)
	for _, res := range []check.Result{r.ServerExclusion(), r.Continuity(), r.TokensRise()} {
		assert.True(t, res.Passed(), "%s in a legal history: %+v", res.Name, res.Violations)
	}
}

// The check knows none of the scripts. It sees from the record alone that a hold ended
// before its time, and that another began.
func TestHoldsThatOverlapAreFound(t *testing.T) {
	first := func() *story { return newStory().note(1, "acquire", "l", "c1/1", held(1, "c1/1")) }
	for _, c := range []struct {
		name  string
		story *story
		want  int
	}{
		{"granted just before the lease is over", first().note(100.9, "acquire", "l", "c2/1", held(100.9, "c2/1")), 2},
		{"granted when it is over", first().note(101, "acquire", "l", "c2/1", held(101, "c2/1")), 0},
		{"freed by a stranger, then granted", first().note(30, "release", "l", "x/1", free(1)).
			note(40, "acquire", "l", "c2/1", held(40, "c2/1")), 2},
		{"granted in spite of a renewal", first().note(90, "renew", "l", "c1/1", renewed(1, 90, "c1/1")).
			note(120, "poll", "l", "c2/1", held(120, "c2/1")), 2},
	} {
		got := check.Index(c.story.events, nil).ServerExclusion().Violations
		assert.True(t, len(got) == c.want, "%s: %d violations, want %d: %+v", c.name, len(got), c.want, got)
	}
}

func TestLostUpdatesAreCounted(t *testing.T) {
	for _, c := range []struct {
		name    string
		written []int64
		final   int64
		want    int
	}{
		{"nothing happened", nil, 0, 0},
		{"all there", []int64{1, 2, 3}, 3, 0},
		{"reported out of order", []int64{2, 1, 3}, 3, 0},
		{"two read the same", []int64{1, 2, 2, 3}, 3, 1},
		{"a late write threw three away", []int64{1, 2, 3, 4, 2, 3}, 3, 3},
		{"a late write at the very end", []int64{1, 2, 3, 4, 1}, 1, 4},
		{"one died after its write, before it could say so", []int64{1, 3}, 3, 0},
	} {
		s := newStory().add(final(c.final, c.final))
		for _, value := range c.written {
			s.add(history.Event{Kind: history.Write, Value: value, Plain: value})
		}
		l := check.Index(s.events, nil).Losses()
		assert.True(t, l.Fenced == c.want && l.Plain == c.want, "%s: %+v, want %d", c.name, l, c.want)
	}
}
