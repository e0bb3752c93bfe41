// Leaks: leases that the program has dropped without a release.

package holdfast

import (
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/observe"
)

// If the collector finds a lease without a release, the client does not release it. The
// holder's code may still run, so no other client may get the lock before the TTL ends. The
// client stops the renewal, so the TTL does end the lease. It also reports the lease,
// because a dropped lease is most often a mistake. A lease without renewal is different: it
// ends with its TTL anyway, and to let it run out is a normal use.

// reportLeak is called by the collector when the program has dropped the handle.
func (l *Lease) reportLeak() { reportLeak(l.state.acquiredPC, l.state) }

// reportLeak stops the renewal of leases that the program has dropped, and reports those
// that were not released: to the log in one line, to the observer one by one.
func reportLeak(taken uintptr, dropped ...*leaseState) {
	dropped = slices.DeleteFunc(dropped, func(ls *leaseState) bool { return !ls.drop() })
	var names, tokens []string
	var left time.Duration
	for _, ls := range dropped {
		ls.hold.stopIfDropped()
		names, tokens = append(names, ls.hold.lock.name), append(tokens, wire.Number(ls.token.Load()))
		left = max(left, ls.hold.Deadline()-ls.hold.lock.client.now())
	}
	at := location(taken)
	for i, ls := range dropped {
		item := news{hold: ls.hold, lease: ls, event: ls.endEvent(observe.EventLeak, false, nil)}
		if i == 0 {
			item.log = func(log *slog.Logger) {
				log.Error("holdfast: a lease was dropped without Release: it is no longer renewed, and the lock stays "+
					"held until its TTL ends", "lock", strings.Join(names, ", "), "taken at", at,
					"token", strings.Join(tokens, ", "), "left", left)
			}
		}
		ls.hold.lock.client.events.tell(item)
	}
}

// leakCheck makes the collector find a lease that was handed over inside the process. To set and
// clear a finalizer takes an eighth of such a hand-over. So a lease that is released leaves its check
// to the hold, for the next lease.
type leakCheck struct{ state *leaseState } // nil while the hold has it

// report is called by the collector when nobody has the check.
func (c *leakCheck) report() {
	if c.state != nil {
		reportLeak(c.state.acquiredPC, c.state)
	}
}

// passLeakCheckOn gives the check of the lease, if it has one, to the hold, for its next lease.
func (l *Lease) passLeakCheckOn() {
	c, h := l.check, l.state.hold
	if c == nil {
		return
	}
	c.state, l.check = nil, nil
	h.mu.Lock()
	h.more().leak = c
	h.mu.Unlock()
}

// startLeakCheck makes the collector report the lease if it is dropped. runtime.AddCleanup would need
// two more allocations for each lease.
func (l *Lease) startLeakCheck() {
	if l.state.mayLeak() {
		runtime.SetFinalizer(l, (*Lease).reportLeak)
	}
}

// mayLeak reports whether the collector reports a lease like this one.
func (ls *leaseState) mayLeak() bool {
	return !ls.hold.lock.client.simulated && !ls.hold.lock.noRenewal
}

// stopLeakCheck ends that: the caller has not dropped the lease.
func (l *Lease) stopLeakCheck() {
	if l.check == nil && l.state.mayLeak() {
		runtime.SetFinalizer(l, nil)
	}
}

// drop marks the lease as dropped. It reports false if the lease had already ended.
func (ls *leaseState) drop() bool {
	ls.hold.mu.Lock()
	ls.hold.more().dropped = true
	ls.hold.mu.Unlock()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.released || ls.cause != nil {
		return false
	}
	ls.dropped = true
	return true
}

// stopIfDropped stops the renewal of a hold whose leases are all dropped. From then on no
// reader joins the hold, and it is not handed over.
func (h *hold) stopIfDropped() {
	if h.noneInUse() {
		h.lock.client.renewer.StopRenewal(&h.Item)
		h.unshare()
	}
}

// inUse reports whether the program still has a lease of the re-entry that began with ls.
func (ls *leaseState) inUse() bool {
	ls.mu.Lock()
	begun := !ls.left && !ls.dropped
	inner := slices.Clone(ls.reentries().inner)
	ls.mu.Unlock()
	return begun || slices.ContainsFunc(inner, func(in *leaseState) bool { return !in.isDropped() })
}

func (ls *leaseState) isDropped() bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.dropped
}

// caller returns the caller of the lock method. above is the number of calls in between.
func caller(above int) uintptr {
	var pc [1]uintptr
	runtime.Callers(2+above, pc[:])
	return pc[0]
}

// location formats a program counter for people.
func location(pc uintptr) string {
	if pc == 0 {
		return "unknown"
	}
	frame, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	return frame.File + ":" + strconv.Itoa(frame.Line)
}
