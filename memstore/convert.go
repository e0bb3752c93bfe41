package memstore

import "fmt"

// convert turns a writer's hold into a reader's, or the only reader's into a writer's,
// with nobody in between.
//
// Answers: granted TOKEN WAITING · busy LEFT HOLDER · gone.
func convert(st *step, args *arguments) string {
	attempt, token, want := args.text(), args.whole(), mode(args.text())
	ttl := args.whole()
	st.retention, st.channelPrefix = args.whole(), args.text()
	owner := args.owner()

	st.expire()
	writes := st.holder != nil && st.holder.is(attempt, owner)
	reads := st.liveShare(attempt)
	if writes || reads != nil && reads.mode != shared {
		reads = nil
	}
	switch {
	case writes && st.holder.ending, reads != nil && reads.ending:
		return "gone"
	case want == exclusive && writes, want == shared && reads != nil:
		same, _ := st.reacquire(attempt, owner, ttl, false)
		return st.granted(same)
	case want == shared && writes && token == st.fence:
		if len(st.holder.entries) > 1 {
			return st.busy()
		}
		ttl = max(ttl, st.holder.expiry-st.now)
		st.extendRecord(ttl)
		st.holder = nil
	case want == exclusive && reads != nil && token == reads.token:
		if len(st.shares) > 1 {
			return st.busy()
		}
		ttl, owner = max(ttl, reads.expiry-st.now), reads.owner
		st.extendRecord(ttl)
		st.removeShare(attempt)
	default:
		return "gone"
	}
	st.queue.leave(attempt)
	granted := st.grant(request{attempt: attempt, owner: owner, mode: want, weight: 1, ttl: ttl})
	st.serveQueue("")
	return st.granted(granted)
}

// busy is the answer if the lock is not free.
func (st *step) busy() string { return fmt.Sprintf("busy %d %s", st.msUntilFree(), st.holderName()) }
