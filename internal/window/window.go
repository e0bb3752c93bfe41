// Package window limits how many requests are under way to a server that is late. Each request that
// gets no answer in time halves the limit, and each answer raises it. Without a limit, a client would
// send a late server its requests again and again. The server would carry out nothing but requests for
// which nobody waits any more.
//
// The package counts. It reads no clock, sends nothing and has no mutex.
package window

// Window counts the requests to one server. Its zero value has no limit.
type Window struct {
	under int // requests under way
	limit int // 0: none
}

const (
	least = 2   // one request does not wait for another
	most  = 256 // so many do not overload a server
)

// Outcome is how a request ended.
type Outcome uint8

// The outcomes.
const (
	Answered Outcome = iota // also by an error
	Late                    // no answer came in time
	Neither                 // it was given up early, or others overtook it
)

// Full reports whether the next request must wait.
func (w *Window) Full() bool { return w.limit > 0 && w.under >= w.limit }

// Limited reports whether there is a limit.
func (w *Window) Limited() bool { return w.limit > 0 }

// Idle reports whether no request is under way.
func (w *Window) Idle() bool { return w.under == 0 }

// Enter notes that a request is sent, although the window may be full.
func (w *Window) Enter() { w.under++ }

// Leave notes how a request ended. While crowd says that too many others wait to be sent at once, the
// limit does not end.
func (w *Window) Leave(o Outcome, crowd bool) {
	switch {
	case o == Late && w.limit > 0: // more may be under way than the limit
		w.limit = max(min(w.limit, w.under/2), least)
	case o == Late:
		w.limit = max(w.under/2, least)
	case o == Neither || w.limit == 0:
	case w.limit < most:
		w.limit++
	case !crowd:
		w.limit = 0
	}
	w.under--
}
