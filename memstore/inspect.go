package memstore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// inspect reads one lock, changing nothing.
//
// Answers: absent · one line for the lock, one for each live holder, one for
// each waiter and one for the last eviction.
func inspect(t *step, a *arguments) string {
	counts := len(a.words) > 0 && a.text() == "p"
	if t.fence == 0 {
		return "absent"
	}
	attempts := t.byToken()
	attempts = slices.DeleteFunc(attempts, func(a string) bool { return t.shares[a].expiry <= t.now })
	var live int64
	for _, attempt := range attempts {
		live += t.shares[attempt].weight
	}

	lines := []string{fmt.Sprintf("lock %d %d %d %d %d %d",
		t.now, t.fence, t.queue.len(), t.expires-t.now, live, t.limit)}
	if h := t.holder; h != nil && h.expiry > t.now {
		owner := "-"
		if len(h.entries) > 0 {
			owner = h.name
		}
		lines = append(lines, fmt.Sprintf("holder x %s %s 1 %d %d %d %d", h.attempts()[0], owner,
			t.fence, min(t.now, t.fence/1000), h.expiry-t.now, len(h.attempts())))
	}
	for _, attempt := range attempts {
		h := t.shares[attempt]
		lines = append(lines, fmt.Sprintf("holder %s %s %s %d %d %d %d 1", h.mode, attempt,
			cmp.Or(h.owner, "-"), h.weight, h.token, h.since, h.expiry-t.now))
	}
	for i, w := range t.queue.waiters {
		if counts {
			break
		}
		lines = append(lines, fmt.Sprintf("waiter %d %s %s %s %d %d %d", i+1, w.mode, w.attempt,
			cmp.Or(w.owner, "-"), w.weight, w.joined, max(w.expiry-t.now, 0)))
	}
	if t.leads() {
		lines = append(lines, "leader "+t.said.value)
	}
	if t.mark != nil {
		lines = append(lines, "period "+t.mark.String())
	}
	if t.evicted != nil {
		lines = append(lines, "evicted "+t.evicted.String())
	}
	return strings.Join(lines, "\n")
}
