package memstore

// poll is a waiter's heartbeat and second look.
//
// Answers: granted TOKEN WAITING · queued PLACE LEFT NOW · gone.
func poll(t *step, args *arguments) string {
	attempt, ttl := args.text(), args.whole()
	t.retention = args.whole()
	waiterTTL := args.whole()
	t.channelPrefix = args.text()
	owner := args.owner()

	t.expire()
	t.queue.clearSilent(clientOf(attempt))
	own, caller := t.queue.find(attempt), ""
	// Only a waiter enters under its named owner: one that has cancelled does
	// not come back by a poll that was long on its way.
	if token, held := t.reacquire(attempt, owner, ttl, own != nil); held {
		return t.granted(token)
	}
	if own != nil {
		caller = attempt
	}
	token, _ := t.serveQueue(caller)
	if token == 0 && owner != "" {
		// The line may just have let in another attempt of the same named owner.
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
