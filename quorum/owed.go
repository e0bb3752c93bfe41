package quorum

import "time"

// A cancel that gets no answer is owed: the server may hold a lock for somebody who has gone.
// Suppose that attempt "c/7.3" asked server 2 twice, got no answer, and was given up. Either
// request may have granted, and may yet arrive. So the node owes the attempt two cancels. It
// sends them until each has ended something, or until the grants would have expired.
//
// An answer to a cancel is one of two. "released" or "withdrawn" says that it has ended something:
// one cancel less is owed. "none" says that there was nothing to end yet, so as many are owed as
// before.
//
// This file keeps what one node owes. It sends nothing and reads no clock: node.sendCancels
// does, and node.mu guards the value.

// pendingCancel is an attempt for which the node may yet grant something that nobody wants any
// more.
type pendingCancel struct {
	keys  []string      // the lock
	args  []string      // of the cancel; the first one is the identity of the attempt
	times int           // how many requests may each have led to a grant
	until time.Duration // when such a grant would have expired
}

// owed is what a node owes.
type owed struct {
	cancels []pendingCancel // oldest first
	sending bool            // a goroutine sends them
	// Cancels that a push may yet name, by the identity of their attempts: longer than they
	// are pending, for a stopped server may run a request long after that.
	late  map[string]pendingCancel
	order []string // the identities in late, oldest first
}

// maxPendingCancels bounds what is remembered for a node that does not answer. The oldest,
// which expire first, are forgotten first.
const maxPendingCancels = 10_000

// maxLateCancels bounds what is remembered of each node for late pushes.
const maxLateCancels = 1 << 12

// add adds a cancel. first says that nobody sends cancels yet: the caller must begin.
func (o *owed) add(pending pendingCancel) (first bool) {
	if len(o.cancels) == maxPendingCancels {
		o.cancels = o.cancels[1:]
	}
	o.cancels = append(o.cancels, pending)
	o.remember(pending)
	first, o.sending = !o.sending, true
	return first
}

// remember keeps a cancel for the push that may yet name it.
func (o *owed) remember(pending pendingCancel) {
	if o.late == nil {
		o.late = make(map[string]pendingCancel)
	}
	id := pending.args[0]
	if _, known := o.late[id]; !known {
		if len(o.order) == maxLateCancels {
			delete(o.late, o.order[0])
			o.order = o.order[1:]
		}
		o.order = append(o.order, id)
	}
	o.late[id] = pending
}

// take takes out all cancels, to be sent.
func (o *owed) take() []pendingCancel {
	due := o.cancels
	o.cancels = nil
	return due
}

// putBack puts back what remains of those that were taken, before those that were added
// meanwhile. It reports whether there is nothing left to send.
func (o *owed) putBack(remaining []pendingCancel) (over bool) {
	if o.cancels = append(remaining, o.cancels...); len(o.cancels) > 0 {
		return false
	}
	o.cancels, o.sending = nil, false
	return true
}

// heard returns what is left of a cancel once the node has answered it. If the node had nothing
// to cancel, a request of the attempt may still be on the way.
func (p pendingCancel) heard(answer string) (left pendingCancel, over bool) {
	if answer != "none" {
		p.times--
	}
	return p, p.times <= 0
}
