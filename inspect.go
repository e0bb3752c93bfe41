// LockInfo, and what an operator does: Inspect and Evict.

package holdfast

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/renewer"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// LockInfo is one lock at one moment, as the server knows it.
type LockInfo struct {
	Name         string
	Fence        uint64        // the last fencing token of the server; 0 if nothing is known
	Limit        int           // permits that there are, by the last one who said it; 0 if nobody did
	Holders      []Holder      // empty: the lock is free
	Waiters      []Waiter      // in order
	LastEviction *EvictionInfo // the last eviction, nil if none is remembered
}

// Held reports whether anybody holds the lock.
func (s LockInfo) Held() bool { return len(s.Holders) > 0 }

// Holder is one who holds a lock.
type Holder struct {
	Mode      string      // "exclusive", "shared" or "permits"
	HolderID  string      // the attempt that the lock was granted to; of a named owner the first that is in
	Owner     string      // the name that the holder gave, see [Owner]; empty if it gave none
	ClientID  string      // the client's ID
	Client    *ClientInfo // nil if the client did not make itself known
	Permits   int         // permits held; 1 otherwise
	Entries   int         // how often a named owner has entered
	Token     uint64
	Since     time.Time // by the server's clock
	Age       time.Duration
	Remaining time.Duration // until the lease ends unless renewed
	Released  bool          // given up, but the lock stays taken for Remaining, see MinHold
}

// Waiter is one who waits for a lock.
type Waiter struct {
	Position int
	Mode     string
	HolderID string // the attempt that waits
	Owner    string // the name that it gave, see [Owner]; empty if it gave none
	ClientID string
	Client   *ClientInfo
	Waited   time.Duration
}

// EvictionInfo says who took a lock away from its holder, and why.
type EvictionInfo struct {
	At         time.Time // by the server's clock
	By, Reason string
}

// ClientInfo is what a client says of itself. Nothing checks it: it is for people.
type ClientInfo struct {
	App, Host string
	PID       int
	Version   string
	Started   time.Time // by the client's clock
}

func (i ClientInfo) String() string { return fmt.Sprintf("%s@%s:%d", i.App, i.Host, i.PID) }

var modes = map[string]string{"x": "exclusive", "s": "shared", "p": "permits"}

// Inspect reads a lock, changing nothing. What it says may be over when it
// arrives: never decide by it whether to work.
func (c *Client) Inspect(ctx context.Context, name string) (LockInfo, error) {
	s := LockInfo{Name: name}
	if err := checkReadable(ctx, c, name); err != nil {
		return s, err
	}
	r, err := c.sender.Record(ctx, []string{wire.Key(c.cfg.Prefix, name)})
	if err != nil {
		return s, wrap("inspection of", name, err)
	}
	s.Fence, s.Limit = r.Fence<<10, r.Limit
	known := make(map[string]*ClientInfo)
	for _, h := range r.Holders {
		s.Holders = append(s.Holders, Holder{
			Mode: modes[h.Mode], HolderID: h.Attempt, Owner: h.Owner, ClientID: wire.Client(h.Attempt),
			Client: readClient(ctx, c, known, h.Attempt), Permits: h.Weight, Entries: h.Entries, Token: h.Token << 10,
			Since: h.Since, Age: r.Now.Sub(h.Since), Remaining: h.Left, Released: h.Kept,
		})
	}
	for _, w := range r.Waiters {
		s.Waiters = append(s.Waiters, Waiter{
			Position: w.Place, Mode: modes[w.Mode], HolderID: w.Attempt, Owner: w.Owner,
			ClientID: wire.Client(w.Attempt), Client: readClient(ctx, c, known, w.Attempt), Waited: r.Now.Sub(w.Joined),
		})
	}
	if e := r.Evicted; e != nil {
		s.LastEviction = &EvictionInfo{At: e.At, By: e.By, Reason: e.Reason}
	}
	return s, nil
}

func ownerName(owner, attempt string) string {
	if owner != "" {
		return owner
	}
	return attempt
}

// readClient asks for the client behind an attempt, once for each; a client that
// cannot be named is nil: a state without names is better than none.
func readClient(ctx context.Context, c *Client, known map[string]*ClientInfo, attempt string) *ClientInfo {
	id := wire.Client(attempt)
	if info, asked := known[id]; asked {
		return info
	}
	known[id] = nil
	answer, err := c.sender.Run(ctx, script.ReadClient, []string{wire.ClientKey(c.cfg.Prefix, id)}, nil)
	if err != nil {
		return nil
	}
	if line, ok, err := wire.ParseClient(answer); err == nil && ok {
		known[id] = &ClientInfo{
			App: line.App, Host: line.Host, PID: line.PID, Version: line.Version, Started: line.Started,
		}
	}
	return known[id]
}

// Eviction says who takes a lock away and why; both are kept for others to read.
type Eviction struct {
	By     string // a person or a job; at most 128 bytes
	Reason string // at most 512 bytes
	// Token, if not 0, is the token that a holder must have, as LockInfo shows
	// it: then nobody is evicted who took the lock meanwhile.
	Token uint64
}

// Evict takes the lock away from whoever holds it, and raises its fence, so
// that a resource which checks tokens refuses the evicted holder's writes. The
// holder learns of it with its next renewal, up to a third of its TTL later
// (leases of this client at once): until then it believes that it holds the lock. The next in line is granted
// at once.
//
// It answers how many holds ended: 0 if the lock was free, or if Token was
// given and nobody has it any more. After an [ErrUnknownOutcome], look with
// [Client.Inspect].
func (c *Client) Evict(ctx context.Context, name string, e Eviction) (int, error) {
	if err := checkReadable(ctx, c, name); err != nil {
		return 0, err
	}
	switch {
	case e.By == "" || e.Reason == "":
		return 0, invalid("Eviction.By and Reason must say who evicts and why")
	case len(e.By) > 128 || len(e.Reason) > 512:
		return 0, invalid("Eviction.By may have 128 bytes and Reason 512")
	}
	key := wire.Key(c.cfg.Prefix, name)
	ours := holdsOf(c, key, e.Token)
	a, err := c.sender.Ask(ctx, script.Evict, []string{key}, []string{
		wire.Encode(e.By), wire.Encode(e.Reason), wire.Number(e.Token >> 10), c.retention,
		wire.Base(c.cfg.Prefix, name, c.sharded),
	})
	if err != nil {
		return 0, wrap("eviction from", name, err)
	}
	if a.Kind == wire.Evicted {
		// Holds of this process are over at once, so that its goroutines ask the
		// server like everybody else.
		for _, h := range ours {
			if c.renewer.Remove(&h.Item) {
				h.noteEviction(&EvictionInfo{At: time.Now(), By: e.By, Reason: e.Reason})
				h.markLost(renewer.Evicted)
			}
		}
	}
	return a.Count, nil
}

// holdsOf are the holds of a lock that are in care: those with that token, if it is not 0.
func holdsOf(c *Client, key string, token uint64) (list []*hold) {
	for _, l := range c.renewer.All() {
		h := l.Hold.(*hold)
		if h.lock.key() == key && (token>>10 == 0 || h.server.Load() == token>>10) {
			list = append(list, h)
		}
	}
	return list
}

func checkReadable(ctx context.Context, c *Client, name string) error {
	switch err := wire.CheckName(name); {
	case ctx == nil:
		return errNoContext
	case err != nil:
		return invalid("%v", err)
	case c.life.IsClosing():
		return ErrClosed
	}
	if err := c.preflight.Server(ctx); err != nil {
		return wrap("inspection of", name, err)
	}
	return nil
}
