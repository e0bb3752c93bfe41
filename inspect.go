// LockInfo, JobInfo and LeaseInfo, and what an operator does: Inspect, List and Evict.

package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/renewer"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/scan"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// LockInfo is the state of one lock, as the server knows it. The state is that of one moment,
// unless the lock has more than 256 holders and waiters together. The client then reads them in
// several requests, and the server can serve others in between. Each holder and waiter shown
// was there at some time during the reading. All that were there the whole time are shown.
type LockInfo struct {
	Name         string
	Fence        uint64        // the highest fencing token in the record; 0 if there is none
	Limit        int           // the permits of a semaphore, by the last client that named them; 0 if none did
	Holders      []Holder      // empty: the lock is free
	Waiting      int           // how many wait, with those that have lost their position since
	Waiters      []Waiter      // in order of arrival; empty with [HoldersOnly]
	Leader       *Leader       // the holder, if it has proclaimed a value in an election; else nil
	LastEviction *EvictionInfo // nil if the record has none
	Job          *JobInfo      // not nil in an answer of List: the record is that of a periodic job
}

// Held reports whether the lock is held.
func (info LockInfo) Held() bool { return len(info.Holders) > 0 }

// JobInfo is the state of one periodic job at one moment, as the server knows it.
type JobInfo struct {
	Name     string
	Schedule Schedule
	Next     time.Time     // when the next period begins, by the server's clock
	Due      time.Duration // until then; 0 if it is due
	HolderID string        // the attempt that runs, or ran, in the present period; empty if unknown
	Run      *Holder       // the run under way, which may be of an earlier period; nil if there is none
}

// Known reports whether the server knows the job. It forgets a job that has not run for two
// periods and [Config.Retention].
func (j JobInfo) Known() bool { return j.Schedule.Period > 0 }

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
	WaitsFor  []LeaseWait   // of code that holds this lease, see [BreakDeadlock]
	Released  bool          // released, but the lock stays held for Remaining, see MinHold
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

var modes = map[string]string{"x": "exclusive", "s": "shared", "p": "permits"}

// InspectOption is an option of [Client.Inspect]: [HoldersOnly].
type InspectOption interface{ forInspect() }

type holdersOnly struct{}

func (holdersOnly) forInspect() {}

// HoldersOnly leaves out the waiters: LockInfo.Waiting counts them. So an answer costs two or three
// requests for an exclusive holder, however many wait.
func HoldersOnly() InspectOption { return holdersOnly{} }

// Inspect reads the state of a lock and changes nothing. The answer may be out of date when
// it arrives, so do not use it to decide whether to work.
func (c *Client) Inspect(ctx context.Context, name string, options ...InspectOption) (LockInfo, error) {
	if err := checkReadable(ctx, c, name); err != nil {
		return LockInfo{Name: name}, err
	}
	if slices.Contains(options, HoldersOnly()) {
		return readLock(ctx, c, name, newRegistrations(0), nil, wire.HoldersOnly)
	}
	return readLock(ctx, c, name, newRegistrations(allNames), nil)
}

// readLock reads a lock, or no more of it than enough and mode want, see [wire.ReadRecord].
func readLock(
	ctx context.Context, c *Client, name string, known *registrations, enough func(*wire.Record) bool, mode ...string,
) (LockInfo, error) {
	info := LockInfo{Name: name}
	r, err := c.sender.RecordUntil(ctx, []string{wire.Key(c.cfg.Prefix, name)}, enough, mode...)
	if err != nil {
		return info, wrap("inspecting", name, err)
	}
	if len(mode) > 0 {
		r.Waiters = nil // a quorum has read them to count them
	}
	said := known.of(ctx, c, &r)
	info.Fence, info.Limit, info.Waiting = r.Fence<<c.handOverBits, r.Limit, r.Waiting
	info.Holders = holdersOf(c, &r, said)
	if r.Leader != nil && len(info.Holders) > 0 {
		h := info.Holders[0]
		info.Leader = &Leader{
			Value: *r.Leader, Term: h.Token, HolderID: h.HolderID, ClientID: h.ClientID, Client: h.Client,
			Since: h.Since, Remaining: h.Remaining,
		}
	}
	for _, w := range r.Waiters {
		info.Waiters = append(info.Waiters, Waiter{
			Position: w.Place, Mode: modes[w.Mode], HolderID: w.Attempt, Owner: w.Owner,
			ClientID: wire.Client(w.Attempt), Client: said.client(w.Attempt), Tags: said.tags(w.Attempt),
			Permits: w.Weight, Since: w.Joined, Waited: r.Now.Sub(w.Joined),
			Silent: w.Left <= 0, until: r.Now.Add(w.Left).UnixMilli(),
		})
	}
	if e := r.Evicted; e != nil {
		info.LastEviction = &EvictionInfo{At: e.At, By: e.By, Reason: e.Reason}
	}
	return info, nil
}

// InspectJob reads the state of a periodic job and changes nothing. A job and a lock of the
// same name are separate, see [Periodic].
func (c *Client) InspectJob(ctx context.Context, name string) (JobInfo, error) {
	if err := checkReadable(ctx, c, name); err != nil {
		return JobInfo{Name: name}, err
	}
	return readJob(ctx, c, name, newRegistrations(allNames))
}

func readJob(ctx context.Context, c *Client, name string, known *registrations) (JobInfo, error) {
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
	if holders := holdersOf(c, &r, known.of(ctx, c, &r)); len(holders) > 0 {
		j.Run = &holders[0]
	}
	return j, nil
}

// listReaders is how many records List reads at the same time.
const listReaders = 32

// earlyRefusals is how many records the server may refuse before List asks whether it refuses all.
const earlyRefusals = 100

// List yields the state of every lock and job that has a record and whose name matches pattern:
// * is any text, ? is any character, [abc] is one of these, \ makes the next character an
// ordinary one, and an empty pattern matches every name. It changes nothing.
//
// A record stays for a while after the last use of its lock ([Config.Retention]), so many of
// the locks are free. The order is arbitrary. Each state was true when List read it, and locks
// may change during the listing. A lock that exists the whole time is listed. Of each lock, the
// first 100 waiters have a Client and Tags. If a key has the name of a record and holds other data,
// it is not a lock, and List leaves it out.
//
// List reads the server's keys a page at a time. So it blocks no server for long, however many
// other keys there are. In a Cluster it reads every primary, and over a quorum every server.
// The user needs the permission for SCAN.
//
// If one record cannot be read, List yields its name with the error, and goes on with the others.
// A newer Holdfast has written it, it is damaged, or the server's user lacks the permission for its
// key. LockInfo has the Name then, and for a job a Job with its name. Any other error ends the
// listing, also a refusal of all records: it is yielded last, with an empty state. If a primary of a
// Cluster does not answer, List yields the locks of the others before. If the store is not a
// [store.Scanner], it is an [ErrInvalid].
func (c *Client) List(ctx context.Context, pattern string) iter.Seq2[LockInfo, error] {
	return func(yield func(LockInfo, error) bool) {
		if err := list(ctx, c, pattern, yield); err != nil {
			yield(LockInfo{}, err)
		}
	}
}

// errListed ends a scan because the caller of List has ended it.
var errListed = errors.New("the caller has seen enough")

func list(ctx context.Context, c *Client, pattern string, yield func(LockInfo, error) bool) error {
	match, err := scan.Match(pattern)
	scanner, able := store.As[store.Scanner](c.store)
	switch {
	case ctx == nil:
		return errNoContext
	case err != nil:
		return invalid("the pattern %q: %v", pattern, err)
	case !able:
		return invalid("the store %T cannot list locks: it is not a store.Scanner", c.store)
	}
	if err := checkServer(ctx, c, "listing", cmp.Or(pattern, "*")); err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	answers, scanned := readRecords(ctx, end, c, scanner, match)
	deliver := func(list []listed) {
		for _, a := range list {
			if !errors.Is(context.Cause(ctx), errListed) && !yield(a.state, a.err) {
				end(errListed)
			}
		}
	}
	var early []listed // refusals, until one record is read: the server may refuse all of them
	read := false
	for a := range answers {
		early = append(early, a)
		asks := len(early) == earlyRefusals && !read
		refused := asks && refusesAll(ctx, c)
		switch read = read || !mayConcernAll(a.err) || asks && !refused; {
		case read:
			deliver(early)
			early = early[:0]
		case refused:
			end(early[0].err)
		}
	}
	err = <-scanned
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errListed):
		return nil
	case cause != nil: // a request failed, or the caller's context ended
		return cause
	case len(early) > 0 && refusesAll(ctx, c):
		return early[0].err
	}
	deliver(early)
	if err != nil && !errors.Is(context.Cause(ctx), errListed) {
		return wrap("listing", cmp.Or(pattern, "*"), request.InTime(ctx, err))
	}
	return nil
}

// listed is one record of a listing, or why it cannot be read.
type listed struct {
	state LockInfo
	err   error
}

// readRecords reads the records that match, several at a time. end ends the listing for any error
// that is not due to one record. scanned gets the error of the scan.
func readRecords(
	ctx context.Context, end context.CancelCauseFunc, c *Client, scanner store.Scanner, match func(string) bool,
) (<-chan listed, <-chan error) {
	records, answers, scanned := make(chan scan.Record), make(chan listed), make(chan error, 1)
	var readers sync.WaitGroup
	known := newRegistrations(listedNames)
	for range listReaders {
		readers.Go(func() {
			for r := range records {
				info, err := readRecord(ctx, c, r, known)
				switch {
				case isForeign(err): // named like a record
				case err != nil && !isUnreadable(err):
					end(err)
				default:
					select {
					case answers <- listed{info, err}:
					case <-ctx.Done():
					}
				}
			}
		})
	}
	go func() {
		scanned <- scan.Records(ctx, scanner, c.cfg.Prefix, match, func(r scan.Record) error {
			select {
			case records <- r:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		close(records)
		readers.Wait()
		close(answers)
	}()
	return answers, scanned
}

// isForeign reports whether err says that a key holds data of another kind.
func isForeign(err error) bool {
	refused := request.Refusal(err)
	return refused != nil && refused.Code == "WRONGTYPE"
}

// isUnreadable reports whether err can be due to one record: it has a later format, its words make
// no sense to this client, or as in mayConcernAll.
func isUnreadable(err error) bool {
	refused := request.Refusal(err)
	return refused != nil && refused.Code == "FORMAT" || errors.Is(err, wire.ErrAnswer) || mayConcernAll(err)
}

// mayConcernAll reports whether err is due to one record or to all. A record's words can make the
// script fail (ERR), and the user may lack the permission for a key. The server may also refuse the
// script.
func mayConcernAll(err error) bool {
	refused := request.Refusal(err)
	return refused != nil && (refused.Code == "ERR" || refused.Code == "NOPERM")
}

// refusesAll reports whether the server refuses to read even what does not exist: no lock has an
// empty name.
func refusesAll(ctx context.Context, c *Client) bool {
	_, err := readLock(ctx, c, "", newRegistrations(allNames), nil)
	return mayConcernAll(err)
}

func readRecord(ctx context.Context, c *Client, r scan.Record, known *registrations) (LockInfo, error) {
	if !r.Job {
		return readLock(ctx, c, r.Name, known, nil)
	}
	j, err := readJob(ctx, c, r.Name, known)
	info := LockInfo{Name: r.Name, Job: &j}
	if j.Run != nil {
		info.Fence, info.Holders = j.Run.Token, []Holder{*j.Run}
	}
	return info, err
}

// holdersOf returns the holders in a record.
func holdersOf(c *Client, r *wire.Record, said said) (list []Holder) {
	for _, h := range r.Holders {
		list = append(list, Holder{
			Mode: modes[h.Mode], HolderID: h.Attempt, Owner: h.Owner, ClientID: wire.Client(h.Attempt),
			Client: said.client(h.Attempt), Tags: said.tags(h.Attempt), Permits: h.Weight, Entries: h.Entries,
			WaitsFor: said.waits(h.Attempt), Token: h.Token << c.handOverBits, Since: h.Since,
			Age: r.Now.Sub(h.Since), Remaining: h.Left, Released: h.Kept,
		})
	}
	return list
}

func ownerName(owner, attempt string) string {
	if owner != "" {
		return owner
	}
	return attempt
}

// Eviction names the operator and the reason. The server stores both for others to read.
type Eviction struct {
	By     string // a person or a job; 1 to 128 bytes
	Reason string // 1 to 512 bytes
	// Token, if it is not 0, is the token that a holder must have, as LockInfo shows it. If
	// another client has acquired the lock in the meantime, Evict leaves that client's hold
	// alone.
	Token uint64
	// Force removes the lock's record, whatever is in it: also a damaged record, one of a later
	// version, or data of another program at the lock's key. No holder and no waiter remains. A
	// client that waits joins the queue again with its next poll. Tokens keep rising, unless the
	// fence itself is damaged and was ahead of the server's clock. Token must be 0.
	Force bool
	// Job, with Force, removes the record of the periodic job of that name, and leaves the lock
	// alone. The server then remembers no run of the job, and no schedule.
	Job bool
}

// Evict ends all holds of a lock, and raises the lock's fence. A resource that checks
// tokens then refuses the evicted holder's writes. The server grants the next waiter at
// once.
//
// A holder learns of the eviction by a push, if its client has waited for a lock before, or
// with its next renewal, up to a third of its TTL later. Until then it believes that it holds
// the lock. The leases of this client end at once.
//
// All holds end in one step, during which the server serves nobody else. If there are thousands
// of readers or permits, that takes time: a tenth of a second for 10,000.
//
// Evict ends no hold that is granted after the call. It returns how many it has ended. It is 0 if
// the lock was free, or if no hold had the given Token. With Force it is 1, or 0 if there was no
// record. After an [ErrUnknownOutcome], check the result with [Client.Inspect].
func (c *Client) Evict(ctx context.Context, name string, e Eviction) (int, error) {
	if err := checkReadable(ctx, c, name); err != nil {
		return 0, err
	}
	switch {
	case e.By == "" || e.Reason == "":
		return 0, invalid("Eviction.By or Reason is empty: name the operator and the reason")
	case len(e.By) > 128 || len(e.Reason) > 512:
		return 0, invalid("Eviction.By or Reason is too long: the limits are 128 and 512 bytes")
	case e.Force && e.Token != 0:
		return 0, invalid("Eviction has Force and a Token: Force removes the record, whoever holds the lock")
	case e.Job && !e.Force:
		return 0, invalid("Eviction has Job and no Force: nothing else removes the record of a job")
	}
	token := e.Token >> c.handOverBits
	if token == 0 && e.Token != 0 {
		return 0, nil // no hold has so low a token, and the script takes 0 for any
	}
	key := wire.Key(c.cfg.Prefix, name)
	if e.Job {
		key = wire.PeriodicKey(c.cfg.Prefix, name)
	}
	ours, only := holdsOf(c, key, token), wire.Number(token)
	if e.Force {
		only = wire.Force
	}
	once, err := evictOnce(ctx, c, key, token, e.Force)
	if err != nil {
		return 0, wrap("eviction from", name, err)
	}
	a, err := c.sender.Ask(ctx, script.Evict, []string{key}, append([]string{
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

// holdsOf returns the client's holds of a lock. If token, the server's part, is not 0, it
// returns only those with that token.
func holdsOf(c *Client, key string, token uint64) (list []*hold) {
	for _, it := range c.renewer.All() {
		h := it.Hold.(*hold)
		if h.lock.key() == key && (token == 0 || h.server.Load() == token) {
			list = append(list, h)
		}
	}
	return list
}

func checkReadable(ctx context.Context, c *Client, name string) error {
	if ctx == nil {
		return errNoContext
	}
	if err := wire.CheckName(name); err != nil {
		return invalid("%v", err)
	}
	return checkServer(ctx, c, "inspecting", name)
}

// checkServer refuses if nothing can be asked: a closed client, a context that has ended, or a
// server that cannot serve locks.
func checkServer(ctx context.Context, c *Client, what, name string) error {
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

// LeaseInfo is a lease at one moment, as code that runs under it sees it.
type LeaseInfo struct {
	Name      string        // the lock, the election or the job
	HolderID  string        // as [Lease.HolderID]
	Token     uint64        // as [Lease.Token]
	Remaining time.Duration // as [Lease.Remaining]: until the trust deadline; 0: the lease has ended
	Others    int           // how many other locks ctx belongs to leases of, too
}

// LeaseOf returns the innermost lease that ctx belongs to, or the innermost one of the named locks. ctx is
// the context of a function that a Do or a Loop runs, that of a lease, or a child of one. If ctx belongs to
// no such lease, ok is false. Under a [MultiLease] the innermost lease is that of the last of its locks.
//
// Use it where there is no [Lease]: a job of [Periodic.Do] finds its fencing token, and how
// much time is left if no further renewal succeeds.
func LeaseOf(ctx context.Context, names ...string) (l LeaseInfo, ok bool) {
	if ctx == nil {
		return LeaseInfo{}, false
	}
	locks := make(map[string]bool)
	for ls := leaseOf(ctx); ls != nil; ls = ls.outerLease() {
		lease := Lease{state: ls}
		if locks[lease.Name()] = true; !ok && (len(names) == 0 || slices.Contains(names, lease.Name())) {
			ok = true
			l = LeaseInfo{
				Name: lease.Name(), HolderID: lease.HolderID(), Token: lease.Token(), Remaining: lease.Remaining(),
			}
		}
	}
	if ok {
		l.Others = len(locks) - 1
	}
	return l, ok
}
