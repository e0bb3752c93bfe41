// Evict: an operator ends the holds of a lock, or asks the holders to end.

package holdfast

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/renewer"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Eviction names the operator and the reason. The server stores both for others to read.
type Eviction struct {
	By     string // a person or a job; 1 to 128 bytes
	Reason string // 1 to 512 bytes
	// Token, if it is not 0, is the token that a holder must have, as LockInfo shows it. If
	// another client has acquired the lock in the meantime, Evict leaves that client's hold
	// alone.
	Token uint64
	// AtOnce ends the holds in the step of the request, and grants the next waiter there, while the evicted
	// holder may still be at work. It also raises the lock's fence, so a resource that checks tokens refuses
	// that holder's writes.
	AtOnce bool
	// Force removes the lock's record, whatever is in it: also a damaged record, one of a later
	// version, or data of another program at the lock's key. No holder and no waiter remains. A
	// client that waits joins the queue again with its next poll. Tokens keep rising, unless the
	// fence itself is damaged and was ahead of the server's clock. Token must be 0.
	Force bool
	// Job ends the run of the periodic job of that name, and leaves the lock alone. With Force, it
	// removes the job's record: the server then remembers no run of the job, and no schedule.
	Job bool
}

// Evict asks all holders of a lock to end. From then on the server refuses to renew, extend or convert their
// leases. The lock passes on when they have released it, or when their leases have ended on the server, at the latest
// after [Holder.Remaining]. So an eviction lets nobody hold the lock beside an evicted holder. Leases end with the
// cause [LossEvicted]; the release that follows passes the lock on, and [MinHold] does not delay it, but a
// [LockDelay] does.
//
// A holder learns of the eviction by a push. A client subscribes when it waits for a lock, or
// with the first renewal of a hold. Otherwise, in a Cluster, and for a hold of [NoRenewal], the
// holder learns with its next renewal, up to a third of its TTL later, or when its lease ends.
// The leases of this client end at once. With AtOnce or Force, a holder believes that it holds the lock until it
// learns.
//
// All holds are marked or end in one step, during which the server serves nobody else. If there are thousands
// of readers or permits, that takes time: a tenth of a second for 10,000.
//
// Evict means no hold that is granted after the call. It returns how many holds it has asked for, or
// ended. It is 0 if the lock was free, or if no hold had the given Token. With Force it is 1, or 0 if there was no
// record. After an [ErrUnknownOutcome], check the result with [Client.Inspect]. Over a quorum that is also the error
// if too few servers had the holder, and the others did not answer: what they have of it is no majority now.
func (c *Client) Evict(ctx context.Context, name string, e Eviction) (int, error) {
	if err := c.checkReadable(ctx, name); err != nil {
		return 0, err
	}
	switch {
	case strings.TrimSpace(e.By) == "" || strings.TrimSpace(e.Reason) == "":
		return 0, invalid("Eviction.By or Reason is empty: name the operator and the reason")
	case len(e.By) > 128 || len(e.Reason) > 512:
		return 0, invalid("Eviction.By or Reason is too long: the limits are 128 and 512 bytes")
	case e.Force && e.Token != 0:
		return 0, invalid("Eviction has Force and a Token: Force removes the record, whoever holds the lock")
	}
	token := e.Token >> c.handOverBits
	if token == 0 && e.Token != 0 {
		return 0, nil // no hold has so low a token, and the script takes 0 for any
	}
	key := wire.Key(c.cfg.Prefix, name)
	if e.Job {
		key = wire.PeriodicKey(c.cfg.Prefix, name)
	}
	ours, only := c.holdsOf(key, token), wire.Number(token)
	if e.Force {
		only = wire.Force
	}
	once, err := c.evictOnce(ctx, key, token, e.Force)
	if err != nil {
		return 0, wrap("eviction from", name, err)
	}
	if !e.AtOnce && !e.Force {
		once = append(once, wire.Ask)
	}
	a, err := c.askEviction(ctx, key, append([]string{
		wire.Encode(e.By), wire.Encode(e.Reason), only, c.retention,
		wire.ChannelPrefix(c.cfg.Prefix, name, c.sharded),
	}, once...))
	if err != nil {
		return 0, wrap("eviction from", name, err)
	}
	if a.Kind == wire.Evicted {
		// Holds of this process end at once, so that its goroutines ask the server again.
		for _, h := range ours {
			if c.renewer.Remove(&h.Item) {
				h.noteEviction(&EvictionInfo{At: time.Now(), By: e.By, Reason: e.Reason})
				h.markLost(renewer.Evicted)
			}
		}
	}
	return a.Count, nil
}

// mostForced is how often an eviction by force looks at a record that is in use.
const mostForced = 10

// askEviction sends the eviction. By force, the first request removes only a record whose fence cannot be read, and
// the next one that which the first has found. So a late copy of either removes no record that came later.
func (c *Client) askEviction(ctx context.Context, key string, args []string) (wire.Answer, error) {
	for tries := 1; ; tries++ {
		a, err := c.sender.Ask(ctx, script.Evict, []string{key}, args)
		switch {
		case err != nil || args[2] != wire.Force || a.Kind != wire.Changed:
			return a, err
		case tries == mostForced:
			return a, fmt.Errorf("%w: %w: the lock passes on faster than its record can be removed",
				store.ErrNotSent, ErrHeld)
		}
		args = slices.Clone(args)
		args[5], _ = c.newAttemptID("")
		args[6] = wire.Number(a.Token)
	}
}

// holdsOf returns the client's holds of a lock. If token, the server's part, is not 0, it
// returns only those with that token.
func (c *Client) holdsOf(key string, token uint64) (list []*hold) {
	for _, it := range c.renewer.All() {
		h := it.Hold.(*hold)
		if h.lock.key() == key && (token == 0 || h.server.Load() == token) {
			list = append(list, h)
		}
	}
	return list
}

// evictOnce returns the arguments that make copies of an eviction harmless: the ID that the record
// remembers, and the highest token that a hold may have to be ended. Without a token the record is read
// for that. If the script refuses to show the record, that of the eviction says why. By force see askEviction.
func (c *Client) evictOnce(ctx context.Context, key string, token uint64, force bool) ([]string, error) {
	if token == 0 && !force { // what is removed by force need not be readable
		record, err := c.sender.RecordUntil(ctx, []string{key}, func(*wire.Record) bool { return true })
		switch {
		case request.Refusal(err) != nil && !request.MayRunLate(err):
			// The eviction says better why it is refused. A late copy of it ends no hold.
		case err != nil:
			return nil, err
		}
		token = record.Fence
	}
	id, _ := c.newAttemptID("")
	return []string{id, wire.Number(token)}, nil
}
