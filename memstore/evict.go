package memstore

import (
	"fmt"
	"regexp"
	"slices"
)

// mostNamed is how many of the holders that an eviction has ended the record names.
const mostNamed = 256

// forced is the word of an eviction that removes the record, whatever it is.
const forced = "force"

// force removes what is at the key, and puts a record without holders there. It believes
// nothing but the fence.
//
// Answers: evicted 1 · free.
func (s *Store) force(key string, args *arguments) (string, error) {
	e := &eviction{by: args.text(), reason: args.text()}
	_ = args.text()
	retention := args.whole()
	if args.wrong != "" {
		return "", args.problem("evict")
	}
	at := s.lookup(key)
	if at == nil {
		return "free", nil
	}
	micros := s.now().UnixMicro()
	var fence int64
	if at.record != nil {
		fence = at.record.fence
	} else if word := digits.FindString(at.planted["lock"]); len(word) <= 16 {
		fence = parsed(word)
	}
	if fence >= mostToken-1 {
		fence = 0
	}
	r := &record{fence: max(micros, fence+1), evicted: e}
	r.birth, e.when = r.fence, micros/1000
	st := &step{record: r, micros: micros, now: micros / 1000, retention: retention}
	s.entries[key] = &entry{record: r, expires: st.lifeEnd(0)}
	return "evicted 1", nil
}

var digits = regexp.MustCompile(`^\d*`)

// evict ends all holds of the lock, or the one with the given token. The fence rises above
// all of them before the next waiter is granted.
//
// Answers: evicted HOLDS · free · changed FENCE.
func evict(st *step, args *arguments) string {
	e := &eviction{when: st.now, by: args.text(), reason: args.text()}
	only := args.whole() // 0: whatever is held
	st.retention, st.channelPrefix = args.whole(), args.text()

	if st.fence == 0 {
		return "free"
	}
	st.expire()
	over := st.takeAway(e, only)
	switch {
	case len(over) > 0:
		for _, token := range over {
			st.noteLost(token)
		}
		st.fence, st.evicted = st.nextToken(), e
		st.extendRecord(0)
		for _, attempt := range e.attempts {
			if client := clientOf(attempt); st.canReachClient(client) {
				st.pushes = append(st.pushes, message{st.channelPrefix + client, "evicted " + attempt})
			}
		}
		e.attempts = e.attempts[:min(len(e.attempts), mostNamed)]
		st.serveQueue("")
		return fmt.Sprintf("evicted %d", len(over))
	case only != 0:
		return fmt.Sprintf("changed %d", st.fence)
	}
	st.serveQueue("")
	return "free"
}

// takeAway ends these holds, notes their attempts in e and returns their tokens, both in
// the order of the tokens.
func (st *step) takeAway(e *eviction, only int64) (over []int64) {
	if st.holder != nil && (only == 0 || only == st.fence) {
		over, e.attempts = []int64{st.fence}, slices.Clone(st.holder.attempts())
		st.holder = nil
	}
	for _, attempt := range st.byToken() {
		if h := st.shares[attempt]; only == 0 || only == h.token {
			over, e.attempts = append(over, h.token), append(e.attempts, attempt)
			st.removeShare(attempt)
		}
	}
	if len(over) > 0 && len(st.shares) > 0 {
		st.soonest, st.sweep = 0, sweep{}
		for _, h := range st.shares {
			st.soonest = earlier(st.soonest, h.expiry)
		}
	}
	slices.Sort(over)
	return over
}
