package memstore

// cancel withdraws an acquisition that is unwanted or whose outcome is unknown.
//
// Answers: withdrawn · released · none.
func cancel(st *step, args *arguments) string {
	attempt := args.text()
	st.retention, st.channelPrefix = args.whole(), args.text()
	owner := args.owner()

	answer := "released"
	switch {
	case st.queue.leave(attempt):
		answer = "withdrawn"
	case st.holder != nil && st.holder.is(attempt, owner):
		if st.expiredForAll() || st.removeEntry(attempt) > 0 {
			return "released"
		}
	case st.shares[attempt] != nil:
		st.removeShare(attempt)
	default:
		return "none"
	}
	st.expire()
	st.serveQueue("")
	return answer
}
