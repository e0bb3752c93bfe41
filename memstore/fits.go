package memstore

// compatible says whether a hold of this mode and weight may stand beside those that
// stand: nobody beside an exclusive holder, shared beside shared, permits
// beside permits up to the limit, and anybody where nobody holds.
func (t *step) compatible(want mode, weight int64) bool {
	switch {
	case t.holder != nil:
		return false
	case len(t.shares) == 0:
		return true
	case want == exclusive || want != t.kind:
		return false
	case want == shared:
		return true
	}
	return t.used()+weight <= t.limit
}
