package memstore

// cancel withdraws an acquisition that is unwanted or whose outcome is unknown.
//
// Answers: withdrawn · released · none.
func cancel(t *step, args *arguments) string {
	attempt := args.text()
	t.retention, t.channelPrefix = args.whole(), args.text()
	owner := args.owner()

	answer := "released"
	switch {
	case t.queue.leave(attempt):
		answer = "withdrawn"
	case t.holder != nil && t.holder.is(attempt, owner):
		if t.expiredForAll() || t.removeEntry(attempt) > 0 {
			return "released"
		}
	case t.shares[attempt] != nil:
		t.removeShare(attempt)
	default:
		return "none"
	}
	t.expire()
	t.serveQueue("")
	return answer
}
