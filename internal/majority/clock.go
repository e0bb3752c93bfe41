package majority

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Mark is what a quorum stores on each of its servers. Its instants are on the quorum's clock:
// a server's clock less its Shift. The servers of one quorum agree on that clock, so the
// others reveal a server whose clock was stepped.
type Mark struct {
	Epoch uint64        // 0: there is no mark; at most mostEpoch
	Name  string        // Epoch and Name are those of the quorum
	Born  time.Duration // the server may have forgotten what it granted before
	Shift time.Duration // how far the server's clock is ahead of the quorum's
	At    time.Duration // when the clocks were compared
	Error time.Duration // how wrong Shift may be
}

// MostMillis is the latest instant that a clock may show, in the year 2070: sums of two such
// instants still fit a duration.
const MostMillis = int64(100 * 365 * 24 * time.Hour / time.Millisecond)

// Anybody who may write the key of a mark may write any number there. So a number that no client
// writes is not believed: it could stop the servers for ever, or overflow a sum.
const (
	mostEpoch = 1_000_000_000_000    // a new quorum each millisecond, for 30 years
	mostError = 365 * 24 * time.Hour // longer than any request
	mostName  = 32                   // bytes; foundersName needs 13
)

// ParseMark reads a mark as String writes it. Any other text is not a mark.
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
	m := Mark{epoch, words[1], instants[0], instants[1], instants[2], instants[3]}
	if bad != nil || epoch == 0 || epoch > mostEpoch || m.Name == "" || len(m.Name) > mostName ||
		m.At < 0 || m.Error < 0 || m.Error > mostError {
		return Mark{}
	}
	return m
}

func (m Mark) String() string {
	return fmt.Sprintf("%d:%s:%d:%d:%d:%d", m.Epoch, m.Name,
		m.Born.Milliseconds(), m.Shift.Milliseconds(), m.At.Milliseconds(), m.Error.Milliseconds())
}

// sameQuorum reports whether two marks are of the same quorum.
func (m Mark) sameQuorum(other Mark) bool { return m.Epoch == other.Epoch && m.Name == other.Name }

// olderThan orders quorums: the one that began later is newer.
func (m Mark) olderThan(other Mark) bool {
	return m.Epoch < other.Epoch || m.Epoch == other.Epoch && m.Name < other.Name
}

// Reading is what one server said of itself.
type Reading struct {
	OK        bool          // it has answered
	Low, High time.Duration // its clock is ahead of ours by a value between these two
	RunID     string        // of this run of the server
	Mark      Mark
	Damaged   bool // it has a mark that no client writes, so Mark is empty
}

// estimate is how far the clock is ahead of ours; wrong bounds the error.
func (r Reading) estimate() (ahead, wrong time.Duration) {
	return r.Low + (r.High-r.Low)/2, (r.High - r.Low) / 2
}

// withComparison is the mark with a new comparison, made at today on the quorum's clock, which
// is ahead of ours by clock.
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
	Counts                       // it remembers, and its clock agrees with the others
	OnProbation                  // it may have forgotten leases that are not over
	Stranger                     // not a server of this quorum: new, or without its memory
	ClockStepped                 // its clock was stepped, the others say
	ClocksDiffer                 // clocks differ, and nobody can tell which are right
	Stale                        // its clock was last compared too long ago
)

// Survey is what the readings of one round say together.
type Survey struct {
	Standings []Standing
	Left      []time.Duration // how long a server on probation does not count
	Next      []Mark          // the marks to write; Epoch 0: none
}

// span is where the quorum's clock may be, ahead of ours.
type span struct{ low, high time.Duration }

func (s span) middle() time.Duration { return s.low + (s.high-s.low)/2 }

// Tolerance is how far clocks may have drifted apart since a comparison of that age: one part
// in a hundred each, and what readings lose by whole milliseconds.
func Tolerance(age time.Duration) time.Duration { return apart(age, 0)/50 + 2*time.Millisecond }

func apart(a, b time.Duration) time.Duration { return max(a-b, b-a) }

// forever is an age that no comparison has.
const forever = 2 * time.Duration(MostMillis) * time.Millisecond

// quorumClock is where the quorum's clock is, as this server has it. A comparison older than
// oldest counts as exact as one of that age.
func (r Reading) quorumClock(now, oldest time.Duration) span {
	at := span{r.Low - r.Mark.Shift, r.High - r.Mark.Shift}
	loose := Tolerance(min(apart(now+at.middle(), r.Mark.At), oldest)) + max(r.Mark.Error, 0)
	return span{at.low - loose, at.high + loose}
}

// agree finds the largest set of the servers in of whose words on the quorum's clock can be
// true together, and the clock that they agree on. Of several such sets it takes the one with
// the earliest clock: then no lease ends too early.
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

// Current is the quorum that goes on: the one that a majority of all servers names, or else the
// newest. So no single mark, whoever wrote it, stops the others. A majority that names an older
// quorum is as good as one that names the newest: a server that goes over to a quorum is born
// there, and does not count until all that it may have granted before is over.
func Current(readings []Reading) Mark {
	for _, r := range readings {
		same := 0
		for _, other := range readings {
			if other.Mark.sameQuorum(r.Mark) {
				same++
			}
		}
		if r.Mark.Epoch > 0 && same >= Of(len(readings)) {
			return r.Mark
		}
	}
	return newest(readings)
}

// newest is the newest quorum that the marks name.
func newest(readings []Reading) (last Mark) {
	for _, r := range readings {
		if last.olderThan(r.Mark) {
			last = r.Mark
		}
	}
	return last
}

// members returns the servers that name this quorum, and which of them are current: not left
// behind by a comparison. A lease of longest that is not over was granted by a majority that
// had just been compared, and every majority that answers contains one of those servers. So a
// server that was compared longest before another one has no such lease to vouch for, and no
// word on the clocks.
//
// A server that says that it was compared later than now leaves nobody behind: its clock was set back since,
// or somebody else wrote its mark. Now is what the fastest clock but a minority says, which is no later
// than what the fastest right one says.
func members(now time.Duration, readings []Reading, quorum Mark, longest time.Duration) (of, current []bool, n int) {
	of, current = make([]bool, len(readings)), make([]bool, len(readings))
	var clocks []time.Duration
	for i, r := range readings {
		if of[i] = r.OK && r.Mark.Epoch > 0 && r.Mark.sameQuorum(quorum); of[i] {
			clocks = append(clocks, now+r.quorumClock(now, forever).high)
		}
	}
	last, today := -forever, forever
	if minority := len(readings) - Of(len(readings)); len(clocks) > minority {
		today = reachedBy(clocks, minority+1)
	}
	for i, r := range readings {
		if of[i] && r.Mark.At <= today {
			last = max(last, r.Mark.At)
		}
	}
	for i, r := range readings {
		if current[i] = of[i] && r.Mark.At >= last-longest; current[i] {
			n++
		}
	}
	return of, current, n
}

// Assess decides what the servers that have answered are to each other, and what their marks
// must say. No lease lasts longer than longest. Clocks that were compared before fresh are
// compared anew. Without the answers of a majority it decides nothing.
//
// At most a minority of the servers is wrong at a time, so every majority that answers
// contains a right one. If all servers of the quorum agree, or a majority does, the right one
// is among them.
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
	quorum := Current(readings)
	of, current, n := members(now, readings, quorum, longest)
	if n == 0 {
		// A server with a damaged mark has been in a quorum before.
		wasMarked := slices.ContainsFunc(readings, func(r Reading) bool { return r.Damaged })
		s.beginQuorum(now, readings, 1, longest, answered >= Founders(len(readings)) && !wasMarked)
		return s
	}
	common, in, most := agree(now, forever, readings, current)
	if most == n && n < Of(len(readings)) {
		// A comparison may have reached only the other servers. The servers left behind are
		// heard if they confirm those, as exactly as if they had been compared a lease ago.
		// One of a majority is right.
		if wider, who, all := agree(now, longest, readings, of); all >= Of(len(readings)) && containsAll(who, current) {
			common, in, most = wider, who, all
		}
	}
	if most < n && most < Of(len(readings)) {
		// After the last epoch comes the first. A majority that names it goes on all the same.
		s.beginQuorum(now, readings, newest(readings).Epoch%mostEpoch+1, longest, false)
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
		case current[i] && at.high < common.low: // set back: its holds last longer than they should
		case of[i] && !current[i] && most >= Of(len(readings)) && at.low <= common.high: // it was away
		default:
			next.Born = today
		}
		// If most clocks were set back, no server was born later than now.
		next.Born = min(next.Born, today)
		s.setStanding(i, now+common.low, next.Born, longest)
		if next != r.Mark {
			s.Next[i] = next
		}
	}
	return s
}

// containsAll reports whether every server in part is in whole.
func containsAll(whole, part []bool) bool {
	for i := range part {
		if part[i] && !whole[i] {
			return false
		}
	}
	return true
}

// comparisonDue reports whether the agreeing clocks must be compared anew. All of them are
// compared at once, so that they agree as well as they can. The readings must be exact, unless
// the last comparison is very old.
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

// setStanding sets whether a server counts that was born at that time.
func (s *Survey) setStanding(i int, today, born, longest time.Duration) {
	s.Standings[i] = Counts
	if left := born + longest - today; left > 0 {
		s.Standings[i], s.Left[i] = OnProbation, left
	}
}

// Founders is how many of n servers a new quorum needs to begin at once. If some do not
// answer, they could be the rest of an older quorum whose other servers have forgotten it. So
// many servers without a mark are more than can have forgotten it, or have never been
// compared.
func Founders(n int) int { return (n+Of(n)-1)/2 + 1 }

// foundersMargin is how much longer than the longest lease the servers of a new quorum have
// remembered, by their marks. It is longer than any error of the readings.
const foundersMargin = time.Hour

// foundersName is the name of a quorum that these servers begin, as they run now.
func foundersName(epoch uint64, readings []Reading) string {
	h := fnv.New64a()
	for i, r := range readings {
		if r.OK {
			_, _ = fmt.Fprintf(h, "%d %d %s\n", epoch, i, r.RunID) // never fails
		}
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

// IsBeginning reports whether a client began the quorum less than limit ago, with exactly the
// servers that have answered now. That client may be about to mark those that have no mark yet.
// The name of the quorum says in which run it found each server. So if one of them has restarted
// since, the answer is no.
func IsBeginning(now time.Duration, readings []Reading, longest, limit time.Duration) bool {
	quorum := Current(readings)
	if quorum.Epoch == 0 || quorum.Name != foundersName(quorum.Epoch, readings) {
		return false
	}
	return slices.ContainsFunc(readings, func(r Reading) bool {
		ahead, _ := r.estimate()
		began := r.Mark.Born + longest + foundersMargin
		return r.OK && r.Mark.sameQuorum(quorum) && apart(now+ahead-r.Mark.Shift, began) < limit
	})
}

// beginQuorum makes a new quorum of the servers that have answered. Unless there certainly was
// none before, all of them wait until the leases of the older one are over.
func (s *Survey) beginQuorum(now time.Duration, readings []Reading, epoch uint64, longest time.Duration, atOnce bool) {
	first := slices.IndexFunc(readings, func(r Reading) bool { return r.OK })
	zero, wrong := readings[first].estimate() // its clock is the quorum's
	today := (now + zero).Truncate(time.Millisecond)
	quorum := Mark{Epoch: epoch, Name: foundersName(epoch, readings), Born: today}
	if atOnce {
		quorum.Born -= longest + foundersMargin
	}
	for i, r := range readings {
		if !r.OK {
			continue
		}
		// Other servers may get their marks from another client, which has read this clock as badly.
		s.Next[i] = r.withComparison(quorum, zero, today)
		s.Next[i].Error += wrong
		s.setStanding(i, today, quorum.Born, longest)
	}
}

// Vouch decides which servers that have answered may vouch for their earlier grants, as their
// marks stand. It needs a majority that is of this quorum and agrees on the time that has
// passed. One of them is right, so none was stepped.
func Vouch(now time.Duration, readings []Reading, quorum Mark, longest time.Duration) Survey {
	s := Survey{Standings: make([]Standing, len(readings)), Left: make([]time.Duration, len(readings))}
	of, current, _ := members(now, readings, quorum, longest)
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
