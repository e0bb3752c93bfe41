package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/top"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// unreadable are the errors of the records in a listing that cannot be read. They hide no other
// record, so they are told when all the others are.
type unreadable []*exitError

// add keeps the error of one record. It returns false for an error of the whole listing.
func (u *unreadable) add(s *server, state holdfast.LockInfo, err error) bool {
	if state.Name == "" {
		return false
	}
	*u = append(*u, s.unreadable(state, err))
	return true
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
	return &exitError{first.code, fmt.Errorf("%w; records that cannot be read: %d", first.err, len(list)), first.hint}
}

// unreadable explains why a record cannot be read.
func (s *server) unreadable(state holdfast.LockInfo, err error) *exitError {
	var refused *holdfast.ServerError
	if errors.As(err, &refused) && refused.Code == "FORMAT" {
		return &exitError{codeProtocol, err, holdfast.Hint(err)}
	}
	return &exitError{codeProtocol, err, "find out what has written the key " + s.keyOf(state) +
		"; holdfast has not changed it"}
}

// keyOf is the key of a record in a listing.
func (s *server) keyOf(state holdfast.LockInfo) string {
	if state.Job != nil {
		return wire.PeriodicKey(s.prefix, state.Name)
	}
	return wire.Key(s.prefix, state.Name)
}

// unreadableRow is the row of a record that cannot be read.
func (s *server) unreadableRow(state holdfast.LockInfo, err error) row {
	r := s.row(state)
	r.state.Error = plain(err)
	r.cells["KIND"], r.cells["WAITING"] = "unreadable", "-"
	return r
}

// unreadableLock is such a row for top, with the reason as its details.
func (s *server) unreadableLock(state holdfast.LockInfo, err error) top.Lock {
	l := topLock(state, s.unreadableRow(state, err))
	l.Detail = []string{oneLine(plain(err))}
	if hint := s.unreadable(state, err).hint; hint != "" {
		l.Detail = append(l.Detail, "hint: "+oneLine(hint))
	}
	return l
}

// unreadableEvents are the lines of watch for records that cannot be read, except those that told has.
func unreadableEvents(bad, told map[string]string, at time.Time) (events []watchEvent) {
	for _, name := range slices.Sorted(maps.Keys(bad)) {
		if _, known := told[name]; !known {
			events = append(events, watchEvent{Time: stamp(at), Event: "unreadable", Name: name, Reason: bad[name]})
		}
	}
	return events
}
