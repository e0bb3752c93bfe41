package memstore

import "fmt"

// acquire takes the lock if it is free; otherwise it joins its wait queue, if asked to.
//
// Answers: granted TOKEN WAITING · queued POSITION LEFT NOW · busy LEFT HOLDER ·
// conflict LIMIT.
func acquire(t *step, args *arguments) string {
	r := request{attempt: args.text(), ttl: args.whole()}
	t.retention = args.whole() - r.ttl
	var limit int64
	r.mode, r.weight, limit = args.want()
	waiterTTL := args.whole()
	t.channelPrefix, r.owner = args.text(), args.owner()

	t.expire()
	t.queue.clearSilent(clientOf(r.attempt))
	if token, held := t.reacquire(r.attempt, r.owner, r.ttl, true); held {
		return t.granted(token)
	}
	if r.mode == permit && r.weight > limit {
		return fmt.Sprintf("conflict %d", limit)
	}

	own := t.queue.find(r.attempt)
	caller := ""
	if own != nil {
		caller = r.attempt
	}
	token, blocked := t.serveQueue(caller)
	if token == 0 && r.owner != "" {
		// This step may have granted the lock to another attempt of the same owner.
		token, _ = t.reacquire(r.attempt, r.owner, r.ttl, true)
	}
	switch {
	case token != 0:
		return t.granted(token)
	case t.queue.find(r.attempt) != nil:
		return t.keepWaiting(own, waiterTTL)
	case r.mode == permit && !t.agree(limit):
		return fmt.Sprintf("conflict %d", t.limit)
	case t.compatible(r.mode, r.weight) && (!blocked || t.reenters(r)):
		return t.granted(t.grant(r))
	case waiterTTL == 0:
		return t.busy()
	}

	w := &waiter{request: r, expiry: t.now + waiterTTL, joined: t.now}
	t.queue.join(w)
	t.extendRecord(waiterTTL)
	if (t.unfinished || t.sweeping()) && t.canReach(w) {
		t.askToPoll(w, 1)
	}
	return fmt.Sprintf("queued %d %d %d", t.queue.ahead(w), t.msUntilFree(), t.now)
}

// granted is the answer to an attempt that holds the lock.
func (t *step) granted(token int64) string {
	return fmt.Sprintf("granted %d %d", token, t.queue.len())
}

// agree reports whether the limit is the one in force. A limit is in force while permits
// are held or an attempt waits. If none is in force, this one is from now on.
func (t *step) agree(limit int64) bool {
	inForce := t.limit != 0 && (t.queue.len() > 0 || t.kind == permit)
	if !inForce {
		t.limit = limit
	}
	return t.limit == limit
}

// reenters reports whether a reader's owner holds the lock already. Such a reader does not
// queue behind a writer, because that writer waits for the reader.
func (t *step) reenters(r request) bool {
	if r.owner == "" || r.mode != shared || t.kind != shared {
		return false
	}
	for _, h := range t.shares {
		if h.owner == r.owner {
			return true
		}
	}
	return false
}

// holderName is the exclusive holder, or - without one.
func (t *step) holderName() string {
	if t.holder == nil {
		return "-"
	}
	return t.holder.name
}
