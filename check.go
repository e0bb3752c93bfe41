// Check: is a lease with this token live at the server now?

package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// Check asks the server whether a lease of the lock with this token is live now. It is for a service that is sent a
// token with a request, and cannot keep the highest one it has seen. A service that can keep it should: see the
// package fence. Check looks at one moment, and a lease may end right after it. The token of a holder that was
// paused past its lease is refused as soon as the lease is over, whether or not anybody has acquired the lock since.
//
// If Check returns nil, there was a moment between the call and its return, by the server's time, at which the
// lease was live. If no lease has the token, the error is a [*NotHeldError], which is an [ErrNotHeld]. After any
// other error nothing is known: do not serve the request.
//
// What counts as live: a lease that its client does not believe any more, for the last moments before the server
// frees the lock; a grant whose push its client has not confirmed yet, because only a client that heard of the grant
// knows its token; a lease that [Client.Evict] has asked to end, until it is released; a lost lease until its
// [LockDelay] is over, because nobody else has the lock by then; a reader's or a semaphore's lease after
// [Lease.ReleaseAfter], until it ends there. An exclusive lock that is kept after its release has no live lease, see
// [NotHeldError].
//
// Leases that share a hold (entries of an owner, re-entries, readers of one process) share its token, and it is live
// as long as one of them. Of several locks, check each lock's own token. Use [Client.CheckJob] for a
// [Periodic]. A lock whose leases may be handed over inside a process needs the option [Checked]: without it the server
// does not know which of the leases is the present one. While such a lock is held, the tokens of that hold are an
// [ErrInvalid].
//
// Check sends one request to the primary; a replica refuses it. Calls that come together share requests. It changes
// nothing. A lock with more than 256 shared holders costs more requests. Over a quorum a majority must have the
// lease. On the wire of another library Check is refused.
func (c *Client) Check(ctx context.Context, name string, token uint64) error {
	return c.check(ctx, wire.Key, name, token)
}

// CheckJob is [Client.Check] for the run of a periodic job, with the token of the run's lease. A job and a lock of the
// same name are separate, see [Periodic].
func (c *Client) CheckJob(ctx context.Context, name string, token uint64) error {
	return c.check(ctx, wire.PeriodicKey, name, token)
}

func (c *Client) check(ctx context.Context, key func(prefix, name string) string, name string, token uint64) error {
	if err := checkNamed(ctx, name); err != nil {
		return err
	}
	const what = "checking"
	server := token >> c.handOverBits
	if server == 0 && c.handOverBits > 0 { // else the store refuses all tokens
		return noToken(name, token)
	}
	if err := c.checkServer(ctx, what, name); err != nil {
		return err
	}
	found, err := c.sender.Check(ctx, key(c.cfg.Prefix, name), server)
	switch {
	case err != nil:
		return wrap(what, name, err)
	case found.Live && server<<c.handOverBits == token:
		return nil
	case found.Live:
		return noToken(name, token)
	case found.Unknown:
		return invalid("%s %q: the server cannot tell whether the lease with the token %d is live: %w",
			what, name, token, uncheckedError{})
	}
	e := &NotHeldError{Name: name, Token: token, Kept: found.Holder == wire.KeptHolder}
	if found.Held && !e.Kept {
		e.Now, e.HeldBy = found.Token<<c.handOverBits, wire.Decode(found.Holder)
	}
	return e
}

func noToken(name string, token uint64) error {
	return invalid("checking %q: the token %d is of no lease: pass what Lease.Token returns", name, token)
}

// uncheckedError: the goroutines of a process hand the lock over among themselves, and the server has one token for
// all of them.
type uncheckedError struct{}

func (uncheckedError) Error() string { return "its lock was acquired without the option Checked" }

func (uncheckedError) Hint() string {
	return "in the program that holds the lock, make the lock with the option holdfast.Checked, " +
		"and check the tokens of its next leases"
}
