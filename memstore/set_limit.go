package memstore

import "fmt"

// setLimit changes the number of permits while they are in use. A lower limit takes no
// permit away. A waiter that wants more than the limit leaves the queue when it comes to
// its turn, or when it asks.
//
// Answers: set USED · idle.
func setLimit(t *step, args *arguments) string {
	permits := args.whole()
	if permits < 1 {
		args.blame("is less than 1")
	}
	t.retention, t.channelPrefix = args.whole(), args.text()

	t.expire()
	if t.queue.len() > 0 || t.kind == permit {
		t.extendRecord(0)
		t.limit = permits
		t.serveQueue("")
	}
	if t.queue.len() > 0 || t.kind == permit {
		return fmt.Sprintf("set %d", t.used())
	}
	return "idle"
}
