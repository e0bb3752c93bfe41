package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// node is one server of the quorum.
type node struct {
	store.Store
	quorum *Store
	number int

	// mu guards the fields below; nothing is sent under it.
	mu      sync.Mutex
	address string
	suspect bool // its last request got no answer
	debts   []debt
	paying  bool
	// What was owed is known by its identity for longer than it is cancelled: a
	// server that was stopped may carry a request out long after that.
	late  map[string]debt
	order []string // of the identities in late, oldest first
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
	ctx, cancel := context.WithTimeout(n.quorum.life.Context(), limit)
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

// unsent reports that a request has certainly not reached its server.
func unsent(err error) bool {
	var dial *net.OpError
	return refused(err) || errors.Is(err, errOver) || errors.Is(err, store.ErrNotSent) ||
		errors.As(err, &dial) && dial.Op == "dial"
}

// debt is an attempt of which the node may yet be granting something that
// nobody wants any more.
type debt struct {
	keys  []string
	args  []string
	times int           // how many requests there are that may each have it grant once
	until time.Duration // when such a grant would have ended by itself
}

// maxDebts bounds what is remembered for a node that does not answer; the
// oldest, which end soonest by themselves, are forgotten first.
const maxDebts = 10_000

// owe has the debt cancelled in the background until the node has said for each of
// its requests that there was something, or until it has ended by itself.
func (n *node) owe(d debt) {
	n.mu.Lock()
	if len(n.debts) == maxDebts {
		n.debts = n.debts[1:]
	}
	n.debts = append(n.debts, d)
	n.remember(d)
	first := !n.paying
	n.paying = true
	n.mu.Unlock()
	if first {
		n.quorum.life.Go(n.pay) // not after Close, which says so
	}
}

// mostLate bounds what is remembered of each node for a push that comes late.
const mostLate = 1 << 12

// remember keeps a debt for the push that may yet name it. n.mu is held.
func (n *node) remember(d debt) {
	if n.late == nil {
		n.late = make(map[string]debt)
	}
	id := d.args[0]
	if _, known := n.late[id]; !known {
		if len(n.order) == mostLate {
			delete(n.late, n.order[0])
			n.order = n.order[1:]
		}
		n.order = append(n.order, id)
	}
	n.late[id] = d
}

// stray is told of a push for nobody here. If it is for what was given back, a request
// has come after all, and holds up whoever is next: it is cancelled at once.
func (n *node) stray(id string) {
	n.mu.Lock()
	d, known := n.late[id]
	n.mu.Unlock()
	if !known {
		return // its cancel is on the way
	}
	n.quorum.life.Go(func() {
		_, err := n.call(n.quorum.cfg.Timeout, script.Cancel, d.keys, d.args)
		if err != nil && !refused(err) {
			d.times, d.until = 1, n.quorum.now()+n.quorum.cfg.MaxTTL
			n.owe(d)
		}
	})
}

// pay works through the debts until there are none: one request at a time, and
// a pause that grows while the node does not answer or has nothing to cancel.
func (n *node) pay() {
	for failures := 0; ; failures++ {
		if !n.quorum.life.Sleep(context.Background(), backoff.Default.After(failures, rand.Float64())) {
			return
		}
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
			if answer != "none" {
				d.times--
			}
			if err == nil && d.times > 0 {
				left = append(left, d) // a request of it may still be on the way
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
