package memstore

import "strings"

// said is a leader's proclamation.
type said struct {
	token  string // of its grant
	number int64  // of the proclamation
	value  string // one word; empty: it leads no more
}

func (s said) String() string { return strings.TrimSuffix(s.token+" "+text(s.number)+" "+s.value, " ") }

// proclaim publishes the leader's value, or that it leads no more.
//
// Answers: proclaimed · late · gone.
func proclaim(st *step, args *arguments) string {
	attempt := args.text()
	news := &said{token: args.text(), number: args.whole(), value: args.text()}
	watch := args.text()
	st.retention = args.whole()

	h := st.holder
	switch {
	case h == nil || !h.is(attempt, "") || text(st.fence) != news.token || h.expiry <= st.now:
		return "gone"
	case st.said != nil && st.said.token == news.token && st.said.number > news.number:
		return "late"
	}
	st.extendRecord(0)
	st.said = news
	payload := "leader " + news.token
	if news.value == "" {
		payload = "none " + news.token
	}
	st.pushes = append(st.pushes, message{watch, payload})
	return "proclaimed"
}
