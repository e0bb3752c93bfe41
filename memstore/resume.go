package memstore

import "fmt"

// resume lets a leader that has restarted go on leading, past the queue, if nobody has
// taken over. The hold gets a new token, and the value goes on under it.
//
// Answers: resumed TOKEN WAITING LEFT VALUE · gone.
func resume(t *step, args *arguments) string {
	attempt, former, token, ttl := args.text(), args.text(), args.text(), args.whole()
	t.retention = args.whole()
	watch := args.text()
	t.channelPrefix = args.text()

	h := t.holder
	again := h != nil && h.is(attempt, "")
	if !again && (h == nil || !h.is(former, "") || text(t.fence) != token) || h.expiry <= t.now {
		return "gone"
	}
	if again {
		t.reacquire(attempt, "", ttl, false)
	}
	left, value := h.expiry-t.now, "="
	if again {
		if t.said != nil && t.said.token == text(t.fence) && t.said.value != "" {
			value = t.said.value
		}
	} else {
		if client := clientOf(former); t.canReachClient(client) {
			t.pushes = append(t.pushes, message{t.channelPrefix + client, "evicted " + former})
		}
		t.noteLost(t.fence)
		t.queue.leave(attempt)
		t.grant(request{attempt: attempt, mode: exclusive, weight: 1, ttl: max(ttl, left)})
		if t.said != nil && t.said.token == token && t.said.value != "" {
			value = t.said.value
			t.said = &said{token: text(t.fence), value: value}
			t.pushes = append(t.pushes, message{watch, "leader " + text(t.fence)})
		}
	}
	return fmt.Sprintf("resumed %d %d %d %s", t.fence, t.queue.len(), left, value)
}
