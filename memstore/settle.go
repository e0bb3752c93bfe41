package memstore

import "slices"

// settle ends every hold whose expiry has passed and remembers its token as
// lost. soonest is a lower bound, so the shares are looked through only when
// one of them may be over; the look finds the true soonest.
func (t *step) settle() {
	if t.holder != nil && t.holder.expiry <= t.now {
		if t.holder.name != staying { // what was given up is over, not lost
			t.lose(t.fence)
		}
		t.holder = nil
	}
	if len(t.shares) == 0 || t.soonest > t.now {
		return
	}
	var over []int64
	for attempt, h := range t.shares {
		if h.expiry <= t.now {
			over = append(over, h.token)
			t.drop(attempt)
		}
	}
	t.soonest = t.earliest()
	slices.Sort(over)
	for _, token := range over {
		t.lose(token)
	}
}
