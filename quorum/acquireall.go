package quorum

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// Several locks at once are several acquisitions, one after the other. For example, a MultiMutex
// over "a" and "b" acquires "a" on a majority, with both phases, and then "b". If "b" is held, it
// cancels "a" and answers "busy 2 …": the second lock is not free. The acquisitions have the same
// attempt ID, so each is known by attempt and key, see nameFor.

// acquireAll acquires locks one after the other, in the given order and without waiting. If
// one is not free, it cancels all of them. They are not acquired in one step: if several
// attempts want some of the same locks, the one that gets the first of them usually gets the
// others.
//
// After an error some locks may be held, until the cancel that the client sends for each. A
// refusal is returned once all have been cancelled.
//
// If a later lock is not free, those before it are cancelled at once, and not left to their TTL:
// another client may be waiting for just these.
//
// The client counts all leases from before the first one was asked for, and judges whether enough
// of them is left. Here each acquisition judges only for itself (granted).
func (s *Store) acquireAll(ctx context.Context, keys, args []string) (string, error) {
	if len(args) != 3+len(keys) {
		return "", refuse(ErrUnsupported, "ERR", "acquire_all takes %d arguments for %d keys, not %d",
			3+len(keys), len(keys), len(args))
	}
	attempt, ttl, retention := args[0], args[1], args[2]
	ms, badTTL := strconv.ParseInt(ttl, 10, 64)
	retentionMS, badRetention := strconv.ParseInt(retention, 10, 64)
	if badTTL != nil || badRetention != nil {
		return "", refuse(ErrUnsupported, "ERR", "acquire_all: %q or %q is not a number of milliseconds",
			ttl, retention)
	}
	recordTTL := strconv.FormatInt(ms+retentionMS, 10)
	acqs := make([]*acquisition, len(keys))
	for i, key := range keys {
		d, err := s.parse([]string{key}, []string{attempt, ttl, recordTTL, wire.Exclusive, "0", args[3+i]})
		if err != nil {
			return "", err // it is the same for each key, so nothing has been acquired
		}
		if i == 0 {
			if err := s.identify(ctx, d.states); err != nil {
				return "", err
			}
		}
		acqs[i] = s.acquisition(nameFor(key, attempt), d)
	}
	// All acquisitions exist from the start, so that cancelAll finds each of them.
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

// cancelAll cancels the acquisitions. Grants of nodes that do not answer are cancelled in the
// background. The error is that of ctx, or of a closed store.
func (s *Store) cancelAll(ctx context.Context, acqs []*acquisition, retention string) error {
	for _, acq := range acqs {
		if s.find(acq.key, acq.attempt) != acq {
			continue // it has cancelled itself
		}
		if _, err := s.cancel(ctx, []string{acq.key}, []string{acq.attempt, retention, acq.channelPrefix}); err != nil {
			return err
		}
	}
	return nil
}
