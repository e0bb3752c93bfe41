package memstore

// expire ends every hold whose expiry has passed and remembers its token as
// lost. soonest is a lower bound, so the shares are looked through only when
// one of them may be over; the look finds the true soonest.
func (t *step) expire() {
	if t.holder != nil && t.holder.expiry <= t.now {
		if t.holder.name != keptHolder { // what was given up is over, not lost
			t.noteLost(t.fence)
		}
		if t.holder.provisional {
			for _, attempt := range t.holder.attempts() {
				t.line.markSilent(clientOf(attempt))
			}
		}
		t.holder = nil
	}
	if len(t.shares) == 0 || t.soonest > t.now {
		return
	}
	for _, attempt := range t.byToken() {
		h := t.shares[attempt]
		if h.expiry > t.now {
			continue
		}
		t.noteLost(h.token)
		if h.provisional {
			t.line.markSilent(clientOf(attempt))
		}
		t.removeShare(attempt)
	}
	t.soonest = t.earliest()
}
