package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/lockorder"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// One server of the quorum, and how it answers. Example: a request to server 2 gets no answer within
// 500 ms. From then on server 2 is silent: no request waits for it if the others are enough, and it comes
// last in the order of coordinators. Requests are still sent to it. With its next answer it is no
// longer silent. A server that got one request too late but answers others is late, and not silent:
// waiters keep their positions there.

// node is one server of the quorum.
type node struct {
	// These never change. The window has a mutex of its own.
	store.Store
	servers    *servers
	number     int    // from 1, for error messages
	fellSilent func() // makes the clients poll: the node keeps the queue for some of their waiters
	window     lateWindow
	pace       atomic.Int64 // how long it takes to answer, see majority.Pace; a request without an answer counts, too

	// mu guards the fields below; nothing is sent under it.
	mu         lockorder.Mutex[node]
	address    string        // as the server says it; empty until it was reached
	silent     bool          // a request got no answer, and nothing was answered since it was sent
	asked      bool          // a request has ended
	answeredAt time.Duration // when the last answer arrived
	changedAt  time.Duration // when silent changed, or the first request ended
	roundTrip  time.Duration // of the last request that was answered
	owed       owed          // the cancels that it has not answered yet
}

// name is how error messages call the node.
func (n *node) name() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.address != "" {
		return n.address
	}
	return fmt.Sprintf("node %d", n.number)
}

// errNotSent says that a request was not sent: too many others got no answer in time. It counts as
// late: it says nothing of what the node knows, so a waiter keeps its position there.
var errNotSent = fmt.Errorf("%w: the node is slow to answer, and too many requests are under way: %w",
	store.ErrNotSent, context.DeadlineExceeded)

// call sends one action and waits for at most timeout, and before that for as long again if the
// node is late. If ended is closed before the action is sent, it is not sent. Later, call goes on though
// its caller has given up, because the store must know what the action has done.
//
// Each request to a node goes through here, except the reading of its server. So here the node's
// pace, silence and window are kept. The context is that of the store and not that of the caller:
// if the caller gives up, the answer must still be heard.
//
// After an error that is no refusal the request may have run, or may yet run, see notSent. Whoever
// sent something that can acquire must then owe its cancel.
func (n *node) call(
	ended <-chan struct{}, timeout time.Duration, action *script.Script, keys, args []string,
) (string, error) {
	if err := n.window.enter(action, timeout, ended); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(n.servers.life.Context(), timeout)
	defer cancel()
	sent := n.servers.now()
	answer, err := n.Run(ctx, action, keys, args)
	n.window.leave(errors.Is(err, context.DeadlineExceeded))
	took := n.servers.now() - sent
	n.pace.Store(int64(majority.Pace(time.Duration(n.pace.Load()), took))) // of two at a time, one counts
	n.noteAnswers(err == nil || isRefusal(err), sent, took)
	return answer, err
}

// readServer reads what the node says of its server, and waits for at most timeout.
func (n *node) readServer(timeout time.Duration) (store.ServerInfo, error) {
	ctx, cancel := context.WithTimeout(n.servers.life.Context(), timeout)
	defer cancel()
	sent := n.servers.now()
	info, err := n.Server(ctx)
	n.noteAnswers(err == nil || isRefusal(err), sent, n.servers.now()-sent)
	if err == nil {
		n.mu.Lock()
		n.address = info.Address
		n.mu.Unlock()
	}
	return info, err
}

// noteAnswers records whether the node answered a request. If it has just fallen silent, waiters
// in its queue search for another coordinator. A node that has answered a later request is not
// silent but late, and so are all nodes of a machine that is busy.
//
// Two requests are under way, and the one that was sent first fails after the other was answered.
// That is a lost request and not a silent node: answeredAt is later than sent.
//
// Example: a request is sent at 10.0 s and fails at 10.5 s. If the node answered anything after
// 10.0 s, it is late. If not, it is silent from 10.5 s on, and with its next answer it is not.
func (n *node) noteAnswers(answers bool, sent, took time.Duration) {
	n.mu.Lock()
	if !answers && n.asked && n.answeredAt > sent {
		n.mu.Unlock()
		return
	}
	changed := n.silent == answers
	if changed || !n.asked {
		n.changedAt = n.servers.now()
	}
	n.silent, n.asked = !answers, true
	if answers {
		n.roundTrip, n.answeredAt = took, n.servers.now()
	}
	n.mu.Unlock()
	if changed && !answers {
		n.fellSilent()
	}
}

// isLate reports whether err says that a request got no answer in time, though the node answers
// others.
func (n *node) isLate(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) && !isRefusal(err) && !n.isSilent()
}

func (n *node) isSilent() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.silent
}

// notSent reports whether a request has certainly not reached its server.
// If this is false, the request may arrive and take the lock even minutes later. So a wrong "true"
// would leave a hold that nobody cancels, and a wrong "false" costs one useless cancel.
func notSent(err error) bool {
	var dial *net.OpError
	return isRefusal(err) || errors.Is(err, errEnded) || errors.Is(err, store.ErrNotSent) ||
		errors.As(err, &dial) && dial.Op == "dial"
}

// addCancel cancels an attempt in the background: until the node has found something to cancel
// for each of its requests, or until the grants have expired.
// One goroutine sends the cancels of a node, so a node that does not answer costs one request at a
// time, however many attempts were given up. It lives as long as the node owes something.
func (n *node) addCancel(pending pendingCancel) {
	n.mu.Lock()
	first := n.owed.add(pending)
	n.mu.Unlock()
	if first {
		n.servers.life.Go(cancelLabel, n.sendCancels) // after Close it does not start
	}
}

// unexpectedPush handles a push for no live attempt. If its attempt was cancelled, a request
// has arrived after the cancel and blocks the next waiter, so it is cancelled at once.
// If no cancel is known here, the cancel has not been answered yet. Then it ends this grant, too.
//
// Example: the acquire of "c/7.3" got no answer, and a cancel was owed for a lease of 9 s. The
// server was frozen for a minute. It runs the acquire, queues "c/7.3", and grants to it when the
// lock is free. Nobody waits for that any more, and no pending cancel is left. But the push names
// "c/7.3", and owed.late still has its cancel.
func (n *node) unexpectedPush(id string) {
	n.mu.Lock()
	pending, known := n.owed.late[id]
	n.mu.Unlock()
	if !known {
		return // its cancel is on the way
	}
	n.servers.life.Go(cancelLabel, func() {
		_, err := n.call(nil, n.servers.cfg.Timeout, script.Cancel, pending.keys, pending.args)
		if err != nil && !isFinal(err) {
			pending.times, pending.until = 1, n.servers.now()+n.servers.cfg.MaxTTL
			n.addCancel(pending)
		}
	})
}

// sendCancels sends the pending cancels until there are none: one request at a time, with a
// pause that grows while the node does not answer or has nothing to cancel. The list is taken out
// before it is sent, so others can add to it meanwhile. A cancel whose time is over is dropped:
// what it could end has expired.
//
// This is where a lost reply of an acquire is undone. Example: server 2 granted to "c/7.3", and the
// answer was lost. The round is given up, and its cancel gets no answer, either. From then on the
// cancel is sent here after 5 to 10 ms, then after 10 to 20 ms, and later every second. Once the
// server says "released", it is done. If it says "none", the acquire may still be on its way, so
// the cancel is sent again until the TTL is over.
func (n *node) sendCancels() {
	for failures := 0; ; failures++ {
		if !n.servers.life.Sleep(context.Background(), backoff.Default.After(failures, rand.Float64())) {
			return
		}
		n.mu.Lock()
		due := n.owed.take()
		n.mu.Unlock()
		var remaining []pendingCancel
		for i, pending := range due {
			if n.servers.now() >= pending.until {
				continue
			}
			answer, err := n.call(nil, n.servers.cfg.Timeout, script.Cancel, pending.keys, pending.args)
			if err != nil && !isFinal(err) {
				remaining = append(remaining, due[i:]...)
				break // the node is silent, so the others would wait in vain, too
			}
			if left, over := pending.heard(answer); err == nil && !over {
				remaining = append(remaining, left)
			}
		}
		n.mu.Lock()
		over := n.owed.putBack(remaining)
		n.mu.Unlock()
		if over {
			return
		}
	}
}
