package majority

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

const (
	longest = time.Minute
	fresh   = 3 * time.Second
)

// servers are the servers of one quorum at one instant. Their clocks differ from ours.
type servers struct {
	now  time.Duration
	list []Reading
}

// wrong is the error of the readings in the tests.
const wrong = time.Millisecond

// read is the reading of a server whose clock is ahead by this much.
func read(ahead time.Duration, mark Mark) Reading {
	return Reading{OK: true, Low: ahead - wrong, High: ahead + wrong, RunID: "r" + ahead.String(), Mark: mark}
}

// founders makes n servers without a mark; the first answer of them answer.
func founders(n, answer int) *servers {
	s := &servers{now: time.Hour, list: make([]Reading, n)}
	for i := range answer {
		s.list[i] = read(time.Duration(i)*time.Hour, Mark{})
	}
	return s
}

// look writes the marks that Assess returns, as a client would, and returns the
// standings.
func (s *servers) look() []Standing {
	found := Assess(s.now, s.list, longest, fresh)
	for i, mark := range found.Next {
		if mark.Epoch > 0 {
			s.list[i].Mark = ParseMark(mark.String())
		}
	}
	return found.Standings
}

func (s *servers) vouch(of ...int) []Standing {
	list := make([]Reading, len(s.list))
	for _, i := range of {
		list[i] = s.list[i]
	}
	return Vouch(s.now, list, Current(s.list), longest).Standings
}

// pass lets time pass.
func (s *servers) pass(d time.Duration) { s.now += d }

// step moves the clock of a server.
func (s *servers) step(i int, d time.Duration) { s.list[i].Low += d; s.list[i].High += d }

// forget deletes the memory of a server.
func (s *servers) forget(i int) { s.list[i].Mark = Mark{} }

// silent makes servers not answer until the returned function is called.
func (s *servers) silent(of ...int) (back func()) {
	before := slices.Clone(s.list)
	for _, i := range of {
		s.list[i] = Reading{}
	}
	return func() {
		for _, i := range of {
			s.list[i] = before[i]
		}
	}
}

func want(t *testing.T, what string, got []Standing, want ...Standing) {
	t.Helper()
	assert.EqualSlices(t, got, want, "%s", what)
}

func TestANewQuorumBeginsAtOnceWhereEnoughServersAreKnown(t *testing.T) {
	for _, test := range []struct {
		n, answer int
		want      Standing
	}{
		{3, 3, Counts}, {3, 2, OnProbation}, {3, 1, Unread},
		{5, 5, Counts}, {5, 4, Counts}, {5, 3, OnProbation}, {5, 2, Unread},
		{7, 7, Counts}, {7, 6, Counts}, {7, 5, OnProbation}, {7, 4, OnProbation}, {7, 3, Unread},
	} {
		s := founders(test.n, test.answer)
		for range 2 {
			got := s.look()
			for i := range got {
				if i < test.answer && got[i] != test.want || i >= test.answer && got[i] != Unread {
					t.Errorf("%d of %d: server %d stands as %d", test.answer, test.n, i, got[i])
				}
			}
			assert.False(t, test.answer < Of(test.n) && s.list[0].Mark.Epoch > 0,
				"a minority of %d has begun a quorum", test.n)
			if test.want == Counts {
				s.pass(time.Second)
			}
		}
		if test.want == OnProbation {
			s.pass(longest + 2*time.Second)
			got := s.look()
			assert.True(t, got[0] == Counts, "%d of %d after MaxTTL: %v", test.answer, test.n, got)
		}
	}
}

// If the servers that began a quorum and remember it are silent, the others do not begin
// a new one at once.
func TestNoMinorityThatForgotAndNoLateComersMakeANewQuorum(t *testing.T) {
	for _, n := range []int{3, 5, 7, 9} {
		begun, forgot := Founders(n), n-Of(n)
		left := n - begun + forgot
		assert.True(t, left < Founders(n), "of %d servers %d could begin again", n, left)
		assert.True(t, begun <= n, "of %d servers %d are needed to begin", n, begun)
	}
}

func TestAServerWithoutMemoryDoesNotCountHoweverYoungTheOthersAre(t *testing.T) {
	s := founders(5, 5)
	s.look()
	s.forget(2)
	want(t, "before a look", s.vouch(0, 1, 2, 3), Counts, Counts, Stranger, Counts, Unread)
	back := s.silent(0, 1)
	want(t, "among three", s.look(), Unread, Unread, OnProbation, Counts, Counts)
	back()
	s.pass(longest - time.Second)
	want(t, "before the end", s.look(), Counts, Counts, OnProbation, Counts, Counts)
	s.pass(time.Second + 100*time.Millisecond)
	want(t, "at the end", s.look(), Counts, Counts, Counts, Counts, Counts)
}

// A server without a mark may be one that the client which has just begun the quorum is about to mark.
func TestWhichServersMayBeMarkedByWhoBeginsTheQuorum(t *testing.T) {
	const limit = time.Second
	begun := func() *servers {
		s := founders(5, 5)
		s.look()
		for i := range 3 {
			s.list[i].Mark = Mark{}
		}
		return s
	}
	beginning := func(s *servers) bool { return IsBeginning(s.now, s.list, longest, limit) }
	assert.True(t, !beginning(founders(5, 5)), "nobody has begun it")
	s := begun()
	assert.True(t, beginning(s), "it has just begun")
	s.pass(limit - time.Millisecond)
	assert.True(t, beginning(s), "it began a little less than the limit ago")
	s.pass(time.Millisecond)
	assert.True(t, !beginning(s), "it began as long ago as the limit")
	s = begun()
	s.list[0].RunID = "another"
	assert.True(t, !beginning(s), "a server has restarted since")
	s = begun()
	s.list[0] = Reading{}
	assert.True(t, !beginning(s), "it began with another server, too")
	s = founders(5, 3) // which waits first: nobody loses by joining
	s.look()
	s.list[0].Mark = Mark{}
	assert.True(t, !beginning(s), "its servers do not count yet")
}

func TestAClockThatIsSteppedIsFoundOut(t *testing.T) {
	for _, by := range []time.Duration{time.Second, time.Minute, time.Hour, 300 * 24 * time.Hour} {
		for _, age := range []time.Duration{0, time.Second, fresh} {
			s := founders(5, 5)
			s.look()
			s.pass(age)
			s.step(2, by)
			want(t, "by its grants", s.vouch(0, 1, 2, 3), Counts, Counts, ClockStepped, Counts, Unread)
			want(t, "where too few can tell", s.vouch(2, 3, 4),
				Unread, Unread, ClocksDiffer, ClocksDiffer, ClocksDiffer)
			want(t, "by a look", s.look(), Counts, Counts, OnProbation, Counts, Counts)
			s.pass(longest / 2)
			s.step(2, by) // once more: its time begins again
			want(t, "once more", s.look(), Counts, Counts, OnProbation, Counts, Counts)
			s.pass(longest / 2)
			want(t, "half of its time later", s.look(), Counts, Counts, OnProbation, Counts, Counts)
			s.pass(longest)
			want(t, "in the end", s.look(), Counts, Counts, Counts, Counts, Counts)
		}
	}
}

func TestAStepDuringTheProbationDoesNotEndIt(t *testing.T) {
	s := founders(5, 5)
	s.look()
	s.forget(2)
	s.look()
	s.pass(time.Second)
	s.step(2, time.Hour)
	want(t, "after the step", s.look(), Counts, Counts, OnProbation, Counts, Counts)
	s.pass(longest - time.Second)
	want(t, "nearly MaxTTL after it", s.look(), Counts, Counts, OnProbation, Counts, Counts)
	s.step(2, -time.Hour)
	want(t, "and back", s.look(), Counts, Counts, OnProbation, Counts, Counts)
}

// What a server holds while its clock is behind ends early when the clock is set right.
func TestAClockThatIsSetBackCountsUntilItIsSetRight(t *testing.T) {
	s := founders(5, 5)
	s.look()
	s.step(2, -time.Hour)
	want(t, "by its grants", s.vouch(0, 1, 2, 3), Counts, Counts, ClockStepped, Counts, Unread)
	want(t, "set back", s.look(), Counts, Counts, Counts, Counts, Counts)
	want(t, "with a mark that says so", s.vouch(0, 1, 2), Counts, Counts, Counts, Unread, Unread)
	s.step(2, time.Hour)
	want(t, "set right", s.vouch(0, 1, 2, 3), Counts, Counts, ClockStepped, Counts, Unread)
	want(t, "set right", s.look(), Counts, Counts, OnProbation, Counts, Counts)
}

// One of three servers that answer was stepped, and nobody knows which. All that count
// afterwards have waited, and so has a server that was silent then.
func TestIfNobodyKnowsWhichClockIsRightAllServersWait(t *testing.T) {
	s := founders(5, 5)
	s.look()
	back := s.silent(3, 4)
	s.step(0, time.Hour)
	want(t, "three that differ", s.look(), OnProbation, OnProbation, OnProbation, Unread, Unread)
	if got := s.list[1].Mark.Epoch; got != 2 {
		t.Errorf("the quorum that begins anew is number %d", got) // or servers of the first could go on
	}
	s.pass(longest / 2)
	back()
	want(t, "of an older quorum", s.vouch(1, 2, 3, 4), Unread, ClocksDiffer, ClocksDiffer, Stranger, Stranger)
	want(t, "the others are back", s.look(), OnProbation, OnProbation, OnProbation, OnProbation, OnProbation)
	s.pass(longest/2 + time.Second)
	want(t, "the first three have waited", s.look(), Counts, Counts, Counts, OnProbation, OnProbation)
	s.pass(longest / 2)
	want(t, "all have waited", s.look(), Counts, Counts, Counts, Counts, Counts)
}

// Two of five may be wrong at a time.
func TestAMajorityThatAgreesIsBelieved(t *testing.T) {
	for _, test := range []struct {
		steps [5]time.Duration
		want  [5]Standing
	}{
		{[5]time.Duration{1: time.Hour, 3: time.Hour}, [5]Standing{Counts, OnProbation, Counts, OnProbation, Counts}},
		{[5]time.Duration{1: time.Hour, 3: -time.Hour}, [5]Standing{Counts, OnProbation, Counts, Counts, Counts}},
		{[5]time.Duration{0: -time.Hour, 1: -time.Hour}, [5]Standing{Counts, Counts, Counts, Counts, Counts}},
	} {
		s := founders(5, 5)
		s.look()
		for i, by := range test.steps {
			s.step(i, by)
		}
		want(t, "stepped", s.look(), test.want[:]...)
		s.pass(time.Second)
		want(t, "once more", s.look(), test.want[:]...)
	}
}

func TestAComparisonThatIsOldDoesNotVouch(t *testing.T) {
	s := founders(5, 5)
	s.look()
	s.pass(longest)
	want(t, "as old as a lease", s.vouch(0, 1, 2, 3, 4), Counts, Counts, Counts, Counts, Counts)
	s.pass(time.Second)
	want(t, "older", s.vouch(0, 1, 2, 3, 4), Stale, Stale, Stale, Stale, Stale)
	want(t, "a look", s.look(), Counts, Counts, Counts, Counts, Counts)
	want(t, "compared anew", s.vouch(0, 1, 2, 3, 4), Counts, Counts, Counts, Counts, Counts)
}

// Right clocks may be apart by two parts in a hundred of the time since the comparison.
func TestClocksThatDriftAreNotSteppedOnes(t *testing.T) {
	s := founders(5, 5)
	s.look()
	for range 1000 {
		s.pass(10 * time.Second)
		s.step(0, 90*time.Millisecond)
		s.step(1, -90*time.Millisecond)
		want(t, "drifting", s.look(), Counts, Counts, Counts, Counts, Counts)
	}
}

func TestAComparisonIsRenewedWhenItIsNoLongerFresh(t *testing.T) {
	s := founders(3, 3)
	s.look()
	before := s.list[0].Mark
	s.pass(fresh - 100*time.Millisecond)
	if s.look(); s.list[0].Mark != before {
		t.Errorf("renewed early: %v", s.list[0].Mark)
	}
	s.pass(200 * time.Millisecond)
	if s.look(); s.list[0].Mark.At-before.At < fresh {
		t.Errorf("not renewed: %v", s.list[0].Mark)
	}
}

// Of two quorums, the one that a majority names goes on. If no majority names one, the newer goes on.
func TestWhichOfTwoQuorumsGoesOn(t *testing.T) {
	s := founders(5, 5)
	s.look()
	other := founders(5, 5)
	other.list[0].RunID = "another"
	other.look()
	newer := other.list[0].Mark
	newer.Epoch = 2
	s.list[0].Mark = newer
	want(t, "one is of a newer quorum", s.look(), OnProbation, Counts, Counts, Counts, Counts)
	s.list[0].Mark = newer
	back := s.silent(1, 2)
	want(t, "one of three is of a newer quorum", s.look(), Counts, Unread, Unread, OnProbation, OnProbation)
	back()
	s.look()
	for i := range 5 {
		assert.True(t, s.list[i].Mark.sameQuorum(s.list[0].Mark), "server %d is of %v", i, s.list[i].Mark)
	}
}

func TestMarksAreReadAsTheyWereWritten(t *testing.T) {
	m := Mark{7, "abc", 5 * time.Second, -time.Hour, 90 * 365 * 24 * time.Hour, time.Second}
	got := ParseMark(m.String())
	assert.True(t, got == m, "%v, read as %v", m, got)
	for _, text := range []string{
		"", "-", "one", "1:a:2:3:4", "1:a:2:3:4:5:6", "0:a:1:2:3:4", "1::1:2:3:4", "x:a:1:2:3:4", "1:a:b:2:3:4",
		"1:a:1:2:9223372036854775807:1", "1:a:1:-9223372036854775807:2:1", "18446744073709551615:a:1:2:3:4",
		"1000000000001:a:1:2:3:4", "1:" + strings.Repeat("z", 33) + ":1:2:3:4", "1:a:1:2:-3:4", "1:a:1:2:3:-4",
		"1:a:1:2:3:3000000000000",
	} {
		assert.Equal(t, ParseMark(text), (Mark{}), "%q was read as", text)
	}
}

// A stranger may write any mark. Marks at the limits stop no server for longer than MaxTTL: not with
// the last epoch, after which no newer quorum can begin, and not with instants at the ends of time.
func TestNoMarkStopsAQuorumForever(t *testing.T) {
	const most, name = MostMillis, "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"
	for _, at := range []int64{0, most} {
		for _, shift := range []int64{-most, 0, most} {
			for _, born := range []int64{-most, most} {
				mark := ParseMark(fmt.Sprintf("%d:%s:%d:%d:%d:%d",
					mostEpoch, name, born, shift, at, mostError.Milliseconds()))
				assert.True(t, mark.Epoch == mostEpoch, "it is damaged")
				for strangers := 1; strangers <= 5; strangers++ {
					s := founders(5, 5)
					s.look()
					for i := range strangers {
						s.list[i].Mark = mark
					}
					for range 3 {
						s.look()
						s.pass(longest + 2*time.Second)
					}
					want(t, fmt.Sprintf("%d of %+v", strangers, mark), s.look(), Counts, Counts, Counts, Counts, Counts)
				}
			}
		}
	}
}

// A stranger that writes a mark of this quorum costs its server MaxTTL at most, and the others nothing.
func TestAMarkOfAStrangerCostsTheOthersNothing(t *testing.T) {
	const most = MostMillis
	for _, at := range []int64{0, 3_000_000, 3_601_000, 4_000_000, most} {
		for _, shift := range []int64{-most, -7_200_000, 0, 3_599_000, 3_600_000, most} {
			for _, born := range []int64{-most, 0, most} {
				s := founders(5, 5)
				s.look()
				s.pass(time.Second)
				own := s.list[1].Mark
				s.list[1].Mark = ParseMark(fmt.Sprintf("%d:%s:%d:%d:%d:0", own.Epoch, own.Name, born, shift, at))
				assert.True(t, s.list[1].Mark.sameQuorum(own), "it is damaged")
				of := s.vouch(0, 2, 3)
				want(t, fmt.Sprintf("grants beside %+v", s.list[1].Mark), of, Counts, Unread, Counts, Counts, Unread)
				list := s.look()
				list = slices.Delete(list, 1, 2)
				want(t, fmt.Sprintf("at %d, shift %d, born %d", at, shift, born), list, Counts, Counts, Counts, Counts)
				s.pass(longest + 2*time.Second)
				want(t, "after MaxTTL", s.look(), Counts, Counts, Counts, Counts, Counts)
			}
		}
	}
}

// A server with a damaged mark has been in a quorum. So the servers do not begin one at once,
// as those do that have never had a mark.
func TestADamagedMarkIsNoSignOfANewServer(t *testing.T) {
	s := founders(5, 5)
	s.list[0].Damaged = true
	want(t, "one is damaged, none has a mark", s.look(),
		OnProbation, OnProbation, OnProbation, OnProbation, OnProbation)
}

// Most clocks are set back at once. A server that has just joined does not wait until the
// clocks reach that time again.
func TestNobodyWaitsForLongerThanMaxTTLWhereMostClocksAreSetBack(t *testing.T) {
	s := founders(5, 5)
	s.look()
	s.forget(0)
	s.look()
	for i := range 4 {
		s.step(i, -time.Hour)
	}
	s.look()
	s.pass(longest + 2*time.Second)
	want(t, "after MaxTTL", s.look(), Counts, Counts, Counts, Counts, Counts)
}

// Three of five servers answer, and their clocks have not been compared for a while. A client
// compares them, and its mark does not reach one of them. That server was left behind, and has
// forgotten nothing.
func TestAServerThatAComparisonDidNotReachGoesOn(t *testing.T) {
	for _, idle := range []time.Duration{longest + time.Second, time.Hour, 1000 * time.Hour} {
		s := founders(5, 5)
		s.look()
		s.silent(3, 4)
		s.pass(idle)
		before, other := s.list[1].Mark, s.list[2].Mark
		want(t, "all three are compared", s.look(), Counts, Counts, Counts, Unread, Unread)
		s.list[1].Mark = before
		want(t, "the comparison was lost on one", s.look(), Counts, Counts, Counts, Unread, Unread)
		s.list[1].Mark, s.list[2].Mark = before, other
		want(t, "on two", s.look(), Counts, Counts, Counts, Unread, Unread)
		want(t, "and their grants", s.vouch(0, 1, 2), Counts, Counts, Counts, Unread, Unread)
	}
}

// The age of the comparison does not make the reading of a server left behind less exact.
// Two servers with the same step find no server that confirms them.
func TestAServerLeftBehindConfirmsNoStep(t *testing.T) {
	for _, by := range []time.Duration{2 * time.Second, time.Minute, time.Hour} {
		s := founders(5, 5)
		s.look()
		s.silent(3, 4)
		s.pass(1000 * time.Hour) // so long that 20 h of drift are possible
		before := s.list[1].Mark
		s.look()
		s.list[1].Mark = before
		s.step(0, by)
		s.step(2, by)
		got := s.look()
		assert.True(t, got[1] != Counts, "stepped by %v: %v", by, got)
	}
	for _, by := range []time.Duration{2 * time.Second, -2 * time.Second, time.Hour, -time.Hour} {
		s := founders(5, 5)
		s.look()
		s.silent(3, 4)
		s.pass(1000 * time.Hour)
		before := s.list[1].Mark
		s.look()
		s.list[1].Mark = before
		s.step(1, by)
		got := s.look()
		assert.True(t, got[1] != Counts, "it was stepped itself, by %v: %v", by, got)
	}
	for _, by := range []time.Duration{2 * time.Second, -2 * time.Second, time.Hour, -time.Hour} {
		s := founders(5, 5)
		s.look()
		back := s.silent(3, 4)
		s.pass(1000 * time.Hour)
		before := s.list[1].Mark
		s.look()
		s.list[1].Mark = before
		back()
		s.step(0, by)
		s.step(2, by)
		got := s.look()
		assert.True(t, got[1] != Counts && got[3] != Counts && got[4] != Counts,
			"three that agree overrule the two that were compared, stepped by %v: %v", by, got)
	}
}

// If two sets of servers of the same size agree, the earlier clock counts: then no lease ends too early.
func TestOfTwoClocksTheEarlierOneCounts(t *testing.T) {
	at := func(clock time.Duration) Reading {
		return Reading{OK: true, Low: clock, High: clock, Mark: Mark{At: clock}}
	}
	all := []bool{true, true, true, true}
	early, late := []bool{true, true, false, false}, []bool{false, false, true, true}
	for first, want := range map[time.Duration][]bool{0: early, 2 * time.Hour: late} {
		readings := []Reading{at(first), at(first), at(time.Hour), at(time.Hour)}
		_, in, n := agree(0, forever, readings, all)
		assert.EqualSlices(t, in, want, "with the first at %v, these agree", first)
		assert.Equal(t, n, 2, "how many agree")
	}
}

// What several servers agree on is what each of them allows, and no more.
func TestAnAgreementIsAsExactAsItsMostExactServer(t *testing.T) {
	exact, vague := read(0, Mark{}), Reading{OK: true, Low: -time.Second, High: time.Second}
	want := exact.quorumClock(0, forever)
	for _, readings := range [][]Reading{{exact, vague, vague}, {vague, exact, vague}, {vague, vague, exact}} {
		common, _, n := agree(0, forever, readings, []bool{true, true, true})
		assert.True(t, common == want && n == 3, "%d servers agree on %v, want %v", n, common, want)
	}
}

// A comparison that was inexact says less of the quorum's clock.
func TestTheErrorOfAComparisonCounts(t *testing.T) {
	exact := Reading{OK: true}.quorumClock(0, forever)
	inexact := Reading{OK: true, Mark: Mark{Error: time.Second}}.quorumClock(0, forever)
	assert.Equal(t, exact.low-inexact.low, time.Second, "the clock may be earlier by")
	assert.Equal(t, inexact.high-exact.high, time.Second, "the clock may be later by")
}

// A probation ends by the earliest clock that may be right: then no server counts too early.
func TestAProbationEndsByTheEarliestClock(t *testing.T) {
	const now = time.Hour
	one := Reading{OK: true, High: time.Second, Mark: Mark{
		Epoch: 1, Name: "q", Born: now - longest + time.Second/2, At: now,
	}}
	readings := []Reading{one, one, one}
	for what, s := range map[string]Survey{
		"Assess": Assess(now, readings, longest, fresh), "Vouch": Vouch(now, readings, one.Mark, longest),
	} {
		for i := range readings {
			assert.Equal(t, s.Standings[i], OnProbation, "%s: server %d", what, i)
		}
	}
}

// An inexact reading would make the comparison of all worse. It counts only when the last one is very old.
func TestInexactReadingsAreNotCompared(t *testing.T) {
	const today = time.Hour
	one := func(wrong, age time.Duration) Reading { return Reading{High: 2 * wrong, Mark: Mark{At: today - age}} }
	for r, want := range map[Reading]bool{
		one(0, fresh): true, one(0, fresh-1): false,
		one(Tolerance(fresh)+1, fresh): false, one(Tolerance(fresh)+1, longest/4): true,
	} {
		assert.Equal(t, comparisonDue(today, []Reading{r}, []bool{true}, longest, fresh), want, "%+v", r)
	}
}

// Servers left behind are heard only if they confirm each of the others.
func TestAConfirmationIsOfEachServer(t *testing.T) {
	whole := []bool{true, false, true}
	assert.True(t, containsAll(whole, []bool{true, false, false}), "a part is not found")
	assert.False(t, containsAll(whole, []bool{true, true, false}), "one that is not there is found")
}

// A server that was away for longer than any lease has forgotten nothing, unless its clock was set forward. It
// is told from a new one by its mark, and the next comparison includes it.
func TestAServerThatWasAwayGoesOn(t *testing.T) {
	for by, standing := range map[time.Duration]Standing{0: Counts, -time.Hour: Counts, time.Hour: OnProbation} {
		s := founders(5, 5)
		s.look()
		back := s.silent(4)
		for range 10 {
			s.pass(longest / 4)
			want(t, "without it", s.look(), Counts, Counts, Counts, Counts, Unread)
		}
		back()
		s.step(4, by)
		want(t, "it is back, set by "+by.String(), s.look(), Counts, Counts, Counts, Counts, standing)
		assert.Equal(t, s.list[4].Mark.At, s.list[0].Mark.At, "compared at")
	}
}

// A server is left behind if it was compared longer before the last one than a lease can be.
func TestWhichServersAreLeftBehind(t *testing.T) {
	at := func(at time.Duration) Reading { return Reading{OK: true, Mark: Mark{Epoch: 1, Name: "q", At: at}} }
	readings := []Reading{at(time.Hour), at(time.Hour - longest), at(time.Hour - longest - 1), {}, at(0)}
	readings[4].Mark.Name = "another"
	of, current, n := members(2*time.Hour, readings, Mark{Epoch: 1, Name: "q"}, longest)
	assert.EqualSlices(t, of, []bool{true, true, true, false, false}, "members")
	assert.EqualSlices(t, current, []bool{true, true, false, false, false}, "current")
	assert.Equal(t, n, 2, "how many are current")
}
