package memstore

import (
	"fmt"
	"math"
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
// Answers: evicted 1 · free · changed FENCE.
func (s *Store) force(key string, args *arguments) (string, error) {
	e := &eviction{by: args.text(), reason: args.text()}
	_ = args.text()
	retention := args.whole()
	_ = args.text() // the channel prefix: nobody is told
	request, upto := "", int64(math.MaxInt64)
	if args.left() {
		request, upto = args.text(), args.whole()
	}
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
		if request != "" && at.record.eviction == (evictionRequest{request, 1}) {
			return "evicted 1", nil
		}
		fence = at.record.fence
	} else if word := digits.FindString(at.planted["lock"]); len(word) <= 16 {
		fence = parsed(word)
	}
	if fence >= mostToken-1 {
		fence = 0
	}
	if fence > upto {
		return fmt.Sprintf("changed %d", fence), nil
	}
	r := &record{fence: max(micros, fence+1), evicted: e}
	if request != "" {
		r.eviction = evictionRequest{request, 1}
	}
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
	request, upto := "", int64(math.MaxInt64)
	if args.left() {
		request, upto = args.text(), args.whole()
	}

	switch {
	case st.fence == 0:
		return "free"
	case request != "" && st.eviction.request == request:
		return fmt.Sprintf("evicted %d", st.eviction.ended)
	}
	st.expire()
	over := st.takeAway(e, only, upto)
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
		if request != "" {
			st.eviction = evictionRequest{request, len(over)}
		}
		st.serveQueue("")
		return fmt.Sprintf("evicted %d", len(over))
	case only != 0:
		return fmt.Sprintf("changed %d", st.fence)
	}
	st.serveQueue("")
	return "free"
}

// evictionRequest is the last request that has ended holds. A copy of it gets the same answer.
type evictionRequest struct {
	request string
	ended   int
}

// takeAway ends these holds, none with a token above upto, notes their attempts in e and returns their tokens, both in
// the order of the tokens.
func (st *step) takeAway(e *eviction, only, upto int64) (over []int64) {
	if st.holder != nil && st.fence <= upto && (only == 0 || only == st.fence) {
		over, e.attempts = []int64{st.fence}, slices.Clone(st.holder.attempts())
		st.holder = nil
	}
	for _, attempt := range st.byToken() {
		if h := st.shares[attempt]; h.token <= upto && (only == 0 || only == h.token) {
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
