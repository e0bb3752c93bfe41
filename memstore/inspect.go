package memstore

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// inspect reads one lock, changing nothing.
//
// Answers: absent · one line for the lock, one for each live holder, one for each waiter and
// one for the last eviction. Of a large record it shows a page. The scripts come to the shares
// and waiters in another order.
func inspect(st *step, a *arguments) string {
	mode := ""
	if len(a.words) > 0 {
		mode = a.text()
	}
	counts := mode == "p" || mode == "h"
	from := ""
	if a.left() {
		from = a.text()
	}
	if st.fence == 0 {
		return "absent"
	}
	attempts, waiters, next := st.page(from, counts)
	var live int64
	for _, attempt := range attempts {
		live += st.shares[attempt].weight
	}

	limit := text(st.limit)
	if st.limit == drained {
		limit = "-"
	}
	lines := []string{fmt.Sprintf("lock %d %d %d %d %d %s",
		st.now, st.fence, st.queue.len(), st.expires-st.now, live, limit)}
	if h := st.holder; h != nil && h.expiry > st.now {
		owner := "-"
		if len(h.entries) > 0 {
			owner = h.name
		}
		lines = append(lines, fmt.Sprintf("holder x %s %s 1 %d %d %d %d%s", h.attempts()[0], owner,
			st.fence, min(st.now, st.fence/1000), h.expiry-st.now, len(h.attempts()), ending(h.ending)))
	}
	for _, attempt := range attempts {
		h := st.shares[attempt]
		lines = append(lines, fmt.Sprintf("holder %s %s %s %d %d %d %d 1%s", h.mode, attempt,
			cmp.Or(h.owner, "-"), h.weight, h.token, h.since, h.expiry-st.now, ending(h.ending)))
	}
	for i, w := range waiters {
		position := int64(i + 1)
		if next != "" {
			position = w.place
		}
		lines = append(lines, fmt.Sprintf("waiter %d %s %s %s %d %d %d", position, w.mode, w.attempt,
			cmp.Or(w.owner, "-"), w.weight, w.joined, max(w.expiry-st.now, 0)))
	}
	if st.leads() {
		lines = append(lines, "leader "+st.said.value)
	}
	if st.mark != nil {
		lines = append(lines, "period "+st.mark.String())
	}
	if st.tries.most > 0 {
		lines = append(lines, "tries "+st.tries.String())
	}
	if st.evicted != nil {
		lines = append(lines, "evicted "+st.evicted.String())
	}
	if next != "" {
		lines = append(lines, "page "+next+" "+st.run)
	}
	return strings.Join(lines, "\n")
}

// ending is the last word of a holder whose end an operator has asked for.
func ending(is bool) string {
	if is {
		return " ending"
	}
	return ""
}

// page returns the live shares and the waiters of the page that begins at from, and where the
// next one begins: 0 after the last one, "" if the whole record is one page. A page begins
// after a share with a token, s TOKEN, or after a waiter with a place, w PLACE.
func (st *step) page(from string, counts bool) (attempts []string, waiters []*waiter, next string) {
	past, isToken := strings.CutPrefix(from, "s")
	if place, isPlace := strings.CutPrefix(from, "w"); isPlace {
		past = place
	}
	after, _ := strconv.ParseInt(past, 10, 64)
	if isToken || from == "" {
		for _, attempt := range st.byToken() {
			h := st.shares[attempt]
			switch {
			case h.token <= after || h.expiry <= st.now:
			case len(attempts) == sweepWindow:
				return attempts, nil, fmt.Sprintf("s%d", st.shares[attempts[sweepWindow-1]].token)
			default:
				attempts = append(attempts, attempt)
			}
		}
		after = 0
	}
	next = "0"
	if from == "" {
		next = ""
	}
	if counts {
		return attempts, nil, next
	}
	for _, w := range st.queue.waiters {
		switch {
		case w.place <= after:
		case len(attempts)+len(waiters) == sweepWindow:
			if len(waiters) > 0 {
				after = waiters[len(waiters)-1].place
			}
			return attempts, waiters, fmt.Sprintf("w%d", after)
		default:
			waiters = append(waiters, w)
		}
	}
	return attempts, waiters, next
}
