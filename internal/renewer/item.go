package renewer

import (
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/leasetime"
)

// Hold is whose lease it is.
type Hold interface {
	// Group is shared by leases that may share a request.
	Group() string
}

// Item is one lease in care. The exported fields are set before it is added
// and then left alone. There may be a hundred thousand: their order is the one
// that leaves no gaps.
type Item struct {
	Hold     Hold
	TTL      time.Duration // what each renewal asks for; after Add for the renewer only, see Renewer.TTL
	Asking   time.Duration // what the renewal under way asks for; left alone while it is
	NotAfter time.Duration // not renewed, nor trusted, past this instant; 0: without a limit

	trust atomic.Int64  // the deadline; next <= trust while in care
	due   time.Duration // when the renewal is due
	next  time.Duration // the next instant at which something must happen

	Renewals    int32       // how often it is renewed; 0: without a limit
	renewals    int32       // how often it was
	index       int32       // place in the queue; -1 when not in care
	spent       atomic.Bool // the deadline is the limit's: no renewal follows
	NoRenewal   bool        // not renewed: only its end is watched; after Add for the renewer only
	busy        bool        // a renewal is under way
	unconfirmed bool        // pushed, and not confirmed yet
	over        bool        // somebody has seen that it is lost
}

// Deadline is the instant after which the lease must not be believed.
func (l *Item) Deadline() time.Duration { return time.Duration(l.trust.Load()) }

// extend counts ttl from sent. A deadline never moves back: an answer that
// overtook another says nothing against the later one. Nor does the next
// renewal, or a lease extended to a shorter ttl would be due all the time.
func (l *Item) extend(sent, ttl time.Duration) {
	if l.over {
		l.next = l.Deadline()
		return
	}
	d := leasetime.Deadline(sent, ttl)
	if l.NotAfter != 0 {
		d = min(d, l.NotAfter)
	}
	d = max(d, l.Deadline())
	l.trust.Store(int64(d))
	l.spent.Store(l.NotAfter != 0 && d == l.NotAfter || l.Renewals != 0 && l.renewals >= l.Renewals)
	l.due = max(l.due, leasetime.RenewAt(sent, ttl))
	l.next = min(l.due, d)
	if l.last() || l.busy {
		l.next = d
	}
}

// last reports that no renewal follows. To confirm a pushed grant is not to
// renew it: no limit is about that.
func (l *Item) last() bool { return (l.NoRenewal || l.spent.Load()) && !l.unconfirmed }

// retryAt is when to try again after a renewal failed at now. The lease of a pushed
// grant may be much shorter than what its renewals ask for.
func (l *Item) retryAt(now time.Duration) time.Duration {
	if l.unconfirmed {
		return leasetime.RetryAt(now, l.Deadline()-now)
	}
	return leasetime.RetryAt(now, l.TTL)
}

// EndReason is the reason for which the lease is lost when its deadline passes.
func (l *Item) EndReason() Reason {
	if l.spent.Load() {
		return Limit
	}
	return Expired
}

// TTLFor is what to ask the server for at now instead of ttl: not more than
// what it takes to be trusted until the limit, so that the server lets another
// in soon after, and never before.
func (l *Item) TTLFor(now, ttl time.Duration) time.Duration {
	if l.NotAfter == 0 {
		return ttl
	}
	return min(ttl, leasetime.TTLFor(max(l.NotAfter-now, 0)))
}

// queue orders leases by the next instant at which something must happen.
type queue []*Item

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].next < q[j].next }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = int32(i), int32(j) // not that many fit into memory
}

func (q *queue) Push(x any) {
	l := x.(*Item)
	l.index = int32(len(*q)) // not that many fit into memory
	*q = append(*q, l)
}

func (q *queue) Pop() any {
	old := *q
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	l.index = -1
	return l
}
