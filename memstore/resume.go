package memstore

import "fmt"

// resume lets a leader that has restarted go on leading, past the queue, if nobody has
// taken over. The hold gets a new token, and the value goes on under it.
//
// Answers: resumed TOKEN WAITING LEFT VALUE · gone.
func resume(st *step, args *arguments) string {
	attempt, former, token, ttl := args.text(), args.text(), args.text(), args.whole()
	st.retention = args.whole()
	watch := args.text()
	st.channelPrefix = args.text()

	h := st.holder
	again := h != nil && h.is(attempt, "")
	if !again && (h == nil || !h.is(former, "") || text(st.fence) != token) || h.expiry <= st.now || h.ending {
		return "gone"
	}
	if again {
		st.reacquire(attempt, "", ttl, false)
	}
	left, value := h.expiry-st.now, "="
	if again {
		if st.said != nil && st.said.token == text(st.fence) && st.said.value != "" {
			value = st.said.value
		}
	} else {
		if client := clientOf(former); st.canReachClient(client) {
			st.pushes = append(st.pushes, message{st.channelPrefix + client, "evicted " + former})
		}
		st.noteLost(st.fence)
		st.queue.leave(attempt)
		st.grant(request{attempt: attempt, mode: exclusive, weight: 1, ttl: max(ttl, left)})
		if st.said != nil && st.said.token == token && st.said.value != "" {
			value = st.said.value
			st.said = &said{token: text(st.fence), value: value}
			st.pushes = append(st.pushes, message{watch, "leader " + text(st.fence)})
		}
	}
	return fmt.Sprintf("resumed %d %d %d %s", st.fence, st.queue.len(), left, value)
}
