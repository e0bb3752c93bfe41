// Inspect: the state of one lock or job, as the server knows it.

package holdfast

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// LockInfo is the state of one lock, as the server knows it. The state is that of one moment,
// unless the lock has more than 256 holders and waiters together. The client then reads them in
// several requests, and the server can serve others in between. Each holder and waiter shown
// was there at some time during the reading. All that were there the whole time are shown.
type LockInfo struct {
	Name         string
	Fence        uint64        // the highest fencing token in the record; 0 if there is none
	Limit        int           // the permits of a semaphore, by the last client that named them; 0 if none did
	Drained      bool          // the limit was set to 0: nobody gets a permit
	Holders      []Holder      // empty: the lock is free
	Waiting      int           // how many wait, with those that have lost their position since
	Waiters      []Waiter      // in order of arrival; empty in an answer of [Client.Holders]
	Leader       *Leader       // the holder, if it has proclaimed a value in an election; else nil
	LastEviction *EvictionInfo // nil if the record has none
	Job          *JobInfo      // not nil in an answer of List: the record is that of a periodic job
}

// Held reports whether the lock is held.
func (info LockInfo) Held() bool { return len(info.Holders) > 0 }

// JobInfo is the state of one periodic job at one moment, as the server knows it. If the period of its
// Schedule is 0, the server does not know the job: it forgets a job that has not run for two periods and
// [Config.Retention].
type JobInfo struct {
	Name     string
	Schedule Schedule
	Next     time.Time     // when the next period begins, by the server's clock
	Due      time.Duration // until then; 0 if it is due
	HolderID string        // the attempt that runs, or ran, in the present period; empty if unknown
	Run      *Holder       // the run under way, which may be of an earlier period; nil if there is none

	Fence        uint64        // the highest fencing token in the record; 0 if there is none
	LastEviction *EvictionInfo // nil if the record has none

	// With [DoneOnSuccess]: the runs of the present period, if none has succeeded, and how many there may be.
	Runs, Tries int
}

// Holder is one holder of a lock.
type Holder struct {
	Mode      string            // "exclusive", "shared" or "permits"
	HolderID  string            // the attempt that has the lock; of a named owner, its first live entry
	Owner     string            // the owner's name, see [Owner]; empty without that option
	ClientID  string            // the client's ID
	Client    *ClientInfo       // nil if the client has not registered
	Tags      map[string]string // see [Tags]; nil if the server shows none
	Permits   int               // permits of a semaphore; 1 for other kinds
	Entries   int               // how many entries a named owner has
	Token     uint64
	Since     time.Time // by the server's clock
	Age       time.Duration
	Remaining time.Duration // until the lease ends if it is not renewed
	LockDelay time.Duration // the end of Remaining, in which its client trusts the lease no more, see [LockDelay]
	WaitsFor  []WaitInfo    // of code that holds this lease, see [BreakDeadlock]
	Released  bool          // released, but the lock stays held for Remaining, see MinHold
	Ending    bool          // an operator has asked for its end, see [Client.Evict]; Remaining gets no longer
}

// Waiter is one waiter in the wait queue of a lock.
type Waiter struct {
	Position int
	Mode     string
	HolderID string // the attempt that waits
	Owner    string // the owner's name, see [Owner]; empty without that option
	ClientID string
	Client   *ClientInfo
	Tags     map[string]string // see [Tags]; nil if the server shows none
	Permits  int               // those that it asks for; 1 for other kinds
	Since    time.Time         // by the server's clock
	Waited   time.Duration
	Silent   bool // it has not polled for so long that its position has ended; the next request removes it

	until int64 // when its position ends, in ms of the server's clock; each poll moves it
}

// EvictionInfo says when an operator evicted the holders of a lock, with the operator's
// name and reason.
type EvictionInfo struct {
	At         time.Time // by the server's clock
	By, Reason string
}

// ClientInfo is what a client reported about itself. It is for people, and nothing verifies
// it.
type ClientInfo struct {
	App, Host string
	PID       int
	Version   string
	Started   time.Time // by the client's clock
}

func (i ClientInfo) String() string { return fmt.Sprintf("%s@%s:%d", i.App, i.Host, i.PID) }

// Key returns the key of a lock's record on the server, for commands such as MEMORY USAGE and CLUSTER KEYSLOT.
// prefix is Config.Prefix. The record of the periodic job of that name has ":periodic" behind this key. If
// no lock can have the name or the prefix, the error is an [ErrInvalid].
func Key(prefix, name string) (string, error) {
	if err := cmp.Or(wire.CheckPrefix(prefix), wire.CheckName(name)); err != nil {
		return "", invalid("%v", err)
	}
	return wire.Key(prefix, name), nil
}

// Inspect reads the state of a lock and changes nothing. The answer may be out of date when
// it arrives, so do not use it to decide whether to work.
//
// Over a quorum, a majority of the servers must answer. Holders are those that a majority has. If there is none, but
// one of the servers that answered has a holder, which the others may have as well, the error says so: the lock may be
// free or held. If Inspect says that the lock is free, the servers that did not answer could give nobody a majority.
func (c *Client) Inspect(ctx context.Context, name string) (LockInfo, error) {
	if err := c.checkReadable(ctx, name); err != nil {
		return LockInfo{Name: name}, err
	}
	return c.readLock(ctx, name, newRegistrations(allNames))
}

// Holders is [Client.Inspect] without the waiters: LockInfo.Waiting counts them. So an answer costs two
// or three requests for an exclusive holder, however many wait.
func (c *Client) Holders(ctx context.Context, name string) (LockInfo, error) {
	if err := c.checkReadable(ctx, name); err != nil {
		return LockInfo{Name: name}, err
	}
	return c.readLock(ctx, name, newRegistrations(0), wire.HoldersOnly)
}

// readLock reads a lock, or no more of it than mode wants, see [wire.ReadRecord].
func (c *Client) readLock(
	ctx context.Context, name string, known *registrations, mode ...string,
) (LockInfo, error) {
	info := LockInfo{Name: name}
	r, err := c.sender.Record(ctx, []string{wire.Key(c.cfg.Prefix, name)}, mode...)
	if err != nil {
		return info, wrap("inspecting", name, err)
	}
	if len(r.Silent) > 0 && len(r.Holders) == 0 {
		return info, wrap("inspecting", name, &wire.UnprovenError{Silent: r.Silent})
	}
	if len(mode) > 0 {
		r.Waiters = nil // a quorum has read them to count them
	}
	said := known.of(ctx, c, &r)
	info.Fence, info.Limit, info.Drained = r.Fence<<c.handOverBits, r.Limit, r.Drained
	info.Waiting = r.Waiting
	info.Holders = c.holdersOf(name, &r, said)
	if r.Leader != nil && len(info.Holders) > 0 {
		h := info.Holders[0]
		info.Leader = &Leader{
			Value: *r.Leader, Token: h.Token, HolderID: h.HolderID, ClientID: h.ClientID, Client: h.Client,
			Since: h.Since, Remaining: h.Remaining,
		}
	}
	for _, w := range r.Waiters {
		info.Waiters = append(info.Waiters, Waiter{
			Position: w.Place, Mode: modes[w.Mode], HolderID: holderID(w.Attempt), Owner: w.Owner,
			ClientID: wire.Client(holderID(w.Attempt)), Client: said.client(w.Attempt), Tags: said.tags(w.Attempt),
			Permits: w.Weight, Since: w.Joined, Waited: r.Now.Sub(w.Joined),
			Silent: w.Left <= 0, until: r.Now.Add(w.Left).UnixMilli(),
		})
	}
	info.LastEviction = lastEviction(&r)
	return info, nil
}

func lastEviction(r *wire.Record) *EvictionInfo {
	if e := r.Evicted; e != nil {
		return &EvictionInfo{At: e.At, By: e.By, Reason: e.Reason}
	}
	return nil
}

// InspectJob reads the state of a periodic job and changes nothing. A job and a lock of the
// same name are separate, see [Periodic].
func (c *Client) InspectJob(ctx context.Context, name string) (JobInfo, error) {
	if err := c.checkReadable(ctx, name); err != nil {
		return JobInfo{Name: name}, err
	}
	return c.readJob(ctx, name, newRegistrations(allNames))
}

func (c *Client) readJob(ctx context.Context, name string, known *registrations) (JobInfo, error) {
	j := JobInfo{Name: name}
	r, err := c.sender.Record(ctx, []string{wire.PeriodicKey(c.cfg.Prefix, name)})
	if err != nil {
		return j, wrap("inspecting job", name, err)
	}
	if r.Job != nil {
		p := r.Job.Plan
		j.Schedule = Schedule{Period: p.Period, Aligned: p.Aligned, Offset: p.Offset}
		j.Next, j.Due, j.HolderID = r.Job.Next, max(r.Job.Next.Sub(r.Now), 0), r.Job.Attempt
	}
	holders := c.holdersOf(name, &r, known.of(ctx, c, &r))
	j.Fence, j.LastEviction = r.Fence<<c.handOverBits, lastEviction(&r)
	if r.Job != nil {
		j.Runs, j.Tries = r.Job.Runs, r.Job.Tries
	}
	switch {
	case len(holders) > 0:
		j.Run = &holders[0]
	case j.Runs < j.Tries && j.Due > 0: // the last run has failed
		j.Next, j.Due = r.Now, 0
	}
	return j, nil
}

// holdersOf returns the holders in the record of that name.
func (c *Client) holdersOf(name string, r *wire.Record, said reports) (list []Holder) {
	for _, h := range r.Holders {
		list = append(list, Holder{
			Mode: modes[h.Mode], HolderID: holderID(h.Attempt), ClientID: wire.Client(holderID(h.Attempt)),
			Owner: h.Owner, Client: said.client(h.Attempt), Tags: said.tags(h.Attempt), Permits: h.Weight,
			Entries: h.Entries, WaitsFor: said.waits(name, h.Attempt), Token: h.Token << c.handOverBits, Since: h.Since,
			Age: r.Now.Sub(h.Since), Remaining: h.Left, LockDelay: wire.Delay(h.Attempt),
			Released: h.Kept, Ending: h.Ending,
		})
	}
	return list
}

func ownerName(owner, attempt string) string {
	if owner != "" {
		return owner
	}
	return holderID(attempt)
}

// holderID is the ID of a holder or a waiter in a record. On the wire of another library that may be any text, which
// the record has as one word. In an attempt of this library nothing is encoded.
func holderID(attempt string) string { return wire.Decode(attempt) }

func (c *Client) checkReadable(ctx context.Context, name string) error {
	if err := checkNamed(ctx, name); err != nil {
		return err
	}
	return c.checkServer(ctx, "inspecting", name)
}

func checkNamed(ctx context.Context, name string) error {
	if ctx == nil {
		return errNoContext
	}
	if err := wire.CheckName(name); err != nil {
		return invalid("%v", err)
	}
	return nil
}

// checkServer refuses if nothing can be asked: a closed client, a context that has ended, or a
// server that cannot serve locks.
func (c *Client) checkServer(ctx context.Context, what, name string) error {
	if c.life.IsClosing() {
		return ErrClosed
	}
	if err := alreadyOver(ctx, what, name); err != nil {
		return err
	}
	if err := c.preflight.Server(ctx); err != nil {
		return wrap(what, name, err)
	}
	return nil
}
