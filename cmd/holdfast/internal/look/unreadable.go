package look

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/internal/lockjson"
)

// unreadable are the errors of the records in a listing that cannot be read. They hide no other
// record, so they are told when all the others are.
type unreadable []*exit.Error

// eachLock shows every lock that matches to visit, with the reason if it cannot be read. err is the error
// of the whole listing. visit may have seen locks before it: those of the nodes that answer.
func eachLock(
	ctx context.Context, s *target.Server, pattern string, visit func(state holdfast.LockInfo, bad *exit.Error),
) (bad unreadable, err error) {
	for state, err := range s.Client.List(ctx, pattern) {
		switch {
		case err == nil:
			visit(state, nil)
		case state.Name == "":
			return bad, err
		default:
			why := whyUnreadable(s, state, err)
			bad = append(bad, why)
			visit(state, why)
		}
	}
	return bad, nil
}

// err is the first error, with the number of the others; nil if there is none.
func (u *unreadable) err() error {
	list := *u
	switch len(list) {
	case 0:
		return nil
	case 1:
		return list[0]
	}
	first := list[0]
	return exit.With(first.Code, fmt.Errorf("%w; records that cannot be read: %d", first.Err, len(list)), first.Hint)
}

// whyUnreadable explains why a record cannot be read.
func whyUnreadable(s *target.Server, state holdfast.LockInfo, err error) *exit.Error {
	if refused, ok := errors.AsType[*holdfast.ServerError](err); ok && refused.Code != "ERR" {
		return exit.With(exit.Of(err), err, holdfast.Hint(err))
	}
	return exit.With(exit.CodeProtocol, err, "find out what has written the key "+recordKey(s, state)+
		"; holdfast has not changed it")
}

// recordKey is the key of a record in a listing.
func recordKey(s *target.Server, state holdfast.LockInfo) string {
	if state.Job != nil {
		return s.JobKey(state.Name)
	}
	return s.Key(state.Name)
}

// shownKey is the key of the record that status and inspect show: that of the job, if only that has one.
func shownKey(s *target.Server, name string, state holdfast.LockInfo, job holdfast.JobInfo) string {
	if job.Fence > 0 && state.Fence == 0 && !state.Held() {
		return s.JobKey(name)
	}
	return s.Key(name)
}

// unreadableEvents are the lines of watch for records that cannot be read, except those that told has.
func unreadableEvents(bad, told map[watched]string, at time.Time) (events []watchEvent) {
	for _, r := range inOrder(maps.Keys(bad)) {
		if _, known := told[r]; !known {
			events = append(events, watchEvent{
				Time: lockjson.Stamp(at), Event: "unreadable", Name: r.name, Job: r.job, Reason: bad[r],
			})
		}
	}
	return events
}
