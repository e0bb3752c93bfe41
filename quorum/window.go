package quorum

import (
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/script"
)

// window limits how many requests are under way to a node that is late. Each request that gets no
// answer in time halves the limit, and each answer raises it. Without a limit, every waiter would
// send a late node its requests again and again, and all of their cancels. The node would carry out
// nothing but requests for which nobody waits any more.
type window struct {
	// mu guards the fields below.
	mu      sync.Mutex
	under   int // requests under way
	limit   int // 0: none
	waiting []chan struct{}
}

const (
	leastWindow = 2   // one request does not wait for another
	mostWindow  = 256 // above that there is no limit
)

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
func (w *window) enter(action *script.Script, timeout time.Duration, ended <-chan struct{}) error {
	w.mu.Lock()
	if w.limit == 0 || w.under < w.limit || !limited(action) {
		w.under++
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
		return nil // at the last moment
	}
	w.waiting = slices.Delete(w.waiting, at, at+1)
	return err
}

// leave ends a request. late says that it got no answer in time.
func (w *window) leave(late bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case late:
		w.limit = max(w.under/2, leastWindow)
	case w.limit >= mostWindow:
		w.limit = 0
	case w.limit > 0:
		w.limit++
	}
	w.under--
	for len(w.waiting) > 0 && (w.limit == 0 || w.under < w.limit) {
		close(w.waiting[0])
		w.waiting = w.waiting[1:]
		w.under++
	}
}
