package memstore

import (
	"slices"
	"strconv"
	"strings"
)

// renew extends several leases. It never shortens one. It does not revive an expired lease:
// a late renewal must not block the lock when nobody uses it.
//
// Answers: renewed, and for each lease its number of waiters, - or evicted.
func (s *Store) renew(keys []string, args *arguments) (string, error) {
	retention, common := args.whole(), args.whole()
	leases := make([]request, len(keys))
	for i := range leases {
		leases[i] = args.lease(common)
	}
	if err := args.problem("renew"); err != nil {
		return "", err
	}
	answer := []string{"renewed"}
	for i, key := range keys {
		one, err := s.onRecord(key, func(st *step) (string, error) {
			st.retention = retention
			return st.extend(leases[i]), nil
		})
		if err != nil {
			one = "-" // the key holds no record: one lease is lost and not all
		}
		answer = append(answer, one)
	}
	return strings.Join(answer, " "), nil
}

// extend renews one lease.
func (st *step) extend(r request) string {
	var expiry *int64
	var provisional *bool
	ending := false
	st.queue.clearSilent(clientOf(r.attempt))
	if st.holder != nil && st.holder.is(r.attempt, r.owner) {
		expiry, provisional, ending = &st.holder.expiry, &st.holder.provisional, st.holder.ending
	} else if h := st.shares[r.attempt]; h != nil {
		expiry, provisional, ending = &h.expiry, &h.provisional, h.ending
	}
	switch {
	case ending:
		return "evicted"
	case expiry != nil && *expiry > st.now:
		*expiry, *provisional = max(*expiry, st.now+r.ttl), false
		st.extendRecord(r.ttl)
		return strconv.FormatInt(st.queue.len(), 10)
	case st.evicted != nil && slices.Contains(st.evicted.attempts, r.attempt):
		return "evicted"
	}
	return "-"
}
