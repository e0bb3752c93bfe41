package memstore

// cancelRun makes the period of a run due again, or ends a run that has succeeded.
//
// Answers: released · none.
func cancelRun(st *step, args *arguments) string {
	attempt := args.text()
	st.retention, st.channelPrefix = args.whole(), args.text()

	done := args.left() && args.text() != ""
	known := st.mark != nil && st.mark.attempt == attempt
	if done {
		return st.endRun(attempt, known)
	}
	if known {
		st.extendRecord(0)
		till := st.now
		if st.tries.most > 0 { // this run was no try
			st.tries.begun, till = max(st.tries.begun-1, 0), st.mark.till
		}
		st.mark = &mark{till: till, attempt: "-", plan: st.mark.plan}
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

// endRun ends a run that has succeeded. known: its period is the present one.
func (st *step) endRun(attempt string, known bool) string {
	st.expire()
	switch {
	case st.holder != nil && st.holder.is(attempt, ""):
		st.holder, st.tries = nil, tries{}
	case st.tries.most > 0 || !known:
		return "none"
	}
	st.serveQueue("")
	return "released"
}
