// List: the locks that have a record.

package holdfast

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/holdfast-go/holdfast/internal/glob"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/scan"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/store"
)

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
		if err := c.list(ctx, pattern, yield); err != nil {
			yield(LockInfo{}, err)
		}
	}
}

// errListed ends a scan because the caller of List has ended it.
var errListed = errors.New("the caller has seen enough")

func (c *Client) list(ctx context.Context, pattern string, yield func(LockInfo, error) bool) error {
	match, err := glob.Match(pattern)
	scanner, able := store.As[store.Scanner](c.store)
	switch {
	case ctx == nil:
		return errNoContext
	case err != nil:
		return invalid("the pattern %q: %v", pattern, err)
	case !able:
		return invalid("the store %T cannot list locks: it is not a store.Scanner", c.store)
	}
	if err := c.checkServer(ctx, "listing", cmp.Or(pattern, "*")); err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	answers, scanned := c.readRecords(ctx, end, scanner, match)
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
		refused := asks && c.refusesAll(ctx)
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
	case len(early) > 0 && c.refusesAll(ctx):
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
func (c *Client) readRecords(
	ctx context.Context, end context.CancelCauseFunc, scanner store.Scanner, match func(string) bool,
) (<-chan listed, <-chan error) {
	records, answers, scanned := make(chan scan.Record), make(chan listed), make(chan error, 1)
	var readers sync.WaitGroup
	known := newRegistrations(listedNames)
	for range listReaders {
		readers.Go(func() {
			for r := range records {
				info, err := c.readRecord(ctx, r, known)
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

func (c *Client) readRecord(ctx context.Context, r scan.Record, known *registrations) (LockInfo, error) {
	if !r.Job {
		return c.readLock(ctx, r.Name, known)
	}
	j, err := c.readJob(ctx, r.Name, known)
	info := LockInfo{Name: r.Name, Fence: j.Fence, LastEviction: j.LastEviction, Job: &j}
	if j.Run != nil {
		info.Holders = []Holder{*j.Run}
	}
	return info, err
}

// isForeign reports whether err says that a key holds data of another kind.
func isForeign(err error) bool {
	refused := request.Refusal(err)
	return refused != nil && refused.Code == "WRONGTYPE"
}

// isUnreadable reports whether err can be due to one record: it has a later format, its words make
// no sense to this client, too few servers of a quorum tell who holds it, or as in mayConcernAll.
func isUnreadable(err error) bool {
	refused := request.Refusal(err)
	return refused != nil && refused.Code == "FORMAT" || errors.Is(err, wire.ErrAnswer) ||
		errors.As(err, new(*wire.UnprovenError)) || mayConcernAll(err)
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
func (c *Client) refusesAll(ctx context.Context) bool {
	_, err := c.readLock(ctx, "", newRegistrations(allNames))
	return mayConcernAll(err)
}
