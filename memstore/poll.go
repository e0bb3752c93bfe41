package memstore

// poll asks for a waiter's state, and keeps its position.
//
// Answers: granted TOKEN WAITING · queued POSITION LEFT NOW · gone.
func poll(st *step, args *arguments) string {
	attempt, ttl := args.text(), args.whole()
	st.retention = args.whole()
	waiterTTL := args.whole()
	st.channelPrefix = args.text()
	owner := args.owner()

	st.expire()
	st.queue.clearSilent(clientOf(attempt))
	own, caller := st.queue.find(attempt), ""
	// Only a waiter may become an entry of its owner's hold. So a late poll does not
	// bring back an attempt that was cancelled.
	if token, held := st.reacquire(attempt, owner, ttl, own != nil); held {
		return st.granted(token)
	}
	if own != nil {
		caller = attempt
	}
	token, _ := st.serveQueue(caller)
	if token == 0 && owner != "" {
		// This step may have granted the lock to another attempt of the same owner.
		token, _ = st.reacquire(attempt, owner, ttl, own != nil)
	}
	switch {
	case token != 0:
		return st.granted(token)
	case st.queue.find(attempt) != nil:
		return st.keepWaiting(own, waiterTTL)
	}
	return "gone"
}
