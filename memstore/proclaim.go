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
func proclaim(t *step, args *arguments) string {
	attempt := args.text()
	news := &said{token: args.text(), number: args.whole(), value: args.text()}
	watch := args.text()
	t.retention = args.whole()

	h := t.holder
	switch {
	case h == nil || !h.is(attempt, "") || text(t.fence) != news.token || h.expiry <= t.now:
		return "gone"
	case t.said != nil && t.said.token == news.token && t.said.number > news.number:
		return "late"
	}
	t.extendRecord(0)
	t.said = news
	payload := "leader " + news.token
	if news.value == "" {
		payload = "none " + news.token
	}
	t.pushes = append(t.pushes, message{watch, payload})
	return "proclaimed"
}
