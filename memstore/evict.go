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
	if args.left() {
		_ = args.text() // by force the holds end at once
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

// asks is the word of an eviction that lets the holders end.
const asks = "ask"

// evict ends all holds of the lock, or the one with the given token, or asks for their end. If it ends
// some, the fence rises above all of them before the next waiter is granted.
//
// Answers: evicted HOLDS · free · changed FENCE.
func evict(st *step, args *arguments) string {
	e := &eviction{when: st.now, by: args.text(), reason: args.text()}
	only := args.whole() // 0: whatever is held
	st.retention, st.channelPrefix = args.whole(), args.text()
	request, upto, how := "", int64(math.MaxInt64), ""
	if args.left() {
		request, upto = args.text(), args.whole()
	}
	if args.left() {
		how = args.text()
	}

	switch {
	case st.fence == 0:
		return "free"
	case request != "" && st.eviction.request == request:
		return fmt.Sprintf("evicted %d", st.eviction.ended)
	}
	st.expire()
	meant := func(token int64) bool { return token <= upto && (only == 0 || only == token) }
	over, asked := st.takeAway(e, meant, how == asks)
	switch n := len(over) + asked; {
	case n > 0:
		for _, token := range over {
			st.noteLost(token)
		}
		st.evicted = e
		if len(over) > 0 {
			st.fence = st.nextToken()
		}
		st.extendRecord(0)
		for _, attempt := range e.attempts {
			if client := clientOf(attempt); st.canReachClient(client) {
				st.pushes = append(st.pushes, message{st.channelPrefix + client, "evicted " + attempt})
			}
		}
		e.attempts = e.attempts[:min(len(e.attempts), mostNamed)]
		if request != "" {
			st.eviction = evictionRequest{request, n}
		}
		st.serveQueue("")
		return fmt.Sprintf("evicted %d", n)
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

// takeAway ends the holds that are meant and returns their tokens, or asks for the end of those that run and
// returns how many. It notes their attempts in e. Tokens and attempts are in the order of the tokens.
func (st *step) takeAway(e *eviction, meant func(token int64) bool, ask bool) (over []int64, asked int) {
	if h := st.holder; h != nil && meant(st.fence) {
		e.attempts = slices.Clone(h.attempts())
		if ask && h.name != keptHolder {
			h.ending, h.provisional = true, false
			return nil, 1
		}
		over, st.holder = []int64{st.fence}, nil
	}
	for _, attempt := range st.byToken() {
		h := st.shares[attempt]
		if !meant(h.token) {
			continue
		}
		e.attempts = append(e.attempts, attempt)
		if ask {
			h.ending, h.provisional = true, false
			asked++
			continue
		}
		over = append(over, h.token)
		st.removeShare(attempt)
	}
	if len(over) > 0 && len(st.shares) > 0 {
		st.soonest, st.sweep = 0, sweep{}
		for _, h := range st.shares {
			st.soonest = earlier(st.soonest, h.expiry)
		}
	}
	slices.Sort(over)
	return over, asked
}
