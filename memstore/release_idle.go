package memstore

// releaseIdle releases those of several mutexes that have no waiters.
//
// Answers: released, and for each lock 1 or -.
func (s *Store) releaseIdle(keys []string, args *arguments) (string, error) {
	attempts := args.each(len(keys))
	if err := args.problem("release_idle"); err != nil {
		return "", err
	}
	return "released " + s.several(keys, func(i int, t *step) bool {
		if t.holder == nil || !t.holder.is(attempts[i], "") || t.queue.len() > 0 || t.watched {
			return false
		}
		t.holder = nil
		return true
	}), nil
}
