package memstore

import (
	"fmt"
	"strings"
)

// acquireFree takes those of several mutexes that are free and have no waiters, each for
// an attempt of its own.
//
// Answers: granted TOKEN, and for each lock 1 or -.
func (s *Store) acquireFree(keys []string, args *arguments) (string, error) {
	ttl, life := args.whole(), args.whole()
	attempts := args.each(len(keys))
	if err := args.problem("acquire_free"); err != nil {
		return "", err
	}
	token := s.now().UnixMicro()
	each := s.several(keys, func(i int, st *step) bool {
		if st.holder != nil || len(st.shares) > 0 || st.queue.len() > 0 || st.fence >= token {
			return false
		}
		st.retention = life - ttl
		st.grant(request{attempt: attempts[i], mode: exclusive, weight: 1, ttl: ttl})
		return true
	})
	return fmt.Sprintf("granted %d %s", token, each), nil
}

// several runs act on each record: 1 if it did something, - if it did not or if the key
// holds no record.
func (s *Store) several(keys []string, act func(i int, st *step) bool) string {
	var each strings.Builder
	for i, key := range keys {
		done := false
		_, err := s.onRecord(key, func(st *step) (string, error) {
			done = act(i, st)
			return "", nil
		})
		if err == nil && done {
			each.WriteByte('1')
		} else {
			each.WriteByte('-')
		}
	}
	return each.String()
}
