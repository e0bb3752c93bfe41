package memstore

// request is an acquisition: what a newcomer asks for, or a waiter wants.
type request struct {
	attempt string
	owner   string // "" without a named owner
	mode    mode
	weight  int64
	ttl     int64
}

// nextToken is the token of the next grant: above every earlier one, and the
// clock where that is higher.
func (t *step) nextToken() int64 { return max(t.micros, t.fence+1) }

// provisionalLease is the lease of a grant that is pushed, in ms, until it is confirmed.
func provisionalLease(ttl int64) int64 { return min(ttl, max(2000, ttl/10)) }

// grant writes a holder in and answers its token. The caller has made sure
// that it fits.
func (t *step) grant(r request) (token int64) { return t.addHolder(r, r.ttl, false) }

// grantProvisional is grant for one who is told by a push: it holds provisionalLease until it asks.
func (t *step) grantProvisional(r request) (token int64) {
	return t.addHolder(r, provisionalLease(r.ttl), true)
}

func (t *step) addHolder(r request, lease int64, provisional bool) (token int64) {
	t.fence = t.nextToken()
	if t.birth == 0 {
		t.birth = t.fence
	}
	if r.mode == exclusive {
		t.holder = &holder{name: r.attempt, expiry: t.now + lease, provisional: provisional}
		if r.owner != "" {
			t.holder.name, t.holder.entries = r.owner, []string{r.attempt}
		}
	} else {
		t.share(r, t.now+lease, provisional)
	}
	if r.mode == exclusive && t.line.len() == 0 {
		t.expires = t.lifeEnd(r.ttl) // nothing but this lease needs the record
	} else {
		t.extendRecord(r.ttl)
	}
	return t.fence
}

func (t *step) share(r request, expiry int64, provisional bool) {
	if len(t.shares) == 0 {
		t.kind, t.soonest = r.mode, expiry
		t.shares = map[string]*share{}
	}
	t.soonest = min(t.soonest, expiry)
	t.shares[r.attempt] = &share{
		mode:        r.mode,
		expiry:      expiry,
		weight:      r.weight,
		token:       t.fence,
		since:       t.now,
		owner:       r.owner,
		provisional: provisional,
	}
}

// reacquire answers the token of a hold that the attempt has already: its request
// came twice, or, if it enters, it is one more entry under a named owner. The
// lease is counted from now; a place in the line that it no longer needs is
// given up.
func (t *step) reacquire(attempt, owner string, ttl int64, enters bool) (token int64, held bool) {
	if h := t.holder; h != nil && (h.is(attempt, owner) || enters && h.admits(owner)) {
		t.extendRecord(ttl)
		if !h.is(attempt, owner) {
			h.entries = append(h.entries, attempt)
			t.line.leave(attempt)
		}
		h.expiry, h.provisional = max(h.expiry, t.now+ttl), false
		return t.fence, true
	}
	h := t.shares[attempt]
	if h == nil {
		return 0, false
	}
	h.expiry, h.provisional = max(h.expiry, t.now+ttl), false
	t.extendRecord(ttl)
	return h.token, true
}
