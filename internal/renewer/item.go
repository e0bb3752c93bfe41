package renewer

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/leasetime"
)

// Hold is the hold of a lease.
type Hold interface {
	// Group returns the group of the lock. Leases of one group may share a request.
	Group() string
}

// Item is one lease that the renewer has. The caller sets the exported fields before it adds
// the item, and does not change them afterwards. A client may have a hundred thousand items,
// so the fields are in the order that needs no padding, and what few leases need is elsewhere.
type Item struct {
	Hold   Hold
	TTL    time.Duration // what each renewal asks for; after Add for the renewer only, see Renewer.TTL
	Limits *Limits       // nil: none

	trust atomic.Int64  // the trust deadline; next <= trust while the renewer has the item
	due   time.Duration // when the renewal is due
	next  time.Duration // the next instant at which something must happen

	index       int32 // index in the heap; -1 when the renewer does not have the item
	NoRenewal   bool  // not renewed: only its end is watched; after Add for the renewer only
	step        step
	unconfirmed bool // pushed, and not confirmed yet
	shortened   bool // TTL is the longest from now on, see Renewer.Shorten
}

// step says how far the next renewal is.
type step uint8

const (
	idle     step = iota // not due
	waiting              // due, and waiting for room at a late server
	underWay             // sent
)

// Limits are the limits of one lease.
type Limits struct {
	NotAfter    time.Duration // neither renewed nor trusted after this instant; 0: no limit
	MaxRenewals int32         // how often it may be renewed; 0: no limit
	renewals    int32         // how often it was renewed
	spent       atomic.Bool   // the deadline comes from a limit: no renewal follows
}

// reached reports whether no renewal follows because of a limit.
func (it *Item) reached() bool { return it.Limits != nil && it.Limits.spent.Load() }

// noteDeadline decides whether a renewal follows a deadline.
func (l *Limits) noteDeadline(d time.Duration) {
	if l != nil {
		l.spent.Store(l.NotAfter != 0 && d == l.NotAfter || l.MaxRenewals != 0 && l.renewals >= l.MaxRenewals)
	}
}

// Asked is a lease in a request, and the TTL for which the request asks. The item's own TTL may
// change meanwhile.
type Asked struct {
	*Item
	For time.Duration
}

// Deadline is the trust deadline of the lease.
func (it *Item) Deadline() time.Duration { return time.Duration(it.trust.Load()) }

// noRenewalFollows reports whether no renewal follows. The confirmation of a pushed grant is not a
// renewal, so no limit applies to it.
func (it *Item) noRenewalFollows() bool { return (it.NoRenewal || it.reached()) && !it.unconfirmed }

// retryAt is when to try again after a renewal that failed at now. The lease of a pushed
// grant may be much shorter than the TTL for which its renewals ask.
func (it *Item) retryAt(now time.Duration) time.Duration {
	if it.unconfirmed {
		return leasetime.RetryAt(now, it.Deadline()-now)
	}
	return leasetime.RetryAt(now, it.TTL)
}

// EndReason is the reason for which the lease is lost when its deadline passes.
func (it *Item) EndReason() Reason {
	if it.reached() {
		return Limit
	}
	return Expired
}

// TTLFor is the TTL for which a renewal at now asks. Near the limit it is just long enough
// for the lease to be trusted until the limit. So the lock is free soon after the limit, and
// never before.
func (it *Item) TTLFor(now, ttl time.Duration) time.Duration {
	if it.Limits == nil || it.Limits.NotAfter == 0 {
		return ttl
	}
	return min(ttl, leasetime.TTLFor(max(it.Limits.NotAfter-now, 0)))
}

// queue orders leases by the next instant at which something must happen.
type queue []*Item

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].next < q[j].next }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = int32(i), int32(j) // memory ends long before int32 overflows
}

func (q *queue) Push(x any) {
	it := x.(*Item)
	it.index = int32(len(*q)) // as in Swap
	*q = append(*q, it)
}

func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q, last.index = slices.Delete(*q, len(*q)-1, len(*q)), -1
	return last
}
