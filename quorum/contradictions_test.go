package quorum

import (
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// A contradiction lasts when one holder was seen for two thirds of a lease (here 6 s of 9 s), without a break
// as long as the longest lease (60 s).
func TestAContradictionLastsBeforeItCounts(t *testing.T) {
	const note, keep, drop, look = "note", "keep", "drop", "look"
	at := nodeLock{"h:{x}", 0}
	type step struct {
		do     string
		now    time.Duration
		holder string
		want   bool // it lasts
	}
	for name, steps := range map[string][]step{
		"of one holder": {
			{note, 0, "d/1", false}, {note, 6*time.Second - 1, "d/1", false}, {note, 6 * time.Second, "d/1", true},
		},
		"of several holders": {
			{note, 0, "d/1", false}, {note, 5 * time.Second, "e/1", false}, {note, 10 * time.Second, "e/1", false},
			{note, 11 * time.Second, "e/1", true},
		},
		"it is over": {
			{note, 0, "d/1", false}, {note, 6 * time.Second, "d/1", true}, {look, 66 * time.Second, "", true},
			{look, 66*time.Second + 1, "", false}, {note, 67 * time.Second, "d/1", false},
		},
		"a majority may have it": {
			{note, 0, "d/1", false}, {drop, 3 * time.Second, "", false}, {note, 6 * time.Second, "d/1", false},
		},
		"it is kept": {
			{note, 0, "d/1", false}, {note, 6 * time.Second, "d/1", true}, {keep, 66 * time.Second, "d/1", true},
			{look, 126 * time.Second, "", true}, {look, 126*time.Second + 1, "", false},
		},
		"another holder keeps nothing": {
			{note, 0, "d/1", false}, {note, 6 * time.Second, "d/1", true}, {keep, 66 * time.Second, "e/1", true},
			{look, 66*time.Second + 1, "", false},
		},
		"what is over is not kept": {
			{note, 0, "d/1", false}, {note, 6 * time.Second, "d/1", true}, {keep, 67 * time.Second, "d/1", false},
		},
		"what does not last is not kept": {
			{note, 0, "d/1", false}, {keep, 50 * time.Second, "d/1", false}, {note, 70 * time.Second, "d/1", false},
		},
	} {
		c := contradictions{maxTTL: time.Minute, known: map[nodeLock]*contradiction{}}
		for i, s := range steps {
			switch s.do {
			case note:
				assert.Equal(t, c.note(s.now, at, s.holder, 9*time.Second), s.want, "%s: step %d", name, i)
			case keep:
				c.keep(s.now, at, s.holder)
			case drop:
				c.drop(at)
			}
			assert.Equal(t, c.lasts(s.now, at), s.want, "%s: after step %d, it lasts", name, i)
			assert.False(t, c.lasts(s.now, nodeLock{"h:{x}", 1}), "%s: so does that of another server", name)
			assert.False(t, c.lasts(s.now, nodeLock{"h:{y}", 0}), "%s: so does that of another lock", name)
		}
	}
	c := contradictions{maxTTL: time.Minute, known: map[nodeLock]*contradiction{}}
	c.note(0, at, "d/1", 9*time.Second)
	c.note(6*time.Second, at, "d/1", 9*time.Second)
	assert.True(t, c.note(7*time.Second, at, "d/1", time.Minute), "what has lasted lasts for a longer lease, too")
}

// What is remembered is bounded. If there is more, everything begins anew.
func TestContradictionsAreBounded(t *testing.T) {
	c := contradictions{maxTTL: time.Minute, known: map[nodeLock]*contradiction{}}
	for i := range maxContradictions + 1 {
		c.note(0, nodeLock{strconv.Itoa(i), 0}, "d/1", time.Second)
	}
	assert.Equal(t, len(c.known), 1, "contradictions")
}

// A coordinator that has granted is contradicted by one other holder on a majority; one that names a holder, by
// a majority without that holder. Answers that are still to come may decide it.
func TestWhatTheOtherServersMakeOfTheCoordinatorsAnswer(t *testing.T) {
	a, b := "a/1.7", "b/1.8"
	open, granted, failed := "open", "granted", "failed"
	for _, test := range []struct {
		coordinator string
		others      []string
		all         bool
		want        comparison
	}{
		{granted, []string{b, b, b, open}, false, heldByOthers},
		{granted, []string{b, b, open, granted}, false, undecided},
		{granted, []string{b, b, open, granted}, true, plausible},
		{granted, []string{a, b, b, failed}, false, plausible},
		{granted, []string{open, open, open, open}, false, plausible},
		{granted, []string{"", "", "", ""}, false, plausible},
		{a, []string{b, b, b, a}, false, heldThere},
		{a, []string{b, granted, granted, failed}, false, heldThere},
		{a, []string{a, b, granted, open}, false, undecided},
		{a, []string{a, b, granted, open}, true, plausible},
		{a, []string{failed, failed, b, granted}, false, plausible},
		{"a/1.9", []string{a, a, b, b}, false, plausible}, // one attempt, by two of its names
		{failed, []string{b, b, b, b}, false, plausible},
	} {
		attempts := make([]*nodeAttempt, 5)
		for i, said := range append([]string{test.coordinator}, test.others...) {
			attempts[i] = &nodeAttempt{}
			switch b := &attempts[i].bid; said {
			case open:
				b.reply = majority.Open
			case granted:
				b.reply = majority.Granted
			case failed:
				b.reply = majority.Failed
			default:
				b.reply, b.lastAnswer = majority.Busy, wire.Answer{Kind: wire.Busy, Holder: said}
			}
		}
		got, holder := compare(attempts, attempts[0], test.all)
		assert.Equal(t, got, test.want, "%+v", test)
		assert.Equal(t, holder == "a/1", got == heldThere, "%+v: it names the holder", test)
	}
}
