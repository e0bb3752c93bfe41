package quorum

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// node is one server of the quorum.
type node struct {
	holdfast.Store
	quorum *Store
	number int

	// mu guards the fields below; nothing is sent under it.
	mu      sync.Mutex
	address string
	suspect bool          // its last request got no answer
	run     string        // empty before it is known
	born    time.Duration // on our clock: since when it has forgotten nothing
	ahead   time.Duration // what its clock was ahead of ours when it was met
	debts   []debt
	paying  bool
}

// title names the node to people.
func (n *node) title() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.address != "" {
		return n.address
	}
	return fmt.Sprintf("node %d", n.number)
}

// call sends one action and waits for at most limit. A caller who gives up
// earlier does not end it: what it has done must be known here.
func (n *node) call(limit time.Duration, action *script.Script, keys, args []string) (string, error) {
	ctx, cancel := context.WithTimeout(n.quorum.life, limit)
	defer cancel()
	answer, err := n.Run(ctx, action, keys, args)
	n.heard(err == nil || refused(err))
	return answer, err
}

// heard notes whether the node answers. When it has just stopped to, whoever
// waits in its line looks for another one.
func (n *node) heard(answers bool) {
	n.mu.Lock()
	news := n.suspect == answers
	n.suspect = !answers
	n.mu.Unlock()
	if news && !answers {
		n.quorum.nudge()
	}
}

func (n *node) suspected() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.suspect
}

// markLife is for how long a node keeps its mark without a grant.
const markLife = 7 * 24 * time.Hour

// meet asks the node who it is and since when it has forgotten nothing. It
// must be asked after what it is to vouch for: it may restart at any time.
func (n *node) meet(limit time.Duration, prefix string) error {
	answer, err := n.call(limit, script.Node, []string{prefix + ":quorum"}, []string{wire.Millis(markLife)})
	if err != nil {
		return err
	}
	words := strings.Fields(answer)
	if len(words) != 4 || words[0] != "node" {
		return wire.BadAnswer(answer)
	}
	now, bad := strconv.ParseInt(words[1], 10, 64)
	born, worse := strconv.ParseInt(words[2], 10, 64)
	if bad != nil || worse != nil || born < 0 || born > now || now > int64(forever/time.Millisecond) {
		return wire.BadAnswer(answer)
	}
	ours := n.quorum.now()
	age := min(now-born, int64(markLife/time.Millisecond)) * int64(time.Millisecond)
	n.quorum.introduce(n, words[3], ours-time.Duration(age), time.Duration(now)*time.Millisecond-ours)
	return nil
}

// introduce notes what a node said of itself.
func (s *Store) introduce(n *node, run string, born, ahead time.Duration) {
	n.mu.Lock()
	n.run, n.born, n.ahead = run, born, ahead
	n.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.aged || born < s.oldest {
		s.aged, s.oldest = true, born
	}
	if run == "-" || s.broken != nil {
		return
	}
	for _, other := range s.nodes {
		if other == n {
			continue
		}
		other.mu.Lock()
		same := other.run == run
		other.mu.Unlock()
		if same {
			s.broken = refuse(ErrSameServer, "QUORUM", "%s and %s are one server (run id %s): "+
				"name independent servers", other.title(), n.title(), run)
		}
	}
}

// probation is for how long the node does not count for new grants, 0 if it
// does: it may have forgotten leases that are still held.
func (n *node) probation() time.Duration {
	n.mu.Lock()
	run, born := n.run, n.born
	n.mu.Unlock()
	s := n.quorum
	s.mu.Lock()
	oldest := s.oldest
	s.mu.Unlock()
	if run == "" {
		return 0 // not met yet: it is met before a grant is believed
	}
	return majority.Probation(s.now(), born, oldest, s.cfg.MaxTTL)
}

// youngError says why a node does not count.
type youngError struct{ left time.Duration }

func (e *youngError) Error() string {
	return fmt.Sprintf("is new, or has lost its memory, and is not counted for new locks for another %v",
		e.left.Round(time.Millisecond))
}

// rightClock is what the clock of a right node is ahead of ours, or less; ok says
// that enough of them are known.
func (s *Store) rightClock() (ahead time.Duration, ok bool) {
	var known []time.Duration
	for _, n := range s.nodes {
		n.mu.Lock()
		if n.run != "" {
			known = append(known, n.ahead)
		}
		n.mu.Unlock()
	}
	return majority.Clock(known, len(s.nodes))
}

// unsent reports that a request has certainly not reached its server.
func unsent(err error) bool {
	var dial *net.OpError
	return refused(err) || errors.Is(err, errOver) || errors.As(err, &dial) && dial.Op == "dial"
}

// debt is an attempt of which the node may yet be granting something that
// nobody wants any more.
type debt struct {
	keys  []string
	args  []string
	until time.Duration // when such a grant would have ended by itself
}

// maxDebts bounds what is remembered for a node that does not answer; the
// oldest, which end soonest by themselves, are forgotten first.
const maxDebts = 10_000

// owe has the debt cancelled in the background until the node says that there
// was something, or until it has ended by itself.
func (n *node) owe(d debt) {
	n.mu.Lock()
	if len(n.debts) == maxDebts {
		n.debts = n.debts[1:]
	}
	n.debts = append(n.debts, d)
	first := !n.paying
	n.paying = true
	n.mu.Unlock()
	if first {
		n.quorum.background(n.pay) // not after Close, which says so
	}
}

// pay works through the debts until there are none: one request at a time, and
// a pause that grows while the node does not answer or has nothing to cancel.
func (n *node) pay() {
	pause := 20 * time.Millisecond
	for {
		if !n.quorum.sleep(pause) {
			return
		}
		pause = min(2*pause, time.Second)
		n.mu.Lock()
		due := n.debts
		n.debts = nil
		n.mu.Unlock()
		var left []debt
		for i, d := range due {
			if n.quorum.now() >= d.until {
				continue
			}
			answer, err := n.call(n.quorum.cfg.Timeout, script.Cancel, d.keys, d.args)
			if err != nil && !refused(err) {
				left = append(left, due[i:]...)
				break // silent: the others would wait in vain, too
			}
			if answer == "none" {
				left = append(left, d) // its request may still be on the way
			}
		}
		n.mu.Lock()
		n.debts = append(left, n.debts...)
		if len(n.debts) == 0 {
			n.debts, n.paying = nil, false
			n.mu.Unlock()
			return
		}
		n.mu.Unlock()
	}
}
