package memstore

import "fmt"

// setLimit changes the number of permits. With 0, none is granted, and waiters stay. A lower limit takes no
// permit away. A waiter that wants more than the limit leaves the queue when it comes to
// its turn, or when it asks.
//
// Answers: set USED · idle.
func setLimit(st *step, args *arguments) string {
	permits := args.whole()
	st.retention, st.channelPrefix = args.whole(), args.text()

	st.expire()
	if st.fence == 0 {
		st.fence, st.birth = st.micros, st.micros
	}
	st.extendRecord(0)
	if st.limit = permits; permits == 0 {
		st.limit = drained
	}
	st.serveQueue("")
	if st.queue.len() > 0 || st.kind == permit {
		return fmt.Sprintf("set %d", st.used())
	}
	return "idle"
}
