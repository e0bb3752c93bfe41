package quorum

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/majority"
)

// The marks of servers that have remembered for an hour at 10 s, and since 10 s.
const (
	oldMark   = "1:q:-3600000:0:10000:0"
	youngMark = "1:q:10000:0:10000:0"
)

// readAt10 lets servers say their marks at 10 s.
func (m marks) readAt10(t *testing.T, said ...string) {
	t.Helper()
	for i, mark := range said {
		assert.Must(t, m.note(i, 10*second, 10*second, "10000 run"+string(rune('a'+i))+" "+mark))
	}
}

// Answers can overtake each other. The newer reading knows of a loss of memory that the older one
// has not seen.
func TestAnOlderReadingDoesNotReplaceANewerOne(t *testing.T) {
	m := make(marks, 1)
	for _, test := range []struct{ sent, want time.Duration }{
		{9 * second, 9 * second}, {8 * second, 9 * second}, {10 * second, 10 * second}, {10*second - 1, 10 * second},
	} {
		assert.Must(t, m.note(0, 11*second, test.sent, "9000 run -"))
		assert.Equal(t, m[0].askedAt, test.want, "sent at %v: the reading was asked for at", test.sent)
	}
}

// A new reading says nothing of how long a server does not count yet, nor since when.
func TestANewReadingDoesNotEndAProbation(t *testing.T) {
	m := make(marks, 1)
	m[0].setProbation(10*second, 70*second, majority.OnProbation)
	m.readAt10(t, oldMark)
	assert.Equal(t, m[0].left(10*second), 60*second, "it does not count for another")
	assert.True(t, m[0].outSince == 10*second && m[0].standing == majority.OnProbation, "%+v", m[0])
}

// A server does not count since it was first found not to.
func TestSinceWhenAServerDoesNotCount(t *testing.T) {
	n := nodeState{}
	n.setProbation(10, 20, majority.OnProbation)
	n.setProbation(12, 25, majority.OnProbation)
	assert.True(t, n.outSince == 10 && n.countsFrom == 25, "%+v", n)
	n.setProbation(25, 30, majority.OnProbation) // it counted again
	assert.Equal(t, n.outSince, 25, "since")
	n.setProbation(40, 0, majority.Counts)
	assert.True(t, n.outSince == 25 && n.counts(40), "%+v", n)
}

// Who vouches for a grant must remember. What is found out by that shortens no probation, and says nothing of
// servers that were not asked.
func TestWhoVouchesRemembers(t *testing.T) {
	m, all := make(marks, 3), []bool{true, true, true}
	m.readAt10(t, oldMark, oldMark, youngMark)
	ok, why, sure := m.vouch(10*second, 10*second, all, time.Minute)
	assert.True(t, ok == 2 && len(why) == 1 && why[2] != nil && sure, "%d, %v, %v", ok, why, sure)
	left := m[2].left(10 * second)
	assert.True(t, left > 59*second && left <= 61*second, "it does not count for another %v", left)
	m[2].setProbation(10*second, time.Hour, majority.OnProbation)
	m.vouch(10*second, 10*second, all, time.Minute)
	assert.Equal(t, m[2].left(10*second), time.Hour-10*second, "it does not count for another")
	m[2].setProbation(10*second, 0, majority.Counts)
	ok, why, _ = m.vouch(10*second, 10*second, []bool{true, true, false}, time.Minute)
	assert.True(t, ok == 2 && len(why) == 0 && m[2].left(10*second) == 0, "%d, %v", ok, why)
	ok, why, _ = m.vouch(10*second, 10*second+1, all, time.Minute)
	assert.True(t, ok == 0 && len(why) == 3, "by words from before: %d, %v", ok, why)
}

// If a server that does not vouch names a newer quorum, the others are left over from an older one, unless they
// are a majority of all servers. Of three servers two are one, of five servers they are not.
func TestANewerQuorumIsHeardOfFromAnyServer(t *testing.T) {
	for _, test := range []struct {
		servers int
		third   string
		want    int
	}{{3, oldMark, 2}, {3, "2:r:10000:0:10000:0", 2}, {5, oldMark, 2}, {5, "2:r:10000:0:10000:0", 0}} {
		m := make(marks, test.servers)
		m.readAt10(t, oldMark, oldMark, test.third)
		of := make([]bool, test.servers)
		of[0], of[1] = true, true
		_, why, _ := m.vouch(10*second, 10*second, of, time.Minute)
		strangers := 0
		for _, err := range why {
			var probation *probationError
			if errors.As(err, &probation) && probation.standing == majority.Stranger {
				strangers++
			}
		}
		assert.Equal(t, 2-strangers, test.want, "one of %d servers names %s: of the old quorum are",
			test.servers, test.third)
	}
}

// A server that was born at 10 s does not count before a minute later, however long the survey took that found it.
func TestAProbationDoesNotEndEarlierAfterASlowSurvey(t *testing.T) {
	for _, took := range []time.Duration{0, 4 * second} {
		m := make(marks, 3)
		m.readAt10(t, oldMark, oldMark, youngMark)
		m.decide(10*second+took, 10*second, time.Minute, time.Hour)
		from := m[2].countsFrom
		assert.True(t, from >= 70*second && from < 71*second, "after a survey of %v, it counts from %v", took, from)
	}
}

// Who did not answer is what it was: nothing is known that ends its probation.
func TestAServerThatWasNotReadStaysOnProbation(t *testing.T) {
	m := make(marks, 3)
	m.readAt10(t, oldMark, oldMark)
	assert.Must(t, m.note(2, 9*second, 9*second, "9000 runc "+oldMark)) // in an earlier survey
	for i := range m {
		m[i].setProbation(10*second, 70*second, majority.Stranger)
	}
	m.decide(10*second, 10*second, time.Minute, time.Second)
	for i, want := range []bool{true, true, false} {
		assert.Equal(t, m[i].counts(10*second), want, "server %d counts", i)
	}
	assert.Equal(t, m[2].left(10*second), 60*second, "it does not count for another")
	m.readAt10(t, oldMark, oldMark, oldMark)
	assert.Equal(t, m[2].standing, majority.Stranger, "as long as no more is known, it is")
}

// Two nodes are one server if they say the same run in the same survey. What one said before tells nothing of it
// now, and a server that may not tell its run is not compared.
func TestWhichNodesAreOneServer(t *testing.T) {
	for name, test := range map[string]struct {
		runs []string
		sent []time.Duration
		want [2]int
		same bool
	}{
		"all differ":             {[]string{"a", "b", "c"}, []time.Duration{10, 10, 10}, [2]int{}, false},
		"two are the same":       {[]string{"a", "b", "b"}, []time.Duration{10, 10, 10}, [2]int{1, 2}, true},
		"one of them was before": {[]string{"b", "a", "b"}, []time.Duration{9, 10, 10}, [2]int{}, false},
		"no run is told":         {[]string{"-", "-", "a"}, []time.Duration{10, 10, 10}, [2]int{}, false},
	} {
		m := make(marks, 3)
		for i, run := range test.runs {
			assert.Must(t, m.note(i, test.sent[i], test.sent[i], "9000 "+run+" -"))
		}
		one, other, same := m.sameServer(10)
		assert.True(t, same == test.same && [2]int{one, other} == test.want, "%s: %d, %d, %v", name, one, other, same)
	}
}
