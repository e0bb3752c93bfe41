package quorum

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockorder"
	"github.com/holdfast-go/holdfast/internal/window"
	"github.com/holdfast-go/holdfast/script"
)

// Example: 64 goroutines of this process want locks, and server 2 begins to answer late. The first
// request without an answer halves what may be under way at server 2, and the others wait here.
// Renewals and releases do not wait. With each answer one more is let through.

// lateWindow lets requests to a node that is late wait for their turn, see [window.Window]. Every waiter
// would otherwise repeat its requests, and all of their cancels.
type lateWindow struct {
	// mu guards the fields below. Nothing is sent under it.
	mu      lockorder.Mutex[lateWindow]
	window  window.Window   // counts the requests that are under way
	waiting []chan struct{} // the requests that wait, oldest first; closed when they may be sent
}

// limited reports whether an action may have to wait. What a holder sends does not: a lease that is
// lost or released late costs more than a waiter's request.
func limited(action *script.Script) bool {
	switch action {
	case script.Release, script.ReleaseAfter, script.Renew, script.RaiseFence, script.MarkServer:
		return false
	}
	return true
}

// enter waits for the right to send a request, for at most timeout, and only until ended is closed. If
// it returns an error, the request must not be sent, and nothing is left of it here. Nothing else need
// end the wait: it lasts only while others are under way, which Close ends.
//
// The timer and the right may come at the same instant. Then leave has counted the request already
// (it is not among those that wait any more), so it is sent.
func (w *lateWindow) enter(action *script.Script, timeout time.Duration, ended <-chan struct{}) error {
	w.mu.Lock()
	if !w.window.Full() || !limited(action) {
		w.window.Enter()
		w.mu.Unlock()
		return nil
	}
	may := make(chan struct{})
	w.waiting = append(w.waiting, may)
	w.mu.Unlock()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	err := errNotSent
	select {
	case <-may:
		return nil
	case <-timer.C:
	case <-ended:
		err = errEnded
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	at := slices.Index(w.waiting, may)
	if at < 0 {
		return nil
	}
	w.waiting = slices.Delete(w.waiting, at, at+1)
	return err
}

// leave ends a request. late says that it got no answer in time.
// It lets in as many as fit now, oldest first, and counts them in at once: between waking up and
// sending, nobody else may take their places.
func (w *lateWindow) leave(late bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	outcome := window.Answered
	if late {
		outcome = window.Late
	}
	w.window.Leave(outcome, false)
	for len(w.waiting) > 0 && !w.window.Full() {
		close(w.waiting[0])
		w.waiting = w.waiting[1:]
		w.window.Enter()
	}
}
