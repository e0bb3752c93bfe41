package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// markLife is how long a node keeps its mark after the last read.
const markLife = 7 * 24 * time.Hour

// nodeStates is what is known of the nodes' memories and clocks, for the locks of one prefix.
// Each application has marks of its own.
type nodeStates struct {
	s      *Store
	prefix string

	// mu guards the fields below; nothing is sent under it.
	mu         sync.Mutex
	nodes      []nodeState
	reading    *readRound    // the read that is under way
	lastRead   time.Duration // when the last read began
	identified bool          // a read has succeeded
	marksWrong bool          // a grant has shown that marks have to be corrected
	sameServer error         // set if two nodes are one server
}

// nodeState is what one node said last.
type nodeState struct {
	majority.Reading
	mark       string        // as the node has it
	askedAt    time.Duration // before the request was sent
	countsFrom time.Duration // the node counts for new grants from then on
	outSince   time.Duration // when it was found that the node does not count; kept when it counts again
	standing   majority.Standing
	refusal    string        // what the node has said to the last read, if it refused that
	refusedAt  time.Duration // since when it refuses
}

// readRound is a round in which all nodes are read.
type readRound struct {
	began time.Duration
	done  chan struct{}
	err   error // set before done is closed
}

// statesOf finds the node states for a prefix.
func (s *Store) statesOf(prefix string) *nodeStates {
	s.mu.Lock()
	defer s.mu.Unlock()
	ns := s.states[prefix]
	if ns == nil {
		ns = &nodeStates{s: s, prefix: prefix, nodes: make([]nodeState, len(s.nodes))}
		s.states[prefix] = ns
	}
	return ns
}

// readNode reads a node's identity, clock and mark. If mark is not empty, it replaces the mark
// that the node had. A read must follow what it is to vouch for, because the node may restart
// at any time.
func (ns *nodeStates) readNode(i int, timeout time.Duration, mark string) error {
	args := []string{wire.Millis(markLife)}
	if mark != "" {
		ns.mu.Lock()
		args = append(args, ns.nodes[i].mark, mark)
		ns.mu.Unlock()
	}
	sent := ns.s.now()
	answer, err := ns.s.nodes[i].call(nil, timeout, script.MarkServer, []string{ns.markKey()}, args)
	if err != nil {
		var refused *store.ServerError
		if errors.As(err, &refused) {
			ns.mu.Lock()
			if ns.nodes[i].refusal == "" {
				ns.nodes[i].refusedAt = sent
			}
			ns.nodes[i].refusal = refused.Message
			ns.mu.Unlock()
		}
		return err
	}
	said, ok := strings.CutPrefix(answer, "node ")
	if !ok {
		return wire.BadAnswer(answer)
	}
	return ns.noteRead(i, sent, said)
}

// markKey is the key of the mark on every node.
func (ns *nodeStates) markKey() string { return ns.prefix + ":quorum" }

// noteRaised records what node i said of itself in its answer to a raised token.
func (ns *nodeStates) noteRaised(i int, sent time.Duration, answer string) error {
	words := strings.SplitN(answer, " ", 3)
	if len(words) != 3 || words[0] != "raised" {
		return wire.BadAnswer(answer)
	}
	return ns.noteRead(i, sent, words[2])
}

// noteRead records what node i said of itself: its time, its run and its mark. The request was
// sent at sent.
func (ns *nodeStates) noteRead(i int, sent time.Duration, said string) error {
	words := strings.Fields(said)
	if len(words) != 3 {
		return wire.BadAnswer(said)
	}
	ms, bad := strconv.ParseInt(words[0], 10, 64)
	if bad != nil || ms < 0 || ms > majority.MostMillis {
		return wire.BadAnswer(said)
	}
	clock := time.Duration(ms) * time.Millisecond
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if ns.nodes[i].askedAt > sent {
		return nil // a later read has overtaken this one
	}
	ns.nodes[i] = nodeState{
		Reading: majority.Reading{
			OK: true, Low: clock - ns.s.now(), High: clock + time.Millisecond - sent, RunID: words[1],
			Mark: majority.ParseMark(words[2]),
		},
		mark: words[2], askedAt: sent, countsFrom: ns.nodes[i].countsFrom,
		outSince: ns.nodes[i].outSince, standing: ns.nodes[i].standing,
	}
	return nil
}

// readings returns the readings that were asked for since then, of the nodes in of; nil means
// all nodes. ns.mu is held.
func (ns *nodeStates) readings(since time.Duration, of []bool) []majority.Reading {
	list := make([]majority.Reading, len(ns.nodes))
	for i, one := range ns.nodes {
		if one.OK && one.askedAt >= since && (of == nil || of[i]) {
			list[i] = one.Reading
		}
	}
	return list
}

// comparisonLife is how long clocks are not compared again. The older a comparison, the less
// exact it is. The read for a comparison also keeps the marks alive.
func (s *Store) comparisonLife() time.Duration { return min(s.cfg.MaxTTL/20, markLife/7) }

// identify makes sure that the nodes are different servers of one quorum, and that their marks
// are right. It waits only if no grant can be believed otherwise; a comparison of clocks that
// only gets old is renewed in the background. Nodes that do not answer are identified later.
func (s *Store) identify(ctx context.Context, ns *nodeStates) error {
	entered := s.now()
	for {
		ns.mu.Lock()
		age := s.now() - ns.lastRead
		must := !ns.identified || ns.marksWrong || ns.sameServer != nil || age >= s.cfg.MaxTTL/4
		if !must && age < s.comparisonLife() {
			ns.mu.Unlock()
			return nil
		}
		read := ns.startRead()
		ns.mu.Unlock()
		if !must {
			return nil
		}
		select {
		case <-read.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if read.err != nil || read.began >= entered {
			return read.err
		}
	}
}

// refresh reads the nodes again, in the background, if that is due.
func (ns *nodeStates) refresh() {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if ns.marksWrong || ns.s.now()-ns.lastRead >= ns.s.comparisonLife() {
		ns.startRead()
	}
}

// noteWrongMarks records that a node did not vouch for its grant because its mark must be
// corrected.
func (ns *nodeStates) noteWrongMarks(why map[int]error) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	for _, err := range why {
		var probation *probationError
		ns.marksWrong = ns.marksWrong || errors.As(err, &probation) && probation.standing != majority.OnProbation
	}
}

func (ns *nodeStates) haveWrongMarks() bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.marksWrong
}

// startRead starts a read unless one is under way. ns.mu is held.
func (ns *nodeStates) startRead() *readRound {
	if ns.reading != nil {
		return ns.reading
	}
	read := &readRound{began: ns.s.now(), done: make(chan struct{})}
	ns.reading, ns.lastRead, ns.marksWrong = read, read.began, false
	if !ns.s.life.Go(readLabel, func() { ns.readAll(read) }) {
		read.err = ErrClosed
		ns.reading = nil
		close(read.done)
	}
	return read
}

// readAll reads all nodes and corrects their marks.
func (ns *nodeStates) readAll(read *readRound) {
	timeout := ns.s.cfg.Timeout
	failed := ns.readEach(timeout, make([]string, len(ns.nodes)), nil)
	// If another client has written a mark meanwhile, that mark is read again.
	for range 3 {
		marks, due := ns.decideMarks(read.began)
		if !due {
			break
		}
		ns.readEach(timeout, marks, present(marks))
	}
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if ns.sameServer = ns.findSameServer(read.began); ns.sameServer != nil {
		read.err = ns.sameServer
	} else if len(failed) > len(ns.nodes)-ns.s.majority {
		read.err = ns.s.noMajority(failed)
	}
	ns.identified, ns.reading = ns.identified || read.err == nil, nil
	close(read.done)
}

// readEach reads the named nodes; nil means all nodes. It waits for the nodes from which an
// answer is expected, and for silent ones while a majority needs them.
func (ns *nodeStates) readEach(timeout time.Duration, marks []string, named []bool) (failed map[int]error) {
	failed = make(map[int]error)
	heard := make([]bool, len(ns.nodes))
	done := ns.s.startOnEach(func(i int, _ *node) error {
		if named != nil && !named[i] {
			return nil
		}
		return ns.readNode(i, timeout, marks[i])
	})
	for n := range ns.nodes {
		if n-len(failed) >= ns.s.majority && ns.s.onlySilentLeft(heard) {
			break
		}
		r := <-done
		if heard[r.i] = true; r.err != nil {
			failed[r.i] = r.err
		}
	}
	return failed
}

// decideMarks returns the marks to write, by what was read since then, and records from when
// on each node counts.
func (ns *nodeStates) decideMarks(since time.Duration) (marks []string, due bool) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	now := ns.s.now()
	readings := ns.readings(since, nil)
	s := majority.Assess(now, readings, ns.s.cfg.MaxTTL, ns.s.comparisonLife())
	marks = make([]string, len(readings))
	for i, next := range s.Next {
		if s.Standings[i] == majority.Unread {
			continue
		}
		ns.nodes[i].setProbation(now, now+s.Left[i], s.Standings[i])
		if next.Epoch > 0 {
			marks[i], due = next.String(), true
		}
	}
	return marks, due
}

// present says which nodes have a mark to write.
func present(marks []string) []bool {
	list := make([]bool, len(marks))
	for i, mark := range marks {
		list[i] = mark != ""
	}
	return list
}

// findSameServer returns an error if two nodes are one server, by what was read since then.
// ns.mu is held.
func (ns *nodeStates) findSameServer(since time.Duration) error {
	for i, one := range ns.readings(since, nil) {
		if one.RunID == "" || one.RunID == "-" {
			continue
		}
		at := slices.IndexFunc(ns.nodes[:i], func(other nodeState) bool {
			return other.OK && other.askedAt >= since && other.RunID == one.RunID
		})
		if at >= 0 {
			return refuse(ErrSameServer, "QUORUM", "%s and %s are the same server (run id %s): "+
				"use independent servers", ns.s.nodes[at].name(), ns.s.nodes[i].name(), one.RunID)
		}
	}
	return nil
}

// probation is how long the node does not count for new grants, as far as is known: it may
// have forgotten leases that are still held.
func (ns *nodeStates) probation(i int) time.Duration {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return max(ns.nodes[i].countsFrom-ns.s.now(), 0)
}

// vouch counts the nodes, read since then, that vouch for their earlier grants. why has the
// reasons of the others. sure says that no further answer can change them.
func (ns *nodeStates) vouch(since time.Duration, of []bool) (ok int, why map[int]error, sure bool) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	readings := ns.readings(since, of)
	all := make([]majority.Reading, len(ns.nodes))
	for i, one := range ns.nodes {
		all[i] = one.Reading
	}
	s := majority.Vouch(ns.s.now(), readings, majority.Newest(all), ns.s.cfg.MaxTTL)
	why, sure = make(map[int]error), true
	for i, standing := range s.Standings {
		if standing == majority.Counts {
			ok++
		} else if of[i] {
			now, known := ns.s.now(), standing
			if known == majority.ClocksDiffer {
				known = ns.nodes[i].standing // further answers may yet tell which clocks are right
			}
			ns.nodes[i].setProbation(now, max(ns.nodes[i].countsFrom, now+s.Left[i]), known)
			why[i] = &probationError{standing: standing, left: s.Left[i]}
			sure = sure && standing != majority.ClocksDiffer
		}
	}
	return ok, why, sure
}

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
		return "is new, or has lost its memory"
	default: // it is on probation, and counts after that
		return fmt.Sprintf("is new, or has lost its memory, and takes part in new locks again in %v "+
			"(a clock that was set forward is treated as a loss of memory)", e.left.Round(time.Millisecond))
	}
}

// rightClock is how far the clock of a right node is ahead of ours, at least. ok says that
// enough clocks are known.
func (ns *nodeStates) rightClock() (ahead time.Duration, ok bool) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	var known []time.Duration
	for _, one := range ns.nodes {
		if one.OK {
			known = append(known, one.Low)
		}
	}
	return majority.Clock(known, len(ns.nodes))
}
