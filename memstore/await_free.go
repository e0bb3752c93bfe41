package memstore

import (
	"cmp"
	"fmt"
	"strings"
)

// awaitFree asks whether a try would get the lock. If it would not, and if the caller
// watches, the caller is pushed when it would.
//
// Answers: free · busy LEFT BIRTH · conflict LIMIT.
func awaitFree(st *step, args *arguments) string {
	want, weight, limit, follow := args.want()
	watches := args.text() == "1"
	st.retention, st.channelPrefix = args.whole(), args.text()

	st.expire()
	_, blocked := st.serveQueue("")
	if want == permit && st.limit != 0 && (st.limit == drained || follow) {
		limit = st.limit
	}
	switch {
	case want == permit && follow && st.limit > 0 && weight > st.limit:
		return fmt.Sprintf("conflict %d", st.limit)
	case want == permit && st.limit != 0 && st.limit != limit && (st.queue.len() > 0 || st.kind == permit):
		return fmt.Sprintf("conflict %d", st.limit)
	case !blocked && st.compatible(want, weight):
		return "free"
	}
	st.watched = st.watched || watches
	return fmt.Sprintf("busy %d %d", st.msUntilFree(), st.birth)
}

// holds is what a lock had at the beginning of a step.
type holds struct {
	exclusive   bool
	used, limit int64
	waiting     int64
	fence, till int64
	birth       int64
}

func (st *step) holds() *holds {
	return &holds{
		exclusive: st.holder != nil, used: st.used(), limit: st.limit, waiting: st.queue.len(),
		fence: st.fence, till: st.till(), birth: st.birth,
	}
}

// till is when the first hold may expire; 0: there is none.
func (st *step) till() int64 {
	if st.holder != nil {
		return st.holder.expiry
	}
	return st.soonest
}

// idle reports whether nobody holds the lock and nobody waits.
func (st *step) idle() bool { return st.holder == nil && len(st.shares) == 0 && st.queue.len() == 0 }

// tellWatchers adds the push for the watchers of the lock, if a try of a newcomer could
// succeed now, or could during this step.
func (st *step) tellWatchers() {
	defer func() { st.watched = st.watched && !st.idle() }()
	prefix, rest, _ := strings.Cut(st.key, ":{")
	name, ofLock := strings.CutSuffix(rest, "}")
	if st.before == nil || st.channelPrefix == "" || !ofLock {
		return
	}
	b, used, till := st.before, st.used(), st.till()
	released := b.exclusive && st.holder == nil || used < b.used || st.queue.len() < b.waiting || st.limit != b.limit
	sooner := st.fence == b.fence && till != 0 && b.till != 0 && till < b.till
	if !st.gap && !released && !sooner && st.fence == b.fence {
		return
	}
	channel := prefix + ":watch=" + name
	if st.listening(channel) == 0 {
		st.watched = false
		return
	}
	switch {
	case st.limit == drained: // a try of permits would not succeed
	case st.gap:
		st.pushes = append(st.pushes, message{channel, fmt.Sprintf("free - 0 0 %d", b.birth)})
	case released && st.holder == nil && (st.queue.len() == 0 || !st.mustQueue):
		kind := cmp.Or(string(st.kind), "-")
		st.pushes = append(st.pushes, message{channel, fmt.Sprintf("free %s %d %d %d", kind, used, st.limit, b.birth)})
	case sooner:
		st.pushes = append(st.pushes, message{channel, "sooner"})
	}
}
