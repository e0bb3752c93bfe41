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
	store  *Store
	number int

	// mu guards the fields below; nothing is sent under it.
	mu             sync.Mutex
	address        string
	silent         bool // its last request got no answer
	cancels        []pendingCancel
	sendingCancels bool
	// What was owed is known by its identity for longer than it is cancelled: a
	// server that was stopped may carry a request out long after that.
	lateCancels map[string]pendingCancel
	lateOrder   []string // of the identities in late, oldest first
}

// name names the node to people.
func (n *node) name() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.address != "" {
		return n.address
	}
	return fmt.Sprintf("node %d", n.number)
}

// call sends one action and waits for at most limit. A caller who gives up
// earlier does not end it: what it has done must be known here.
func (n *node) call(timeout time.Duration, action *script.Script, keys, args []string) (string, error) {
	ctx, cancel := context.WithTimeout(n.store.life.Context(), timeout)
	defer cancel()
	answer, err := n.Run(ctx, action, keys, args)
	n.noteAnswers(err == nil || isRefusal(err))
	return answer, err
}

// noteAnswers notes whether the node answers. When it has just stopped to, whoever
// waits in its line looks for another one.
func (n *node) noteAnswers(answers bool) {
	n.mu.Lock()
	news := n.silent == answers
	n.silent = !answers
	n.mu.Unlock()
	if news && !answers {
		n.store.recheckAll()
	}
}

func (n *node) isSilent() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.silent
}

// notSent reports that a request has certainly not reached its server.
func notSent(err error) bool {
	var dial *net.OpError
	return isRefusal(err) || errors.Is(err, errEnded) || errors.Is(err, store.ErrNotSent) ||
		errors.As(err, &dial) && dial.Op == "dial"
}

// pendingCancel is an attempt of which the node may yet be granting something that
// nobody wants any more.
type pendingCancel struct {
	keys  []string
	args  []string
	times int           // how many requests there are that may each have it grant once
	until time.Duration // when such a grant would have ended by itself
}

// maxPendingCancels bounds what is remembered for a node that does not answer; the
// oldest, which end soonest by themselves, are forgotten first.
const maxPendingCancels = 10_000

// addCancel has the debt cancelled in the background until the node has said for each of
// its requests that there was something, or until it has ended by itself.
func (n *node) addCancel(pending pendingCancel) {
	n.mu.Lock()
	if len(n.cancels) == maxPendingCancels {
		n.cancels = n.cancels[1:]
	}
	n.cancels = append(n.cancels, pending)
	n.rememberCancel(pending)
	first := !n.sendingCancels
	n.sendingCancels = true
	n.mu.Unlock()
	if first {
		n.store.life.Go(n.sendCancels) // not after Close, which says so
	}
}

// maxLateCancels bounds what is remembered of each node for a push that comes late.
const maxLateCancels = 1 << 12

// rememberCancel keeps a debt for the push that may yet name it. n.mu is held.
func (n *node) rememberCancel(pending pendingCancel) {
	if n.lateCancels == nil {
		n.lateCancels = make(map[string]pendingCancel)
	}
	id := pending.args[0]
	if _, known := n.lateCancels[id]; !known {
		if len(n.lateOrder) == maxLateCancels {
			delete(n.lateCancels, n.lateOrder[0])
			n.lateOrder = n.lateOrder[1:]
		}
		n.lateOrder = append(n.lateOrder, id)
	}
	n.lateCancels[id] = pending
}

// unexpectedPush is told of a push for nobody here. If it is for what was given back, a request
// has come after all, and holds up whoever is next: it is cancelled at once.
func (n *node) unexpectedPush(id string) {
	n.mu.Lock()
	pending, known := n.lateCancels[id]
	n.mu.Unlock()
	if !known {
		return // its cancel is on the way
	}
	n.store.life.Go(func() {
		_, err := n.call(n.store.cfg.Timeout, script.Cancel, pending.keys, pending.args)
		if err != nil && !isRefusal(err) {
			pending.times, pending.until = 1, n.store.now()+n.store.cfg.MaxTTL
			n.addCancel(pending)
		}
	})
}

// sendCancels works through the debts until there are none: one request at a time, and
// a pause that grows while the node does not answer or has nothing to cancel.
func (n *node) sendCancels() {
	for failures := 0; ; failures++ {
		if !n.store.life.Sleep(context.Background(), backoff.Default.After(failures, rand.Float64())) {
			return
		}
		n.mu.Lock()
		due := n.cancels
		n.cancels = nil
		n.mu.Unlock()
		var left []pendingCancel
		for i, pending := range due {
			if n.store.now() >= pending.until {
				continue
			}
			answer, err := n.call(n.store.cfg.Timeout, script.Cancel, pending.keys, pending.args)
			if err != nil && !isRefusal(err) {
				left = append(left, due[i:]...)
				break // silent: the others would wait in vain, too
			}
			if answer != "none" {
				pending.times--
			}
			if err == nil && pending.times > 0 {
				left = append(left, pending) // a request of it may still be on the way
			}
		}
		n.mu.Lock()
		n.cancels = append(left, n.cancels...)
		if len(n.cancels) == 0 {
			n.cancels, n.sendingCancels = nil, false
			n.mu.Unlock()
			return
		}
		n.mu.Unlock()
	}
}
