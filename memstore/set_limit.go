package memstore

import "fmt"

// setLimit changes the number of permits while they are in use. A lower limit takes no
// permit away. A waiter that wants more than the limit leaves the queue when it comes to
// its turn, or when it asks.
//
// Answers: set USED · idle.
func setLimit(st *step, args *arguments) string {
	permits := args.whole()
	if permits < 1 {
		args.blame("is less than 1")
	}
	st.retention, st.channelPrefix = args.whole(), args.text()

	st.expire()
	if st.queue.len() > 0 || st.kind == permit {
		st.extendRecord(0)
		st.limit = permits
		st.serveQueue("")
	}
	if st.queue.len() > 0 || st.kind == permit {
		return fmt.Sprintf("set %d", st.used())
	}
	return "idle"
}
