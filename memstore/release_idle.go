package memstore

// releaseIdle releases those of several mutexes that have no waiters.
//
// Answers: released, and for each lock 1 or -.
func (s *Store) releaseIdle(keys []string, args *arguments) (string, error) {
	attempts := args.each(len(keys))
	if err := args.problem("release_idle"); err != nil {
		return "", err
	}
	return "released " + s.several(keys, func(i int, st *step) bool {
		if st.holder == nil || !st.holder.is(attempts[i], "") || st.queue.len() > 0 || st.watched {
			return false
		}
		st.holder = nil
		return true
	}), nil
}
