// Leases of other processes: extended and released by their IDs.

package holdfast

import (
	"context"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/mark"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/timelimit"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// ExtendLease makes a lease that another process has acquired last for ttl from now. It never shortens a
// lease. Use it for a job that begins in one process and ends in another: the first acquires the lock with
// [NoRenewal], passes on what [LeaseOf] returns, and calls [Client.Abandon] in place of [Client.Close].
//
// Nothing renews the lease, and no context ends with it: the work must end before Remaining of the result is
// over. Remaining is the time until the trust deadline of this extension, which this process counts from its own
// request. The server may keep the lease for longer. ttl has the limits of [TTL].
//
// If the error is an [ErrNotHeld], the lease has ended; errors.As finds a [LostError]. After any other error, the
// lease lasts at least as long as before. l is not the lease of a periodic job. A quorum refuses the call, also one
// on redsync's keys: only the process that acquired a lease knows its ID on the servers.
func (c *Client) ExtendLease(ctx context.Context, l LeaseInfo, ttl time.Duration) (LeaseInfo, error) {
	const what = "extending"
	lk, err := c.lockOfLease(ctx, what, l)
	if err != nil {
		return LeaseInfo{}, err
	}
	switch err := checkTTL(ttl); {
	case err != nil:
		return LeaseInfo{}, invalid("%v", err)
	case lk.tooLong(ttl) != nil:
		return LeaseInfo{}, lk.tooLong(ttl)
	}
	sent := c.now()
	r, _, err := c.sender.Renew(mark.Awaited(ctx), c.sender.Timeout, request.Acks{}, []request.Renewal{
		{Key: lk.key(), Attempt: l.HolderID, Owner: lk.owner, TTL: lk.onServer(ttl)},
	})
	switch {
	case err != nil:
		return LeaseInfo{}, wrap(what, l.Name, err)
	case r[0].Evicted:
		return LeaseInfo{}, notHeld(l, LossEvicted)
	case !r[0].Held:
		return LeaseInfo{}, notHeld(l, LossNotHeld)
	}
	c.sender.KeepClient(ctx, wire.Client(l.HolderID), lk.onServer(ttl))
	l.Remaining = max(leasetime.Deadline(sent, ttl)-c.now(), 0)
	return l, nil
}

// ReleaseLease releases a lease that another process has acquired, see [Client.ExtendLease]. The next waiter gets
// the lock in the same step. That process must not renew the lease: it would not learn of the release before its
// next renewal. [MinHold] does not delay the release. If others hold the lock under the same owner name, it stays
// held until the last of them has released it.
//
// A second call returns nil, too, as does a call for a lease that has expired if nobody had the lock since. With a
// [LockDelay], a call that comes after Remaining is over frees the lock no earlier than the lock-delay ends. If the
// error is an [ErrNotHeld], the lease had ended, and the work under it may have overlapped with another holder's.
// After any other error the lease ends by itself, when its TTL is over at the latest; the call may be repeated.
// Like [Lease.Release], it sends its request even if ctx has ended.
func (c *Client) ReleaseLease(ctx context.Context, l LeaseInfo) error {
	if ctx == nil {
		return errNoContext
	}
	ctx = timelimit.Lasting(ctx)
	lk, err := c.lockOfLease(ctx, releaseText, l)
	if err != nil {
		return err
	}
	if lk.delay > 0 {
		late, err := c.isLate(ctx, lk, l)
		switch {
		case err != nil:
			return wrap(releaseText, l.Name, err)
		case late:
			return nil // it ends with its lock-delay
		}
	}
	args := lk.owned([]string{l.HolderID, wire.Number(l.Token >> c.handOverBits), c.retention, lk.channelPrefix})
	a, err := c.sender.AskResend(ctx, &request.Buffer{End: c.now() + c.sender.Timeout}, script.Release, lk.keys(), args)
	switch {
	case err != nil:
		return wrap(releaseText, l.Name, err)
	case a.Kind == wire.Released, a.Kind == wire.Held: // Held: others of the same owner
		return nil
	case a.Kind == wire.Gone:
		return notHeld(l, LossNotHeld)
	}
	return wrap(releaseText, l.Name, wire.OtherAnswer("release"))
}

// isLate reports whether the lock-delay of the lease has begun: nobody trusts the lease any more.
func (c *Client) isLate(ctx context.Context, lk *lock, l LeaseInfo) (bool, error) {
	onePage := func(*wire.Record) bool { return true } // it has the exclusive holder
	r, err := c.sender.RecordUntil(ctx, lk.keys(), onePage)
	for _, h := range r.Holders {
		if lk.owner == "" && h.Attempt == l.HolderID || lk.owner != "" && h.Owner == l.Owner {
			return !h.Kept && h.Left <= lk.delay, err
		}
	}
	return false, err
}

// lockOfLease is the lock of a lease of another process. It refuses what is no such lease.
func (c *Client) lockOfLease(ctx context.Context, what string, l LeaseInfo) (*lock, error) {
	if ctx == nil {
		return nil, errNoContext
	}
	chosen := lockOptions{want: wire.Exclusive, ttl: c.cfg.TTL, delay: wire.Delay(l.HolderID)}
	if l.Owner != "" {
		chosen.owner = wire.Owner(l.Owner)
	}
	lk := newLock(c, l.Name, chosen, nil)
	switch client, number, _ := strings.Cut(l.HolderID, "/"); {
	case lk.err != nil:
		return nil, lk.err
	case client == "" || number == "" || strings.ContainsAny(l.HolderID, " \n"):
		return nil, invalid("%q is not a holder ID: use the one that LeaseOf or Lease.HolderID returned", l.HolderID)
	}
	if err := c.checkServer(ctx, what, l.Name); err != nil {
		return nil, err
	}
	if c.preflight.IsQuorum() {
		return nil, invalid("a lease on a quorum belongs to the process that acquired it: " +
			"only that process knows the lease's ID on the servers")
	}
	return &lk, nil
}

func notHeld(l LeaseInfo, reason LossReason) error {
	return errorf("%w: %w", ErrNotHeld, &LostError{Name: l.Name, Reason: reason})
}
