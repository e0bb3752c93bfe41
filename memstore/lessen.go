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

	h, share := t.holder, t.shares[attempt]
	mine := h != nil && h.is(attempt, "") && h.expiry > t.now
	if !mine && (share == nil || share.expiry <= t.now) {
		return "gone"
	}
	t.expire()
	var till, before int64
	keeps := int64(1)
	if mine {
		till, before = shorter(h.expiry), h.expiry
		h.expiry, h.provisional = till, false
	} else {
		till, before = shorter(share.expiry), t.soonest
		if permits > 0 {
			share.weight = min(share.weight, permits)
		}
		keeps = share.weight
		share.expiry, share.provisional = till, false
		t.noteExpiry(till)
	}
	t.serveQueue("")
	if pollAt := t.queue.pollAt; till < before && (pollAt <= t.now || pollAt > till) {
		t.askFirstToPoll(till - t.now)
	}
	return fmt.Sprintf("lessened %d %d %d", till-t.now, keeps, t.queue.len())
}
