package memstore

// cancelRun makes the period of a run due again.
//
// Answers: released · none.
func cancelRun(t *step, args *arguments) string {
	attempt := args.text()
	t.retention, t.channelPrefix = args.whole(), args.text()

	known := t.mark != nil && t.mark.attempt == attempt
	if known {
		t.extendRecord(0)
		t.mark = &mark{till: t.now, attempt: "-", plan: t.mark.plan}
	}
	if t.holder != nil && t.holder.is(attempt, "") {
		t.holder = nil
		known = true
	}
	if !known {
		return "none"
	}
	t.expire()
	t.serveQueue("")
	return "released"
}
