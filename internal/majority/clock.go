package majority

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Mark is what a quorum leaves on each of its servers. Its instants are on the
// quorum's clock: that of a server, less its Shift. The servers of one quorum
// agree on that clock, so one whose clock was stepped is found out by the others.
type Mark struct {
	Epoch uint64        // 0: there is no mark
	Name  string        // Epoch and Name are those of the quorum
	Born  time.Duration // what the server granted before may have been forgotten
	Shift time.Duration // what the server's clock is ahead of the quorum's
	At    time.Duration // when that was compared
	Error time.Duration // by how much Shift may be wrong
}

// MostMillis is the latest instant that a clock may show, in the year 2070: what is
// computed with two such still is a duration.
const MostMillis = int64(100 * 365 * 24 * time.Hour / time.Millisecond)

// ParseMark reads a mark as String writes it; what is no mark is none.
func ParseMark(text string) Mark {
	words := strings.Split(text, ":")
	if len(words) != 6 {
		return Mark{}
	}
	epoch, bad := strconv.ParseUint(words[0], 10, 64)
	var instants [4]time.Duration
	for i, word := range words[2:] {
		ms, err := strconv.ParseInt(word, 10, 64)
		if err != nil || ms > MostMillis || ms < -MostMillis {
			return Mark{}
		}
		instants[i] = time.Duration(ms) * time.Millisecond
	}
	if bad != nil || epoch == 0 || words[1] == "" {
		return Mark{}
	}
	return Mark{epoch, words[1], instants[0], instants[1], instants[2], instants[3]}
}

func (m Mark) String() string {
	return fmt.Sprintf("%d:%s:%d:%d:%d:%d", m.Epoch, m.Name,
		m.Born.Milliseconds(), m.Shift.Milliseconds(), m.At.Milliseconds(), m.Error.Milliseconds())
}

// sameQuorum reports whether two marks are of one quorum.
func (m Mark) sameQuorum(other Mark) bool { return m.Epoch == other.Epoch && m.Name == other.Name }

// olderThan orders quorums: of two that servers name, the one that began later goes on.
func (m Mark) olderThan(other Mark) bool {
	return m.Epoch < other.Epoch || m.Epoch == other.Epoch && m.Name < other.Name
}

// Reading is what one server said of itself.
type Reading struct {
	OK        bool          // it has answered
	Low, High time.Duration // its clock is ahead of ours by something in between
	RunID     string        // which run of the server this is
	Mark      Mark
}

// estimate is what the clock is ahead of ours, by no more than wrong more or less.
func (r Reading) estimate() (ahead, wrong time.Duration) {
	return r.Low + (r.High-r.Low)/2, (r.High - r.Low) / 2
}

// withComparison is the mark with a new comparison, to a clock of the quorum that is
// ahead of ours by so much, at an instant on it.
func (r Reading) withComparison(m Mark, clock, today time.Duration) Mark {
	ahead, wrong := r.estimate()
	m.Shift, m.At, m.Error = ahead-clock, today, wrong
	return m
}

// Standing is what a server is to the others of its quorum.
type Standing uint8

// The standings.
const (
	Unread       Standing = iota // it has not answered
	Counts                       // it remembers, and its clock agrees with the others'
	OnProbation                  // it may have forgotten leases that are not over
	Stranger                     // it is no server of this quorum: it is new, or has lost its memory
	ClockStepped                 // its clock was stepped, as the others say
	ClocksDiffer                 // clocks differ, and nobody can say which are right
	Stale                        // its clock was last compared too long ago
)

// Survey is what the readings of one round say together.
type Survey struct {
	Standings []Standing
	Left      []time.Duration // for so long a Young one does not count
	Next      []Mark          // the marks that are to be written; Epoch 0: none
}

// span is where the quorum's clock may be, ahead of ours.
type span struct{ low, high time.Duration }

func (s span) middle() time.Duration { return s.low + (s.high-s.low)/2 }

// Tolerance is by how much clocks may have gone apart that were compared so long
// ago: one part in a hundred each, and what readings lose to whole milliseconds.
func Tolerance(age time.Duration) time.Duration { return apart(age, 0)/50 + 2*time.Millisecond }

func apart(a, b time.Duration) time.Duration { return max(a-b, b-a) }

// forever is an age that no comparison has.
const forever = 2 * time.Duration(MostMillis) * time.Millisecond

// quorumClock is where the clock of the quorum is, as this server has it. A comparison
// that is older than oldest is taken to be no less exact than one of that age.
func (r Reading) quorumClock(now, oldest time.Duration) span {
	at := span{r.Low - r.Mark.Shift, r.High - r.Mark.Shift}
	loose := Tolerance(min(apart(now+at.middle(), r.Mark.At), oldest)) + max(r.Mark.Error, 0)
	return span{at.low - loose, at.high + loose}
}

// agree finds the most servers of those named whose words on the quorum's clock
// can be true together, and what is true then. Of several such sets it takes the
// one with the earliest clock: then no lease is over sooner than it is.
func agree(now, oldest time.Duration, readings []Reading, of []bool) (common span, in []bool, n int) {
	in = make([]bool, len(readings))
	for i, r := range readings {
		if !of[i] {
			continue
		}
		at := r.quorumClock(now, oldest).low
		set, count, high := make([]bool, len(readings)), 0, time.Duration(1<<63-1)
		for j, other := range readings {
			if s := other.quorumClock(now, oldest); of[j] && s.low <= at && at <= s.high {
				set[j], high = true, min(high, s.high)
				count++
			}
		}
		if count > n || count == n && at < common.low {
			common, in, n = span{at, high}, set, count
		}
	}
	return common, in, n
}

// Newest is the quorum that the marks name, the newest if there are several.
func Newest(readings []Reading) (newest Mark) {
	for _, r := range readings {
		if newest.olderThan(r.Mark) {
			newest = r.Mark
		}
	}
	return newest
}

// members are the servers that name this quorum. Those are current that have not
// been left behind: a lease of longest that is not over was granted by a majority
// that had just been compared, of which one is among any majority that answers.
// So who was compared so long before another one has no such lease to vouch for,
// and no word on the clocks.
func members(readings []Reading, quorum Mark, longest time.Duration) (of, current []bool, n int) {
	of, current = make([]bool, len(readings)), make([]bool, len(readings))
	last := -MostMillis * int64(time.Millisecond)
	for i, r := range readings {
		if of[i] = r.OK && r.Mark.Epoch > 0 && r.Mark.sameQuorum(quorum); of[i] {
			last = max(last, int64(r.Mark.At))
		}
	}
	for i, r := range readings {
		if current[i] = of[i] && r.Mark.At >= time.Duration(last)-longest; current[i] {
			n++
		}
	}
	return of, current, n
}

// Assess decides what the servers that have answered are to each other, and what
// their marks are to say: no lease lasts for longer than longest, and clocks
// that were compared before fresh are compared anew. Without the answers of a
// majority nothing is said.
//
// At most a minority of the servers is wrong at a time, so a majority that has
// answered has a right one among it. Where all that are of the quorum agree, or
// a majority does, it is with that one.
func Assess(now time.Duration, readings []Reading, longest, fresh time.Duration) Survey {
	s := Survey{
		make([]Standing, len(readings)), make([]time.Duration, len(readings)), make([]Mark, len(readings)),
	}
	answered := 0
	for _, r := range readings {
		if r.OK {
			answered++
		}
	}
	if answered < Of(len(readings)) {
		return s
	}
	quorum := Newest(readings)
	of, current, n := members(readings, quorum, longest)
	if n == 0 {
		s.beginQuorum(now, readings, Mark{Epoch: 1}, longest, answered >= Founders(len(readings)))
		return s
	}
	common, in, most := agree(now, forever, readings, current)
	if most == n && n < Of(len(readings)) {
		// Those who were left behind may have been so by a comparison that reached
		// the others only: they are heard if they confirm what those say, as exactly
		// as if they had been compared a lease ago. One of a majority is right.
		if wider, who, all := agree(now, longest, readings, of); all >= Of(len(readings)) && containsAll(who, current) {
			common, in, most = wider, who, all
		}
	}
	if most < n && most < Of(len(readings)) {
		s.beginQuorum(now, readings, Mark{Epoch: quorum.Epoch + 1}, longest, false)
		return s
	}
	today := now + common.middle()
	anew := comparisonDue(today, readings, in, longest, fresh)
	for i, r := range readings {
		if !r.OK {
			continue
		}
		next := r.Mark
		if next.Epoch, next.Name = quorum.Epoch, quorum.Name; anew || !in[i] {
			next = r.withComparison(next, common.middle(), today)
		}
		switch at := r.quorumClock(now, forever); {
		case in[i]:
		case current[i] && at.high < common.low: // set back: what it holds lasts longer than it should
		case of[i] && !current[i] && most >= Of(len(readings)) && at.low <= common.high: // it was away
		default:
			next.Born = today
		}
		// Where most clocks were set back, nothing was born later than now.
		next.Born = min(next.Born, today)
		s.setStanding(i, now+common.low, next.Born, longest)
		if next != r.Mark {
			s.Next[i] = next
		}
	}
	return s
}

// containsAll reports whether all that are in part are in whole.
func containsAll(whole, part []bool) bool {
	for i := range part {
		if part[i] && !whole[i] {
			return false
		}
	}
	return true
}

// comparisonDue reports whether the clocks of those that agree are to be compared anew: all
// of them at once, so that they agree as well as they can, and with readings that
// are exact, unless it is high time.
func comparisonDue(today time.Duration, readings []Reading, in []bool, longest, fresh time.Duration) bool {
	oldest, worst := time.Duration(0), time.Duration(0)
	for i, r := range readings {
		if in[i] {
			_, wrong := r.estimate()
			oldest, worst = max(oldest, apart(today, r.Mark.At)), max(worst, wrong)
		}
	}
	return oldest >= fresh && worst <= Tolerance(fresh) || oldest >= longest/4
}

// setStanding says whether a server counts that was born then.
func (s *Survey) setStanding(i int, today, born, longest time.Duration) {
	s.Standings[i] = Counts
	if left := born + longest - today; left > 0 {
		s.Standings[i], s.Left[i] = OnProbation, left
	}
}

// Founders is how many of n servers a new quorum needs to begin at once. If some
// did not answer, they could be what is left of a quorum that began before, whose
// other servers have forgotten: so many without a mark are more than can have
// forgotten it, or have never been met.
func Founders(n int) int { return (n+Of(n)-1)/2 + 1 }

// beginQuorum makes a new quorum of the servers that have answered. Unless it is known
// that there was none before, all of them wait until the leases of that one are over.
func (s *Survey) beginQuorum(now time.Duration, readings []Reading, quorum Mark, longest time.Duration, atOnce bool) {
	h := fnv.New64a()
	for i, r := range readings {
		if r.OK {
			_, _ = fmt.Fprintf(h, "%d %d %s\n", quorum.Epoch, i, r.RunID) // never fails
		}
	}
	first := slices.IndexFunc(readings, func(r Reading) bool { return r.OK })
	zero, _ := readings[first].estimate() // its clock is the quorum's
	quorum.Name = strconv.FormatUint(h.Sum64(), 36)
	today := (now + zero).Truncate(time.Millisecond)
	quorum.Born = today
	if atOnce {
		quorum.Born -= longest + time.Hour // however inexact the readings are
	}
	for i, r := range readings {
		if !r.OK {
			continue
		}
		s.Next[i] = r.withComparison(quorum, zero, today)
		s.setStanding(i, today, quorum.Born, longest)
	}
}

// Vouch is what the servers that have answered are, as their marks stand: for
// grants that they made before. It takes a majority that is of this quorum and
// agrees on the time that has passed. One of them is right, so none was stepped.
func Vouch(now time.Duration, readings []Reading, quorum Mark, longest time.Duration) Survey {
	s := Survey{Standings: make([]Standing, len(readings)), Left: make([]time.Duration, len(readings))}
	of, current, _ := members(readings, quorum, longest)
	common, in, most := agree(now, forever, readings, current)
	for i, r := range readings {
		switch {
		case !r.OK:
		case !of[i]:
			s.Standings[i] = Stranger
		case !current[i]:
			s.Standings[i] = Stale
		case most < Of(len(readings)):
			s.Standings[i] = ClocksDiffer
		case !in[i]:
			s.Standings[i] = ClockStepped
		case apart(now+common.middle(), r.Mark.At) > longest:
			s.Standings[i] = Stale
		default:
			s.setStanding(i, now+common.low, r.Mark.Born, longest)
		}
	}
	return s
}
