package memstore

import "fmt"

// raiseFence raises the token of a hold to one that several servers have agreed on.
// It neither lowers a token nor extends a lease.
//
// Answers: raised TOKEN · gone.
func raiseFence(t *step, args *arguments) string {
	attempt, token := args.text(), args.whole()
	t.retention = args.whole()
	owner := args.owner()

	if h := t.holder; h != nil && h.is(attempt, owner) {
		if h.expiry <= t.now {
			return "gone"
		}
		if token > t.fence {
			t.fence = token
			t.extendRecord(h.expiry - t.now)
		}
		return fmt.Sprintf("raised %d", t.fence)
	}
	h := t.shares[attempt]
	if h == nil || h.expiry <= t.now {
		return "gone"
	}
	if token > h.token {
		h.token = token
		t.fence = max(t.fence, token)
		t.extendRecord(h.expiry - t.now)
	}
	return fmt.Sprintf("raised %d", h.token)
}
