package quorum

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Each server carries a mark, which says since when the server has forgotten nothing. Suppose that
// server 2 restarts empty at noon, and MaxTTL is a minute. Its mark is gone, so the next read finds
// a stranger among servers that have marks. The server gets a new mark, born at noon, and does not
// count for new grants until one minute past noon: until then a lease that it has forgotten may go
// on. From then on it counts.
//
// This file keeps what each server said last, and what follows from that for grants. It sends
// nothing and reads no clock. marks.go reads the servers; package majority compares the clocks.

// marks is what the nodes said last.
type marks []nodeState

// nodeState is what one node said last. The Reading tells how far its clock is ahead of ours, its
// run, and its mark in parts. nodeStates.mu guards it.
type nodeState struct {
	majority.Reading
	mark       string            // as the node has it
	askedAt    time.Duration     // before the request was sent
	countsFrom time.Duration     // the node counts for new grants from then on; a bid's countsFrom is another thing
	outSince   time.Duration     // when it was found that the node does not count; kept when it counts again
	standing   majority.Standing // what the last decision said of it
	damaged    bool              // it had a mark that no client writes, and has not counted since
	refusal    string            // what the node has said to the last read, if it refused that
	refusedAt  time.Duration     // since when it refuses
}

// note records what node i said of itself: its time, its run and its mark. The request was sent at
// sent, and the answer is read now.
//
// The node read its clock at some instant between sent and now. So its clock is ahead of ours by a
// value between Low and High. A millisecond is added because the node's clock is told in whole ones.
//
// Example: the request was sent at 10.000 s of ours and answered at 10.004 s, and the node says
// 70.003 s. If it read its clock just before the answer, it is ahead by 59.999 s (Low). If it did
// so when the request left, it is ahead by 60.003 s, and by up to 60.004 s with the part of a
// millisecond that it did not tell (High).
func (m marks) note(i int, now, sent time.Duration, said string) error {
	words := strings.Fields(said)
	if len(words) != 3 {
		return wire.BadAnswer(said)
	}
	ms, bad := strconv.ParseInt(words[0], 10, 64)
	if bad != nil || ms < 0 || ms > majority.MostMillis {
		return wire.BadAnswer(said)
	}
	clock := time.Duration(ms) * time.Millisecond
	if m[i].askedAt > sent {
		return nil // a later read has overtaken this one
	}
	reading := majority.Reading{
		OK: true, Low: clock - now, High: clock + time.Millisecond - sent, RunID: words[1],
		Mark: majority.ParseMark(words[2]),
	}
	reading.Damaged = reading.Mark.Epoch == 0 && words[2] != "-"
	m[i] = nodeState{
		Reading: reading, mark: words[2], askedAt: sent, countsFrom: m[i].countsFrom,
		outSince: m[i].outSince, standing: m[i].standing,
		damaged: reading.Damaged || m[i].damaged && !m[i].counts(now),
	}
	return nil
}

// since returns the readings that were asked for since then, of the nodes in of; nil means all
// nodes.
// A reading from before cannot vouch for what happened since: the node may have restarted.
func (m marks) since(then time.Duration, of []bool) []majority.Reading {
	list := make([]majority.Reading, len(m))
	for i, one := range m {
		if one.OK && one.askedAt >= then && (of == nil || of[i]) {
			list[i] = one.Reading
		}
	}
	return list
}

// decide returns the marks to write, by what was read since then, and records from when on each
// node counts.
// majority.Assess does the comparing. A node that was not read keeps its standing: silence ends no
// probation. due says that there is a mark to write.
func (m marks) decide(now, since, maxTTL, comparisonLife time.Duration) (next []string, due bool) {
	s := majority.Assess(now, m.since(since, nil), maxTTL, comparisonLife)
	next = make([]string, len(m))
	for i, mark := range s.Next {
		if s.Standings[i] == majority.Unread {
			continue
		}
		m[i].setProbation(now, now+s.Left[i], s.Standings[i])
		if mark.Epoch > 0 {
			next[i], due = mark.String(), true
		}
	}
	return next, due
}

// awaited returns the nodes without a mark that another client may be about to mark, by what was
// read since then, because it is just beginning this quorum. It returns nil if there are none.
func (m marks) awaited(now, since, maxTTL, limit time.Duration) (list []bool) {
	readings := m.since(since, nil)
	if !majority.IsBeginning(now, readings, maxTTL, limit) {
		return nil
	}
	for i, r := range readings {
		if r.OK && r.Mark.Epoch == 0 {
			if list == nil {
				list = make([]bool, len(m))
			}
			list[i] = true
		}
	}
	return list
}

// vouch counts the nodes, read since then, that vouch for their earlier grants. why has the
// reasons of the others. sure says that no further answer can change them.
//
// A probation is only made longer here. It ends when the survey of all nodes says so (decide): the
// few nodes of one grant know less than all together. The quorum is the one that goes on by the
// marks of all nodes (majority.Current), so nodes left over from another one do not vouch for each
// other.
//
// Example: 1, 2 and 3 of five have the token. 1 and 2 have their marks, and 3 has none any more.
// Then ok is 2, why says of 3 that it has lost its memory, and sure is true: no answer of 4 or 5
// gives 3 its memory back.
func (m marks) vouch(now, since time.Duration, of []bool, maxTTL time.Duration) (ok int, why map[int]error, sure bool) {
	all := make([]majority.Reading, len(m))
	for i, one := range m {
		all[i] = one.Reading
	}
	s := majority.Vouch(now, m.since(since, of), majority.Current(all), maxTTL)
	why, sure = make(map[int]error), true
	for i, standing := range s.Standings {
		if standing == majority.Counts {
			ok++
		} else if of[i] {
			known := standing
			if known == majority.ClocksDiffer {
				known = m[i].standing // further answers may yet tell which clocks are right
			}
			m[i].setProbation(now, max(m[i].countsFrom, now+s.Left[i]), known)
			why[i] = &probationError{standing: standing, left: s.Left[i], damaged: m[i].damaged}
			sure = sure && standing != majority.ClocksDiffer
		}
	}
	return ok, why, sure
}

// sameServer finds two nodes that are one server, by what was read since then.
func (m marks) sameServer(since time.Duration) (one, other int, same bool) {
	for i, reading := range m.since(since, nil) {
		if reading.RunID == "" || reading.RunID == "-" {
			continue
		}
		at := slices.IndexFunc(m[:i], func(other nodeState) bool {
			return other.OK && other.askedAt >= since && other.RunID == reading.RunID
		})
		if at >= 0 {
			return at, i, true
		}
	}
	return 0, 0, false
}

// clock is how far the clock of a right node is ahead of ours, at least. ok says that enough
// clocks are known.
func (m marks) clock() (ahead time.Duration, ok bool) {
	var known []time.Duration
	for _, one := range m {
		if one.OK {
			known = append(known, one.Low)
		}
	}
	return majority.Clock(known, len(m))
}

// left is how long the node does not count for new grants, as far as is known.
func (n *nodeState) left(now time.Duration) time.Duration { return max(n.countsFrom-now, 0) }

// setProbation stores from when on the node counts, and why. If it counted until now, it does
// not count since now.
func (n *nodeState) setProbation(now, countsFrom time.Duration, why majority.Standing) {
	counted := n.counts(now)
	n.countsFrom, n.standing = countsFrom, why
	if counted && !n.counts(now) {
		n.outSince = now
	}
}

// counts reports whether the node counts for new grants, as far as is known. A node whose
// probation is over counts.
func (n *nodeState) counts(now time.Duration) bool {
	switch n.standing {
	case majority.Unread, majority.Counts, majority.OnProbation:
		return n.countsFrom <= now
	default:
		return false
	}
}

// probationError says why a node does not count.
type probationError struct {
	standing majority.Standing
	left     time.Duration
	damaged  bool // its mark was, see nodeState
}

func (e *probationError) Error() string {
	switch e.standing {
	case majority.ClocksDiffer:
		return "has a clock that differs from the others' clocks, and too few clocks agree to tell which are right"
	case majority.ClockStepped:
		return "has a clock that was changed, which is treated as a loss of memory"
	case majority.Stale:
		return "has a clock that has not been compared recently"
	case majority.Stranger:
		if e.damaged {
			return "has a damaged mark, that is, something other than Holdfast has written to its key PREFIX:quorum"
		}
		return "is new, or has lost its memory"
	default: // it is on probation, and counts after that
		if e.damaged {
			return fmt.Sprintf("had a damaged mark, and takes part in new locks again in %v "+
				"(something other than Holdfast has written to its key PREFIX:quorum)", e.left.Round(time.Millisecond))
		}
		return fmt.Sprintf("is new, or has lost its memory, and takes part in new locks again in %v "+
			"(a clock that was set forward is treated as a loss of memory)", e.left.Round(time.Millisecond))
	}
}
