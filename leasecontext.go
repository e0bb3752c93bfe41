package holdfast

import "context"

// leaseContext is what a user's code sees of a lease: the values of the context that
// the lock was taken with, and an end in time. Timers are late on a busy machine, and
// after a suspension: whoever looks past the trust deadline ends the lease by that, and
// does not wait for the renewer's.
type leaseContext struct {
	context.Context     // ends with the lease
	own             any // the innermost lease that what runs under it belongs to
	lease           interface{ overdue() }
}

// Value adds the lease to the values that a context carries.
func (c *leaseContext) Value(key any) any {
	if key == (tenureKey{}) {
		return c.own
	}
	return c.Context.Value(key)
}

// Done is closed on return if the lease is over.
func (c *leaseContext) Done() <-chan struct{} {
	c.lease.overdue()
	return c.Context.Done()
}

// Err is not nil if the lease is over.
func (c *leaseContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	c.lease.overdue()
	return c.Context.Err()
}

// overdue ends the lease for its user if its trust deadline has passed. The renewer's
// timer, which has not run yet, does the rest: it tells, and lets the next goroutine
// of the process ask the server.
func (t *tenure) overdue() {
	h := t.hold
	if h.Deadline() > h.spec.client.now() {
		return
	}
	t.mu.Lock()
	ended := t.cause != nil
	t.mu.Unlock()
	if ended || !h.spec.client.renewer.Expire(&h.Item) {
		return
	}
	lost := h.lostFor(h.EndReason())
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.endWith(lost) {
		t.early = true
	}
}

// together are the leases of several locks that end as one.
type together []*Lease

// overdue ends the lease if the trust deadline of one of the locks has passed.
func (all together) overdue() {
	for _, part := range all {
		_ = part.Err()
	}
}
