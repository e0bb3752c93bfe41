package quorum

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// acquireAll takes locks one after the other, in the order in which they are given
// and without waiting, and gives all of them back if one is not free. They are
// not taken in one step: of those who want some of the same locks the one that
// has the first of them gets the others, unless who wants fewer is faster.
//
// After an error some may be held, until the cancel of each that the client
// sends; a refusal is answered when all have been given back.
func (s *Store) acquireAll(ctx context.Context, keys, args []string) (string, error) {
	if len(args) != 3+len(keys) {
		return "", refuse(ErrUnsupported, "ERR", "acquire_all takes %d arguments for %d keys, not %d",
			3+len(keys), len(keys), len(args))
	}
	attempt, ttl, retention := args[0], args[1], args[2]
	ms, bad := strconv.ParseInt(ttl, 10, 64)
	more, worse := strconv.ParseInt(retention, 10, 64)
	if bad != nil || worse != nil {
		return "", refuse(ErrUnsupported, "ERR", "acquire_all: %q and %q are no numbers of milliseconds",
			ttl, retention)
	}
	recordTTL := strconv.FormatInt(ms+more, 10)
	acqs := make([]*acquisition, len(keys))
	for i, key := range keys {
		d, err := s.parse([]string{key}, []string{attempt, ttl, recordTTL, wire.Exclusive, "0", args[3+i]})
		if err != nil {
			return "", err // the same for each of them, so nothing has been claimed
		}
		if i == 0 {
			if err := s.identify(ctx, d.states); err != nil {
				return "", err
			}
		}
		acqs[i] = s.acquisition(nameFor(key, attempt), d)
	}
	granted := []string{"granted"}
	for i, acq := range acqs {
		answer, err := acq.acquire(ctx, "0")
		got, ok := strings.CutPrefix(answer, "granted ")
		if err == nil && ok {
			granted = append(granted, got)
			continue
		}
		if err == nil || isRefusal(err) {
			if failed := s.cancelAll(ctx, acqs, retention); failed != nil {
				return "", failed
			}
		}
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("busy %d %s", i+1, strings.TrimPrefix(answer, "busy ")), nil
	}
	return strings.Join(granted, " "), nil
}

// cancelAll cancels the claims. What nodes that do not answer have granted is
// cancelled in the background; the error is ctx's, or that of a closed store.
func (s *Store) cancelAll(ctx context.Context, acqs []*acquisition, retention string) error {
	for _, acq := range acqs {
		if s.find(acq.key, acq.attempt) != acq {
			continue // it has given itself back
		}
		if _, err := s.cancel(ctx, []string{acq.key}, []string{acq.attempt, retention, acq.channelPrefix}); err != nil {
			return err
		}
	}
	return nil
}
