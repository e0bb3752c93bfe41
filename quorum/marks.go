package quorum

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockorder"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Reading the servers: their clocks, their runs, and their marks (marktable.go). identify is the
// first step of each acquisition. It usually sends nothing: a survey of all servers is good for a
// twentieth of MaxTTL, and an older one is renewed in the background. Example: with a MaxTTL of a
// minute, a busy client reads the servers every three seconds. It waits for a read only in four
// cases: at the first use, if a grant has shown a wrong mark, if two nodes were one server, or if
// the last read began more than 15 s ago.

// markLife is how long a node keeps its mark after the last read.
const markLife = 7 * 24 * time.Hour

// nodeStates is what is known of the nodes' memories and clocks, for the locks of one prefix.
// Each application has marks of its own.
type nodeStates struct {
	s      *servers
	prefix string

	// mu guards the fields below; nothing is sent under it.
	mu         lockorder.Mutex[nodeStates]
	nodes      marks         // by node: what it said last, and from when on it counts
	reading    *readRound    // the read that is under way; nil without one
	lastRead   time.Duration // when the last read began
	identified bool          // a read has succeeded
	marksWrong bool          // a grant has shown that marks have to be corrected
	sameServer error         // set if two nodes are one server
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
		ns = &nodeStates{s: s.servers, prefix: prefix, nodes: make(marks, len(s.nodes))}
		s.states[prefix] = ns
	}
	return ns
}

// readNode reads a node's identity, clock and mark. If mark is not empty, it replaces the mark
// that the node had. A read must follow what it is to vouch for, because the node may restart
// at any time.
//
// After an error the node keeps what it said before. If it refused, that is remembered for
// operators (Store.Nodes). If no answer came, a mark may have been written. The next read tells.
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

// noteRead records what node i said of itself. The request was sent at sent.
func (ns *nodeStates) noteRead(i int, sent time.Duration, said string) error {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.nodes.note(i, ns.s.now(), sent, said)
}

// comparisonLife is how long clocks are not compared again. The older a comparison, the less
// exact it is. The read for a comparison also keeps the marks alive.
func (s *servers) comparisonLife() time.Duration { return min(s.cfg.MaxTTL/20, markLife/7) }

// identify makes sure that the nodes are different servers of one quorum, and that their marks
// are right. A read that began before the call may be too old for it, so identify then waits for
// one more. It waits only if no grant can be believed otherwise; a comparison of clocks that
// only gets old is renewed in the background. Nodes that do not answer are identified later.
//
// Example: a grant at 10 s has shown that server 3 lost its mark, while a read that began at 9.9 s
// was under way. That read may have found the old mark. So the round that follows waits for it, and
// for a read that begins after that.
//
// Each read is bounded, and closes done in the end. A read that fails is not repeated at once: the
// grants themselves tell whether their servers count (vouch).
func (s *servers) identify(ctx context.Context, ns *nodeStates) error {
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
			failed, heard := ns.heardOf(read)
			return s.interrupted(ctx, failed, heard)
		}
		if read.err != nil || read.began >= entered {
			return read.err
		}
	}
}

// refresh reads the nodes again, in the background, if that is due.
// Whoever uses the quorum calls it: acquisitions, polls, renewals. Nobody waits for the outcome. So a
// quorum that is in use always has a recent survey, and none that is idle is read.
func (ns *nodeStates) refresh() {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if ns.marksWrong || ns.s.now()-ns.lastRead >= ns.s.comparisonLife() {
		ns.startRead()
	}
}

// noteWrongMarks records that a node did not vouch for its grant because its mark must be
// corrected. A probation ends by itself. All other reasons last until the marks have been written
// again. So the next identify waits for a read, and the next refresh begins one.
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
// The read is said to begin now: what is answered to it was true after this instant. marksWrong is
// cleared, and a grant that finds a wrong mark from now on sets it again.
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

// readAll reads all nodes and corrects their marks. A mark is written only if the node still has
// the mark that was read. The answer has the mark that the node has afterwards. So if another
// client was faster, the next decision goes by the other client's mark. Two clients that begin a
// quorum at the same time agree in this way. One that finds a part of the servers marked waits for
// the rest of the marks first.
//
// Example: A and B find three servers without a mark. A quorum is named after the runs of its
// servers, so both begin the same one. A's mark reaches server 1 first, and B's mark reaches 2 and
// 3 first. Each client is told which marks the servers have now, and the next decision finds
// nothing to write.
func (ns *nodeStates) readAll(read *readRound) {
	timeout := ns.s.cfg.Timeout
	failed := ns.readEach(timeout, make([]string, len(ns.nodes)), nil)
	ns.awaitFounder(read.began, timeout)
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

// awaitFounder waits for the marks of a client that is just beginning the quorum. Suppose that this
// client has found server 1 marked, and has read server 2 before the other client's request arrived
// there. It would take server 2 for one that has forgotten, and nobody could count on that server for
// MaxTTL. The wait is no longer than one request. A server that still has no mark then joins like any
// other. Waiting lets no server count: only a mark does, written in this run of the server.
func (ns *nodeStates) awaitFounder(since, timeout time.Duration) {
	for pause := time.Millisecond; ; pause *= 2 {
		ns.mu.Lock()
		unmarked := ns.nodes.awaited(ns.s.now(), since, ns.s.cfg.MaxTTL, timeout)
		ns.mu.Unlock()
		if unmarked == nil || !ns.s.life.Sleep(context.Background(), pause) {
			return
		}
		ns.readEach(timeout, make([]string, len(ns.nodes)), unmarked)
	}
}

// readEach reads the named nodes; nil means all nodes. It waits for the nodes from which an
// answer is expected, and for silent ones while a majority needs them.
// Silent nodes are asked as well, and what they answer later is recorded. It is only not waited for.
// failed has the nodes that have given no answer by then, and why.
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

// heardOf returns which nodes have answered a read that is under way, and why nodes refuse.
func (ns *nodeStates) heardOf(read *readRound) (failed map[int]error, heard []bool) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	failed, heard = make(map[int]error), make([]bool, len(ns.nodes))
	for i, one := range ns.nodes {
		if heard[i] = one.askedAt >= read.began && one.OK; one.refusal != "" {
			failed[i] = errors.New(one.refusal)
		}
	}
	return failed, heard
}

// decideMarks returns the marks to write, by what was read since then, and records from when
// on each node counts.
func (ns *nodeStates) decideMarks(since time.Duration) (marks []string, due bool) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.nodes.decide(ns.s.now(), since, ns.s.cfg.MaxTTL, ns.s.comparisonLife())
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
	one, other, same := ns.nodes.sameServer(since)
	if !same {
		return nil
	}
	return refuse(ErrSameServer, "QUORUM", "%s and %s are the same server (run id %s): "+
		"use independent servers", ns.s.nodes[one].name(), ns.s.nodes[other].name(), ns.nodes[one].RunID)
}

// probation says for how long the node does not count for new grants, as far as is known: it may
// have forgotten leases that are still held. It is nil for a node that counts.
func (ns *nodeStates) probation(i int) *probationError {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	left := ns.nodes[i].left(ns.s.now())
	if left == 0 {
		return nil
	}
	return &probationError{majority.OnProbation, left, ns.nodes[i].damaged}
}

// vouch counts the nodes that vouch for their earlier grants, see marks.vouch.
func (ns *nodeStates) vouch(since time.Duration, of []bool) (ok int, why map[int]error, sure bool) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.nodes.vouch(ns.s.now(), since, of, ns.s.cfg.MaxTTL)
}

// rightClock is how far the clock of a right node is ahead of ours, see marks.clock.
func (ns *nodeStates) rightClock() (ahead time.Duration, ok bool) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.nodes.clock()
}
