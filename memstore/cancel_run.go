package memstore

// cancelRun makes the period of a run due again.
//
// Answers: released · none.
func cancelRun(st *step, args *arguments) string {
	attempt := args.text()
	st.retention, st.channelPrefix = args.whole(), args.text()

	known := st.mark != nil && st.mark.attempt == attempt
	if known {
		st.extendRecord(0)
		st.mark = &mark{till: st.now, attempt: "-", plan: st.mark.plan}
	}
	if st.holder != nil && st.holder.is(attempt, "") {
		st.holder = nil
		known = true
	}
	switch {
	case !known && st.undone == attempt:
		return "released"
	case !known:
		return "none"
	}
	st.undone = attempt
	st.expire()
	st.serveQueue("")
	return "released"
}
