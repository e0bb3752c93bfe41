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

// grant writes a holder in and answers its token. The caller has made sure
// that it fits.
func (t *step) grant(r request) (token int64) {
	t.fence = t.nextToken()
	if t.birth == 0 {
		t.birth = t.fence
	}
	if r.mode == exclusive {
		t.holder = &holder{name: r.attempt, expiry: t.now + r.ttl}
		if r.owner != "" {
			t.holder.name, t.holder.entries = r.owner, []string{r.attempt}
		}
	} else {
		t.share(r)
	}
	if r.mode == exclusive && t.line.len() == 0 {
		t.expires = t.life(r.ttl) // nothing but this lease needs the record
	} else {
		t.keep(r.ttl)
	}
	return t.fence
}

func (t *step) share(r request) {
	expiry := t.now + r.ttl
	if len(t.shares) == 0 {
		t.kind, t.soonest = r.mode, expiry
		t.shares = map[string]*share{}
	}
	t.soonest = min(t.soonest, expiry)
	t.shares[r.attempt] = &share{
		mode:   r.mode,
		expiry: expiry,
		weight: r.weight,
		token:  t.fence,
		since:  t.now,
		owner:  r.owner,
	}
}

// again answers the token of a hold that the attempt has already: its request
// came twice, or, if it enters, it is one more entry under a named owner. The
// lease is counted from now; a place in the line that it no longer needs is
// given up.
func (t *step) again(attempt, owner string, ttl int64, enters bool) (token int64, held bool) {
	if h := t.holder; h != nil && (h.is(attempt, owner) || enters && h.admits(owner)) {
		t.keep(ttl)
		if !h.is(attempt, owner) {
			h.entries = append(h.entries, attempt)
			t.line.leave(attempt)
		}
		h.expiry = max(h.expiry, t.now+ttl)
		return t.fence, true
	}
	h := t.shares[attempt]
	if h == nil {
		return 0, false
	}
	h.expiry = max(h.expiry, t.now+ttl)
	t.keep(ttl)
	return h.token, true
}
