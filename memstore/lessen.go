package memstore

import "fmt"

// lessen makes less of a hold, a shorter lease or fewer permits, and grants what becomes
// free. Nothing becomes more, so copies of the request may come in any order.
//
// Answers: lessened LEFT PERMITS WAITING · gone.
func lessen(t *step, args *arguments) string {
	attempt, ttl, permits := args.text(), args.whole(), args.whole()
	t.retention, t.channelPrefix = args.whole(), args.text()
	shorter := func(till int64) int64 {
		if ttl > 0 {
			return min(till, t.now+ttl)
		}
		return till
	}

	t.expire()
	var till, before int64
	keeps := int64(1)
	if h := t.holder; h != nil && h.is(attempt, "") {
		till, before = shorter(h.expiry), h.expiry
		h.expiry, h.provisional = till, false
	} else if h := t.shares[attempt]; h != nil {
		till, before = shorter(h.expiry), t.soonest
		if permits > 0 {
			h.weight = min(h.weight, permits)
		}
		keeps = h.weight
		h.expiry, h.provisional = till, false
		t.soonest = min(t.soonest, till)
	}
	t.serveQueue("")
	if till == 0 {
		return "gone"
	}
	if pollAt := t.queue.pollAt; till < before && (pollAt <= t.now || pollAt > till) {
		t.askFirstToPoll(till - t.now)
	}
	return fmt.Sprintf("lessened %d %d %d", till-t.now, keeps, t.queue.len())
}
