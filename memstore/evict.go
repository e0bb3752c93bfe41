package memstore

import (
	"fmt"
	"slices"
)

// mostNamed is how many of the holders that an eviction has ended the record names.
const mostNamed = 256

// evict ends all holds of the lock, or the one with the given token. The fence rises above
// all of them before the next waiter is granted.
//
// Answers: evicted HOLDS · free · changed FENCE.
func evict(t *step, args *arguments) string {
	e := &eviction{when: t.now, by: args.text(), reason: args.text()}
	only := args.whole() // 0: whatever is held
	t.retention, t.channelPrefix = args.whole(), args.text()

	if t.fence == 0 {
		return "free"
	}
	t.expire()
	over := t.takeAway(e, only)
	switch {
	case len(over) > 0:
		for _, token := range over {
			t.noteLost(token)
		}
		t.fence, t.evicted = t.nextToken(), e
		t.extendRecord(0)
		for _, attempt := range e.attempts {
			if client := clientOf(attempt); t.canReachClient(client) {
				t.pushes = append(t.pushes, message{t.channelPrefix + client, "evicted " + attempt})
			}
		}
		e.attempts = e.attempts[:min(len(e.attempts), mostNamed)]
		t.serveQueue("")
		return fmt.Sprintf("evicted %d", len(over))
	case only != 0:
		return fmt.Sprintf("changed %d", t.fence)
	}
	t.serveQueue("")
	return "free"
}

// takeAway ends these holds, notes their attempts in e and returns their tokens, both in
// the order of the tokens.
func (t *step) takeAway(e *eviction, only int64) (over []int64) {
	if t.holder != nil && (only == 0 || only == t.fence) {
		over, e.attempts = []int64{t.fence}, slices.Clone(t.holder.attempts())
		t.holder = nil
	}
	for _, attempt := range t.byToken() {
		if h := t.shares[attempt]; only == 0 || only == h.token {
			over, e.attempts = append(over, h.token), append(e.attempts, attempt)
			t.removeShare(attempt)
		}
	}
	if len(over) > 0 && len(t.shares) > 0 {
		t.soonest, t.sweep = 0, sweep{}
		for _, h := range t.shares {
			t.soonest = earlier(t.soonest, h.expiry)
		}
	}
	slices.Sort(over)
	return over
}
