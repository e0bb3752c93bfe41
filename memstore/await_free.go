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
func awaitFree(t *step, args *arguments) string {
	want, weight, limit := args.want()
	watches := args.text() == "1"
	t.retention, t.channelPrefix = args.whole(), args.text()

	t.expire()
	_, blocked := t.serveQueue("")
	switch {
	case want == permit && t.limit != 0 && t.limit != limit && (t.queue.len() > 0 || t.kind == permit):
		return fmt.Sprintf("conflict %d", t.limit)
	case !blocked && t.compatible(want, weight):
		return "free"
	}
	t.watched = t.watched || watches
	return fmt.Sprintf("busy %d %d", t.msUntilFree(), t.birth)
}

// holds is what a lock had at the beginning of a step.
type holds struct {
	exclusive   bool
	used, limit int64
	waiting     int64
	fence, till int64
	birth       int64
}

func (t *step) holds() *holds {
	return &holds{
		exclusive: t.holder != nil, used: t.used(), limit: t.limit, waiting: t.queue.len(),
		fence: t.fence, till: t.till(), birth: t.birth,
	}
}

// till is when the first hold may expire; 0: there is none.
func (t *step) till() int64 {
	if t.holder != nil {
		return t.holder.expiry
	}
	return t.soonest
}

// idle reports whether nobody holds the lock and nobody waits.
func (t *step) idle() bool { return t.holder == nil && len(t.shares) == 0 && t.queue.len() == 0 }

// tellWatchers adds the push for the watchers of the lock, if a try of a newcomer could
// succeed now, or could during this step.
func (t *step) tellWatchers() {
	defer func() { t.watched = t.watched && !t.idle() }()
	prefix, rest, _ := strings.Cut(t.key, ":{")
	name, ofLock := strings.CutSuffix(rest, "}")
	if t.before == nil || t.channelPrefix == "" || !ofLock {
		return
	}
	b, used, till := t.before, t.used(), t.till()
	released := b.exclusive && t.holder == nil || used < b.used || t.queue.len() < b.waiting || t.limit != b.limit
	sooner := t.fence == b.fence && till != 0 && b.till != 0 && till < b.till
	if !t.gap && !released && !sooner && t.fence == b.fence {
		return
	}
	channel := prefix + ":watch=" + name
	if t.listening(channel) == 0 {
		t.watched = false
		return
	}
	switch {
	case t.gap:
		t.pushes = append(t.pushes, message{channel, fmt.Sprintf("free - 0 0 %d", b.birth)})
	case released && t.holder == nil && (t.queue.len() == 0 || !t.mustQueue):
		kind := cmp.Or(string(t.kind), "-")
		t.pushes = append(t.pushes, message{channel, fmt.Sprintf("free %s %d %d %d", kind, used, t.limit, b.birth)})
	case sooner:
		t.pushes = append(t.pushes, message{channel, "sooner"})
	}
}
