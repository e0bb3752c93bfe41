package memstore

import (
	"fmt"
	"strings"
)

// check says for which of several tokens there is a live hold, changing nothing.
//
// Answers, for each key: live · unknown · held TOKEN HOLDER · free · -. Of more shared holders than a step reads,
// the script comes to others first, and it counts those of all keys, and its pages.
func (s *Store) check(keys []string, args *arguments) (string, error) {
	tokens := make([]int64, len(keys))
	for i := range tokens {
		tokens[i] = args.whole()
	}
	if err := args.problem("check"); err != nil {
		return "", err
	}
	answers := make([]string, len(keys))
	for i, key := range keys {
		one, err := s.onRecord(key, func(st *step) (string, error) { return st.judge(tokens[i]), nil })
		if err != nil {
			one = "-"
		}
		answers[i] = one
	}
	return strings.Join(answers, "\n"), nil
}

// judge answers check for one record.
func (st *step) judge(token int64) string {
	if h := st.holder; h != nil && h.expiry > st.now {
		switch _, number, _ := strings.Cut(h.name, "/"); {
		case token != st.fence || h.name == keptHolder:
		case len(h.entries) > 0 || strings.Contains(number, "="):
			return "live"
		default:
			return "unknown" // it may have been handed over inside its process
		}
		return fmt.Sprintf("held %d %s", st.fence, h.name)
	}
	last := int64(0)
	for i, attempt := range st.byToken() {
		h := st.shares[attempt]
		switch {
		case i == sweepWindow:
			return "-"
		case h.expiry <= st.now:
		case h.token == token:
			return "live"
		default:
			last = h.token // the highest so far
		}
	}
	if last > 0 {
		return fmt.Sprintf("held %d -", last)
	}
	return "free"
}
