package memstore

import "fmt"

// convert turns a writer's hold into a reader's, or the only reader's into a writer's,
// with nobody in between.
//
// Answers: granted TOKEN WAITING · busy LEFT HOLDER · gone.
func convert(t *step, args *arguments) string {
	attempt, token, want := args.text(), args.whole(), mode(args.text())
	ttl := args.whole()
	t.retention, t.channelPrefix = args.whole(), args.text()
	owner := args.owner()

	t.expire()
	writes := t.holder != nil && t.holder.is(attempt, owner)
	reads := t.liveShare(attempt)
	if writes || reads != nil && reads.mode != shared {
		reads = nil
	}
	switch {
	case want == exclusive && writes, want == shared && reads != nil:
		same, _ := t.reacquire(attempt, owner, ttl, false)
		return t.granted(same)
	case want == shared && writes && token == t.fence:
		if len(t.holder.entries) > 1 {
			return t.busy()
		}
		ttl = max(ttl, t.holder.expiry-t.now)
		t.extendRecord(ttl)
		t.holder = nil
	case want == exclusive && reads != nil && token == reads.token:
		if len(t.shares) > 1 {
			return t.busy()
		}
		ttl, owner = max(ttl, reads.expiry-t.now), reads.owner
		t.extendRecord(ttl)
		t.removeShare(attempt)
	default:
		return "gone"
	}
	t.queue.leave(attempt)
	granted := t.grant(request{attempt: attempt, owner: owner, mode: want, weight: 1, ttl: ttl})
	t.serveQueue("")
	return t.granted(granted)
}

// busy is the answer if the lock is not free.
func (t *step) busy() string { return fmt.Sprintf("busy %d %s", t.msUntilFree(), t.holderName()) }
