package memstore

import (
	"fmt"
	"strings"
)

// acquireAll takes several locks, all or none. It reads all records before it writes: if
// a key holds something else, nothing changes.
//
// Answers: granted and for each lock TOKEN WAITING · busy INDEX LEFT HOLDER.
func (s *Store) acquireAll(keys []string, args *arguments) (string, error) {
	r := request{attempt: args.text(), ttl: args.whole(), mode: exclusive, weight: 1}
	retention := args.whole()
	channelPrefixes := make([]string, len(keys))
	for i := range channelPrefixes {
		channelPrefixes[i] = args.text()
	}
	if err := args.problem("acquire_all"); err != nil {
		return "", err
	}
	steps := make([]*step, len(keys))
	for i, key := range keys {
		st, err := s.open(key)
		if err != nil {
			return "", err
		}
		st.retention, st.channelPrefix = retention, channelPrefixes[i]
		steps[i] = st
	}
	answer := takeAll(steps, r)
	for i, key := range keys {
		s.close(key, steps[i])
	}
	return answer, nil
}

// takeAll grants all locks to one attempt. If one is not free, it releases those that the
// attempt holds.
func takeAll(locks []*step, r request) string {
	tokens := make([]int64, len(locks))
	held := make([]bool, len(locks))
	for i, st := range locks {
		st.expire()
		if tokens[i], held[i] = st.reacquire(r.attempt, "", r.ttl, true); held[i] {
			continue
		}
		if _, blocked := st.serveQueue(""); !blocked && st.compatible(exclusive, 1) {
			continue
		}
		for j, other := range locks {
			if held[j] {
				other.endExclusive(r.attempt)
			}
		}
		return fmt.Sprintf("busy %d %d %s", i+1, st.msUntilFree(), st.holderName())
	}
	each := []string{"granted"}
	for i, st := range locks {
		if !held[i] {
			tokens[i] = st.grant(r)
		}
		each = append(each, fmt.Sprintf("%d %d", tokens[i], st.queue.len()))
	}
	return strings.Join(each, " ")
}

// endExclusive ends the attempt's own exclusive hold, and serves the queue.
func (st *step) endExclusive(attempt string) bool {
	if st.holder == nil || !st.holder.is(attempt, "") {
		return false
	}
	st.holder = nil
	st.expire()
	st.serveQueue("")
	return true
}
