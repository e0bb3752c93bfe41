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
)

// markLife is for how long a node keeps its mark without being looked at.
const markLife = 7 * 24 * time.Hour

// view is what is known of the nodes' memories and clocks, for the locks of one
// prefix: each application has marks of its own.
type view struct {
	s      *Store
	prefix string

	// mu guards the fields below; nothing is sent under it.
	mu       sync.Mutex
	seen     []seen
	look     *look         // under way
	looked   time.Duration // when the last began
	met      bool          // there was one
	doubtful bool          // a grant has shown since that the marks have to be set right
	same     error         // two nodes are one server
}

// seen is what one node said last.
type seen struct {
	majority.Reading
	mark   string        // as the node has it
	at     time.Duration // before it was asked
	counts time.Duration // from when on it counts for new grants
}

// look is a round in which all nodes are read.
type look struct {
	began time.Duration
	done  chan struct{}
	err   error // set before done is closed
}

// view finds what is known of the nodes for a prefix.
func (s *Store) view(prefix string) *view {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.views[prefix]
	if v == nil {
		v = &view{s: s, prefix: prefix, seen: make([]seen, len(s.nodes))}
		s.views[prefix] = v
	}
	return v
}

// read asks a node who it is, and has it note mark in place of what it had, if
// that is not empty. It must be asked after what it is to vouch for: it may
// restart at any time.
func (v *view) read(i int, limit time.Duration, mark string) error {
	args := []string{wire.Millis(markLife)}
	if mark != "" {
		v.mu.Lock()
		args = append(args, v.seen[i].mark, mark)
		v.mu.Unlock()
	}
	sent := v.s.now()
	answer, err := v.s.nodes[i].call(limit, script.Node, []string{v.prefix + ":quorum"}, args)
	if err != nil {
		return err
	}
	words := strings.Fields(answer)
	if len(words) != 4 || words[0] != "node" {
		return wire.BadAnswer(answer)
	}
	ms, bad := strconv.ParseInt(words[1], 10, 64)
	if bad != nil || ms < 0 || ms > majority.MostMillis {
		return wire.BadAnswer(answer)
	}
	clock := time.Duration(ms) * time.Millisecond
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.seen[i].at > sent {
		return nil // a later one has overtaken it
	}
	v.seen[i] = seen{
		Reading: majority.Reading{
			OK: true, Low: clock - v.s.now(), High: clock + time.Millisecond - sent, Run: words[2],
			Mark: majority.ParseMark(words[3]),
		},
		mark: words[3], at: sent, counts: v.seen[i].counts,
	}
	return nil
}

// readings are those that were asked for since then, of the nodes named; nil
// names all. v.mu is held.
func (v *view) readings(since time.Duration, of []bool) []majority.Reading {
	list := make([]majority.Reading, len(v.seen))
	for i, one := range v.seen {
		if one.OK && one.at >= since && (of == nil || of[i]) {
			list[i] = one.Reading
		}
	}
	return list
}

// fresh is for how long a comparison of clocks is not repeated: it is the less
// exact the older it is.
func (s *Store) fresh() time.Duration { return s.cfg.MaxTTL / 20 }

// meet makes sure that the nodes are different servers of one quorum, and that
// their marks are right. It waits for that where nothing is to be believed
// otherwise; a comparison of clocks that is only getting old is renewed beside.
// Nodes that do not answer are met later.
func (s *Store) meet(ctx context.Context, v *view) error {
	entered := s.now()
	for {
		v.mu.Lock()
		age := s.now() - v.looked
		must := !v.met || v.doubtful || v.same != nil || age >= s.cfg.MaxTTL/4
		if !must && age < s.fresh() {
			v.mu.Unlock()
			return nil
		}
		l := v.begin()
		v.mu.Unlock()
		if !must {
			return nil
		}
		select {
		case <-l.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if l.err != nil || l.began >= entered {
			return l.err
		}
	}
}

// refresh looks at the nodes again, in the background, where that is due.
func (v *view) refresh() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.doubtful || v.s.now()-v.looked >= v.s.fresh() {
		v.begin()
	}
}

// doubt says that a node did not vouch for what it had granted because its mark
// has to be set right.
func (v *view) doubt(why map[int]error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, err := range why {
		var young *youngError
		v.doubtful = v.doubtful || errors.As(err, &young) && young.standing != majority.Young
	}
}

func (v *view) isDoubtful() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.doubtful
}

// begin starts a look unless one is under way. v.mu is held.
func (v *view) begin() *look {
	if v.look != nil {
		return v.look
	}
	l := &look{began: v.s.now(), done: make(chan struct{})}
	v.look, v.looked, v.doubtful = l, l.began, false
	if !v.s.life.Go(func() { v.run(l) }) {
		l.err = ErrClosed
		v.look = nil
		close(l.done)
	}
	return l
}

// run reads all nodes, and sets their marks right.
func (v *view) run(l *look) {
	limit := majority.Limit(v.s.cfg.Timeout, 0, 0)
	failed := v.ask(limit, make([]string, len(v.seen)), nil)
	// What another client has written meanwhile is looked at again.
	for range 3 {
		marks, due := v.survey(l.began)
		if !due {
			break
		}
		v.ask(limit, marks, given(marks))
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.same = v.twice(l.began); v.same != nil {
		l.err = v.same
	} else if len(failed) > len(v.seen)-v.s.majority {
		l.err = v.s.short(failed)
	}
	v.met, v.look = v.met || l.err == nil, nil
	close(l.done)
}

// ask reads those nodes that are named, all if none is, and waits for those of
// which an answer is expected, or a majority needs one.
func (v *view) ask(limit time.Duration, marks []string, named []bool) (failed map[int]error) {
	failed = make(map[int]error)
	heard := make([]bool, len(v.seen))
	done := v.s.spread(func(i int, _ *node) error {
		if named != nil && !named[i] {
			return nil
		}
		return v.read(i, limit, marks[i])
	})
	for n := range v.seen {
		if n-len(failed) >= v.s.majority && v.s.onlySuspects(heard) {
			break
		}
		r := <-done
		if heard[r.i] = true; r.err != nil {
			failed[r.i] = r.err
		}
	}
	return failed
}

// survey says which marks are to be written, by what was read since then, and
// notes from when on each node counts.
func (v *view) survey(since time.Duration) (marks []string, due bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.s.now()
	readings := v.readings(since, nil)
	s := majority.Look(now, readings, v.s.cfg.MaxTTL, v.s.fresh())
	marks = make([]string, len(readings))
	for i, next := range s.Next {
		if s.Standings[i] == majority.Unread {
			continue
		}
		v.seen[i].counts = now + s.Left[i]
		if next.Epoch > 0 {
			marks[i], due = next.String(), true
		}
	}
	return marks, due
}

// given names the nodes for which there is a mark.
func given(marks []string) []bool {
	list := make([]bool, len(marks))
	for i, mark := range marks {
		list[i] = mark != ""
	}
	return list
}

// twice finds two nodes that are one server, by what was read since then. v.mu
// is held.
func (v *view) twice(since time.Duration) error {
	for i, one := range v.readings(since, nil) {
		if one.Run == "" || one.Run == "-" {
			continue
		}
		at := slices.IndexFunc(v.seen[:i], func(other seen) bool {
			return other.OK && other.at >= since && other.Run == one.Run
		})
		if at >= 0 {
			return refuse(ErrSameServer, "QUORUM", "%s and %s are one server (run id %s): "+
				"name independent servers", v.s.nodes[at].title(), v.s.nodes[i].title(), one.Run)
		}
	}
	return nil
}

// probation is for how long the node does not count for new grants, as far as
// is known: it may have forgotten leases that are still held.
func (v *view) probation(i int) time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	return max(v.seen[i].counts-v.s.now(), 0)
}

// vouch asks which of the nodes, read since then, vouch for what they had
// granted before. What those say that do not is the other answer; sure says that
// no other node's word can change it.
func (v *view) vouch(since time.Duration, of []bool) (ok int, why map[int]error, sure bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	readings := v.readings(since, of)
	all := make([]majority.Reading, len(v.seen))
	for i, one := range v.seen {
		all[i] = one.Reading
	}
	s := majority.Vouch(v.s.now(), readings, majority.Newest(all), v.s.cfg.MaxTTL)
	why, sure = make(map[int]error), true
	for i, standing := range s.Standings {
		if standing == majority.Counts {
			ok++
		} else if of[i] {
			v.seen[i].counts = max(v.seen[i].counts, v.s.now()+s.Left[i])
			why[i] = &youngError{standing: standing, left: s.Left[i]}
			sure = sure && standing != majority.Doubtful
		}
	}
	return ok, why, sure
}

// youngError says why a node does not count.
type youngError struct {
	standing majority.Standing
	left     time.Duration
}

func (e *youngError) Error() string {
	switch e.standing {
	case majority.Doubtful:
		return "has a clock that differs from those of the others, and too few agree to tell which are right"
	case majority.Astray:
		return "has a clock that was set, which counts as a loss of its memory"
	case majority.Stale:
		return "has a clock that was last compared too long ago"
	case majority.Stranger:
		return "is new, or has lost its memory"
	default: // it is young, and counts after a while
		return fmt.Sprintf("is new, or has lost its memory, and is not counted for new locks for another %v "+
			"(a clock that was set forward counts as a loss of memory)", e.left.Round(time.Millisecond))
	}
}

// rightClock is what the clock of a right node is ahead of ours, or less; ok says
// that enough of them are known.
func (v *view) rightClock() (ahead time.Duration, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var known []time.Duration
	for _, one := range v.seen {
		if one.OK {
			known = append(known, one.Low)
		}
	}
	return majority.Clock(known, len(v.seen))
}
