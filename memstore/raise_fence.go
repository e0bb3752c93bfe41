package memstore

import "fmt"

// raiseFence raises the token of a hold to one that several servers have agreed on, and
// reads the server's mark. It neither lowers a token nor extends a lease.
//
// Answers: raised TOKEN NOW RUN MARK · gone.
func (s *Store) raiseFence(keys []string, args *arguments) (string, error) {
	if len(keys) < 2 {
		return "", refuse("ERR", "raise_fence needs two keys")
	}
	return s.onRecord(keys[0], func(st *step) (string, error) {
		attempt, token := args.text(), args.whole()
		st.retention = args.whole()
		owner := args.owner()
		if err := args.problem("raise_fence"); err != nil {
			return "", err
		}
		own := st.raise(attempt, owner, token)
		if own == 0 {
			return "gone", nil
		}
		m, err := s.readMark(keys[1])
		if err != nil {
			return "", err // nothing is stored
		}
		return fmt.Sprintf("raised %d %d %s %s", own, st.now, m.run, m.mark), nil
	})
}

// raise returns the token that the attempt has now; 0 if it does not hold.
func (st *step) raise(attempt, owner string, token int64) int64 {
	if h := st.holder; h != nil && h.is(attempt, owner) {
		if h.expiry <= st.now {
			return 0
		}
		if token > st.fence {
			st.fence = token
			st.extendRecord(h.expiry - st.now)
		}
		return st.fence
	}
	h := st.shares[attempt]
	if h == nil || h.expiry <= st.now {
		return 0
	}
	if token > h.token {
		h.token = token
		st.fence = max(st.fence, token)
		st.extendRecord(h.expiry - st.now)
	}
	return h.token
}
