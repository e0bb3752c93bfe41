package memstore

// poll asks for a waiter's state, and keeps its position.
//
// Answers: granted TOKEN WAITING · queued POSITION LEFT NOW · gone.
func poll(t *step, args *arguments) string {
	attempt, ttl := args.text(), args.whole()
	t.retention = args.whole()
	waiterTTL := args.whole()
	t.channelPrefix = args.text()
	owner := args.owner()

	t.expire()
	t.queue.clearSilent(clientOf(attempt))
	own, caller := t.queue.find(attempt), ""
	// Only a waiter may become an entry of its owner's hold. So a late poll does not
	// bring back an attempt that was cancelled.
	if token, held := t.reacquire(attempt, owner, ttl, own != nil); held {
		return t.granted(token)
	}
	if own != nil {
		caller = attempt
	}
	token, _ := t.serveQueue(caller)
	if token == 0 && owner != "" {
		// This step may have granted the lock to another attempt of the same owner.
		token, _ = t.reacquire(attempt, owner, ttl, own != nil)
	}
	switch {
	case token != 0:
		return t.granted(token)
	case t.queue.find(attempt) != nil:
		return t.keepWaiting(own, waiterTTL)
	}
	return "gone"
}
