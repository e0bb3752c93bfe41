package memstore

import "fmt"

// acquire takes the lock if it is free; otherwise it joins its wait queue, if asked to.
//
// Answers: granted TOKEN WAITING · queued POSITION LEFT NOW · busy LEFT HOLDER ·
// conflict LIMIT.
func acquire(st *step, args *arguments) string {
	r := request{attempt: args.text(), ttl: args.whole()}
	st.retention = args.whole() - r.ttl
	var limit int64
	var follow bool
	r.mode, r.weight, limit, follow = args.want()
	waiterTTL := args.whole()
	st.channelPrefix, r.owner = args.text(), args.owner()

	st.expire()
	st.queue.clearSilent(clientOf(r.attempt))
	if token, held := st.reacquire(r.attempt, r.owner, r.ttl, true); held {
		return st.granted(token)
	}
	if st.isEnding(r.attempt, r.owner) { // a copy of the request that granted the hold
		return st.busy()
	}
	if r.mode == permit && st.limit != 0 && (st.limit == drained || follow) {
		limit = st.limit
	}
	if r.mode == permit && r.weight > limit && st.limit != drained {
		return fmt.Sprintf("conflict %d", limit)
	}

	own := st.queue.find(r.attempt)
	caller := ""
	if own != nil {
		caller = r.attempt
	}
	token, blocked := st.serveQueue(caller)
	if token == 0 && r.owner != "" {
		// This step may have granted the lock to another attempt of the same owner.
		token, _ = st.reacquire(r.attempt, r.owner, r.ttl, true)
	}
	switch {
	case token != 0:
		return st.granted(token)
	case st.queue.find(r.attempt) != nil:
		return st.keepWaiting(own, waiterTTL)
	case r.mode == permit && !st.agree(limit):
		return fmt.Sprintf("conflict %d", st.limit)
	case st.compatible(r.mode, r.weight) && (!blocked || st.reenters(r)):
		return st.granted(st.grant(r))
	case waiterTTL == 0:
		return st.busy()
	}

	w := &waiter{request: r, expiry: st.now + waiterTTL, joined: st.now}
	st.queue.join(w)
	st.extendRecord(waiterTTL)
	if (st.unfinished || st.sweeping()) && st.canReach(w) {
		st.askToPoll(w, 1)
	}
	return fmt.Sprintf("queued %d %d %d", st.queue.ahead(w), st.msUntilFree(), st.now)
}

// granted is the answer to an attempt that holds the lock.
func (st *step) granted(token int64) string {
	return fmt.Sprintf("granted %d %d", token, st.queue.len())
}

// agree reports whether the limit is the one in force. A limit is in force while permits
// are held or an attempt waits. If none is in force, this one is from now on.
func (st *step) agree(limit int64) bool {
	inForce := st.limit != 0 && (st.queue.len() > 0 || st.kind == permit)
	if !inForce {
		st.limit = limit
	}
	return st.limit == limit
}

// reenters reports whether a reader's owner holds the lock already. Such a reader does not
// queue behind a writer, because that writer waits for the reader.
func (st *step) reenters(r request) bool {
	if r.owner == "" || r.mode != shared || st.kind != shared {
		return false
	}
	for _, h := range st.shares {
		if h.owner == r.owner {
			return true
		}
	}
	return false
}

// holderName is the exclusive holder, or - without one.
func (st *step) holderName() string {
	if st.holder == nil {
		return "-"
	}
	return st.holder.name
}
