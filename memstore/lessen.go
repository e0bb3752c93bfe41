package memstore

import "fmt"

// lessen makes less of a hold, a shorter lease or fewer permits, and grants what becomes
// free. Nothing becomes more, so copies of the request may come in any order.
//
// Answers: lessened LEFT PERMITS WAITING · gone.
func lessen(st *step, args *arguments) string {
	attempt, ttl, permits := args.text(), args.whole(), args.whole()
	st.retention, st.channelPrefix = args.whole(), args.text()
	shorter := func(till int64) int64 {
		if ttl > 0 {
			return min(till, st.now+ttl)
		}
		return till
	}

	h, share := st.holder, st.shares[attempt]
	mine := h != nil && h.is(attempt, "") && h.expiry > st.now
	if !mine && (share == nil || share.expiry <= st.now) {
		return "gone"
	}
	st.expire()
	var till, before int64
	keeps := int64(1)
	if mine {
		till, before = shorter(h.expiry), h.expiry
		h.expiry, h.provisional = till, false
	} else {
		till, before = shorter(share.expiry), st.soonest
		if permits > 0 {
			share.weight = min(share.weight, permits)
		}
		keeps = share.weight
		share.expiry, share.provisional = till, false
		st.noteExpiry(till)
	}
	st.serveQueue("")
	if pollAt := st.queue.pollAt; till < before && (pollAt <= st.now || pollAt > till) {
		st.askFirstToPoll(till - st.now)
	}
	return fmt.Sprintf("lessened %d %d %d", till-st.now, keeps, st.queue.len())
}
