package memstore

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// mostToken is above every token. Adding a few to a token below it gives an exact number in Lua.
const mostToken = 9_000_000_000_000_000

// mostTime is above every time, in ms.
const mostTime = 1_000_000_000_000_000

// mostName is the longest name of an owner, in bytes: one has up to 512, encoded.
const mostName = 2048

// The forms of a record's fields. A number has no 0 in front, but where one marks a provisional hold, or two a
// hold that is to end. A time or a count has at most 15 digits, a length of time 14, and a token 16.
var (
	lockForm  = regexp.MustCompile(`^([1-9]\d{0,15})(?: (-?)(0{0,2})(\d{1,16}) (@?)([^\s\v]+?)( \+?!?| \+1 .*)?)?$`)
	aloneForm = regexp.MustCompile(`^ \+1 ([1-9]\d{0,14}) ([1-9]\d{0,14}) ([1-9]\d{0,13}) 0([1-9]\d*) ` +
		`([^\s\v/]+/[^\s\v]+)$`)
	sharesForm = regexp.MustCompile(`^([1-9]\d{0,14}) ([sp]) ([1-9]\d{0,14})` +
		`(?: >([1-9]\d{0,17}):([0-9A-Za-z]{0,64}):([1-9]\d{0,14})?)?$`)
	queueForm = regexp.MustCompile(`^([1-9]\d{0,14}) ([1-9]\d{0,14}) ([1-9]\d{0,14})` +
		`(?: ~([1-9]\d{0,14}):([1-9]\d{0,14}))?(?: >([1-9]\d{0,14}))?` +
		`(?: \?([1-9]\d{0,14}):([1-9]\d{0,14})((?::[1-9]\d{0,14}){0,16}))?((?: [^\s\v~>?][^\s\v]*){0,16})$`)
	shareForm = regexp.MustCompile(`^([sp]) (0{0,2})([1-9]\d{0,14}) ([1-9]\d{0,14}) ([1-9]\d{0,15}) ([1-9]\d{0,14})` +
		`(?: ([^\s\v]+))?$`)
	waiterForm = regexp.MustCompile(`^([1-9]\d{0,14}) ([xsp]) ([1-9]\d{0,14}) ([1-9]\d{0,13}) ([1-9]\d{0,14}) ` +
		`([1-9]\d{0,14})(?: ([^\s\v]+))?$`)
	evictedForm = regexp.MustCompile(`^([1-9]\d{0,15}) ([^\s\v]+) ([^\s\v]+)((?: [^\s\v]+)*)$`)
	periodForm  = regexp.MustCompile(`^(0|-?[1-9]\d{0,14}|[1-9]\d{15}) (-|[^\s\v/]+/[^\s\v]+) ([1-9]\d{0,15}) ` +
		`(-|0|-?[1-9]\d{0,14}|[1-9]\d{15})$`)
	triesForm    = regexp.MustCompile(`^(0|[1-9]\d{0,15}) ([1-9]\d{0,15})$`)
	leaderForm   = regexp.MustCompile(`^([1-9]\d{0,15}) (0|[1-9]\d{0,15})(?: (=[^\s\v]*))?$`)
	attemptForm  = regexp.MustCompile(`^[^\s\v/]+/[^\s\v]+$`)
	evictionForm = regexp.MustCompile(`^([^\s\v]+) ([1-9]\d{0,14})$`)
	tokenForm    = regexp.MustCompile(`^[1-9]\d{0,15}$`)
	limitForm    = regexp.MustCompile(`^(?:0|[1-9]\d{0,14})$`)
)

// parser reads a record from its fields. A script refuses what it reads; the twins refuse a
// record as a whole.
type parser struct {
	fields map[string]string
	record *record
	bad    string // the first field that no version wrote
	odd    string // the first field that does not agree with others, though each has a known form
}

// parse reads a record. If a field is of no form that a version writes, or does not agree with
// others, it says which, and returns no record. It ignores fields of later versions.
func parse(fields map[string]string) (r *record, damaged string) {
	p := &parser{fields: maps.Clone(fields), record: &record{}}
	maps.DeleteFunc(p.fields, func(_, value string) bool { return value == "" }) // as if absent
	p.lock()
	p.tokens()
	p.shares()
	p.queue()
	p.rest()
	switch {
	case p.bad != "":
		return nil, "no Holdfast wrote its field " + p.bad
	case p.odd != "":
		return nil, "its field " + p.odd + " does not agree with others"
	}
	return p.record, ""
}

// match returns the parts of a field, nil if there is no such field.
func (p *parser) match(field string, form *regexp.Regexp) []string {
	value, is := p.fields[field]
	if !is {
		return nil
	}
	parts := form.FindStringSubmatch(value)
	p.must(parts != nil && len(value) <= 65_536, field)
	return parts
}

func (p *parser) must(ok bool, field string) {
	if !ok && p.bad == "" {
		p.bad = field
	}
}

func (p *parser) agrees(ok bool, field string) {
	if !ok && p.odd == "" {
		p.odd = field
	}
}

// parsed reads digits that a form has matched; none are 0.
func parsed(digits string) int64 {
	n, _ := strconv.ParseInt(digits, 10, 64)
	return n
}

func (p *parser) lock() {
	parts := p.match("lock", lockForm)
	if parts == nil {
		p.must(false, "lock")
		return
	}
	r, name, marks := p.record, parts[6], parts[7]
	r.fence = parsed(parts[1])
	p.must(r.fence < mostToken, "lock")
	if strings.HasPrefix(marks, " +1 ") {
		p.must(name != "-" && parts[5] == "", "lock")
		p.onlyWaiter(marks)
		marks = " +"
	}
	entries, named := p.fields["entries"]
	p.agrees(named == (parts[5] == "@"), "entries")
	_, shares := p.fields["shares"]
	_, queue := p.fields["queue"]
	more := strings.Contains(marks, "+")
	p.must(marks != " ", "lock")
	p.agrees(more == (shares || queue), "lock")
	r.watched = strings.HasSuffix(marks, "!")
	if name == "" {
		return
	}
	if name == "-" {
		p.must(parts[2]+parts[3]+parts[4] == "0" && parts[5] == "" && more, "lock")
		return
	}
	p.agrees(!shares, "lock")
	p.must(parts[5] == "@" || attemptForm.MatchString(name), "lock")
	lease := parsed(parts[2] + parts[4])
	r.holder = &holder{name: name, expiry: r.fence/1000 + lease, provisional: parts[3] == "0"}
	r.holder.ending = parts[3] == "00"
	p.must(max(lease, -lease) < mostTime && len(parts[2]+parts[3]+parts[4]) <= 17 && len(name) <= mostName, "lock")
	if named {
		r.holder.entries = strings.Split(entries, " ")
		alone := len(r.holder.entries) == 1
		odd := slices.ContainsFunc(r.holder.entries, func(e string) bool {
			return e == "" || !strings.Contains(e, "/") || strings.ContainsAny(e, "\t\n\v\f\r")
		})
		p.must(!odd && (name != keptHolder || alone) && len(entries) <= 1<<20-2, "entries")
	}
}

// onlyWaiter reads the waiter that is part of the field lock, as if it had fields of its own.
func (p *parser) onlyWaiter(marks string) {
	parts := aloneForm.FindStringSubmatch(marks)
	p.must(parts != nil, "lock")
	if parts == nil {
		return
	}
	till, joined, ttl, lease, attempt := parts[1], parts[2], parts[3], parts[4], parts[5]
	p.agrees(lease == text(provisionalLease(parsed(ttl))), "lock")
	_, queue := p.fields["queue"]
	p.agrees(!queue, "lock")
	p.fields["queue"], p.fields["#1"], p.fields["w:"+attempt] = "1 1 1", attempt, "1 x 1 "+ttl+" "+till+" "+joined
}

// tokens reads what the record remembers of tokens, and the limit.
func (p *parser) tokens() {
	r := p.record
	if birth := p.match("birth", tokenForm); birth != nil {
		r.birth = parsed(birth[0])
	}
	p.must(r.birth > 0, "birth")
	p.agrees(r.birth <= r.fence+1, "birth")
	if lost, is := p.fields["lost"]; is {
		words := strings.Split(lost, " ")
		p.must(len(lost) <= 271, "lost")
		for _, word := range words {
			p.must(tokenForm.MatchString(word), "lost")
			p.agrees(parsed(word) <= r.fence, "lost")
			r.lost = append(r.lost, parsed(word))
		}
	}
	if limit := p.match("limit", limitForm); limit != nil {
		if r.limit = parsed(limit[0]); r.limit == 0 {
			r.limit = drained
		}
	}
}

func (p *parser) shares() {
	r := p.record
	var used int64
	if parts := p.match("shares", sharesForm); parts != nil {
		used, r.kind, r.soonest = parsed(parts[1]), mode(parts[2]), parsed(parts[3])
		r.shares = map[string]*share{}
		p.agrees(r.kind == shared || r.limit != 0, "limit")
		if parts[5] == sweepRun {
			r.sweep = sweep{past: parsed(parts[4]), found: parsed(parts[6])}
		}
	}
	for field := range p.fields {
		attempt, is := strings.CutPrefix(field, "h:")
		if !is {
			continue
		}
		parts := p.match(field, shareForm)
		if p.agrees(r.shares != nil, field); parts == nil || r.shares == nil {
			continue
		}
		h := &share{
			mode: mode(parts[1]), expiry: parsed(parts[3]), weight: parsed(parts[4]), token: parsed(parts[5]),
			since: parsed(parts[6]), owner: parts[7], provisional: parts[2] == "0", ending: parts[2] == "00",
		}
		p.must((h.mode == permit || h.weight == 1) && len(h.owner) < mostName, field)
		p.must(attemptForm.MatchString(attempt), field)
		p.agrees(h.mode == r.kind && h.weight <= used && h.token <= r.fence, field)
		p.agrees(h.expiry >= r.soonest, "shares")
		r.shares[attempt] = h
	}
	p.agrees(r.used() == used, "shares")
}

func (p *parser) queue() {
	q := &p.record.queue
	var waiting int64
	if parts := p.match("queue", queueForm); parts != nil {
		waiting, q.head, q.tail = parsed(parts[1]), parsed(parts[2]), parsed(parts[3])
		q.pollAt, q.pollPlace, q.cursor = parsed(parts[4]), parsed(parts[5]), parsed(parts[6])
		q.askedUntil, q.askedEnd, q.silent = parsed(parts[7]), parsed(parts[8]), strings.Fields(parts[10])
		for _, place := range strings.FieldsFunc(parts[9], func(r rune) bool { return r == ':' }) {
			q.answers = append(q.answers, parsed(place))
		}
		p.must(waiting <= q.tail-q.head+1 && q.pollPlace <= q.tail && q.cursor <= q.tail+1, "queue")
		p.must(q.askedEnd <= q.tail+1 && len(parts[10]) <= mostName, "queue")
	}
	places := 0
	for field := range p.fields {
		if strings.HasPrefix(field, "#") {
			places++
			p.must(attemptForm.MatchString(p.fields[field]), field)
		}
		attempt, is := strings.CutPrefix(field, "w:")
		if !is {
			continue
		}
		parts := p.match(field, waiterForm)
		if parts == nil {
			continue
		}
		w := &waiter{
			request: request{
				attempt: attempt, mode: mode(parts[2]), weight: parsed(parts[3]), ttl: parsed(parts[4]),
				owner: parts[7],
			},
			place: parsed(parts[1]), expiry: parsed(parts[5]), joined: parsed(parts[6]),
		}
		p.must(attemptForm.MatchString(attempt), field)
		p.must((w.mode == permit || w.weight == 1) && len(w.owner) < mostName, field)
		p.agrees(waiting > 0 && q.head <= w.place && w.place <= q.tail, field)
		p.agrees(w.mode != permit || p.record.limit != 0, field)
		p.agrees(p.fields["#"+text(w.place)] == attempt, "#"+text(w.place))
		q.waiters = append(q.waiters, w)
	}
	p.agrees(q.len() == waiting && places == len(q.waiters), "queue")
	slices.SortFunc(q.waiters, func(a, b *waiter) int { return cmp.Compare(a.place, b.place) })
}

// rest reads the fields that only some scripts read.
func (p *parser) rest() {
	r := p.record
	if parts := p.match("evicted", evictedForm); parts != nil {
		r.evicted = &eviction{
			when: parsed(parts[1]), by: parts[2], reason: parts[3], attempts: strings.Fields(parts[4]),
		}
	}
	if parts := p.match("eviction", evictionForm); parts != nil {
		r.eviction = evictionRequest{parts[1], int(parsed(parts[2]))}
	}
	if parts := p.match("undone", attemptForm); parts != nil {
		r.undone = parts[0]
	}
	if parts := p.match("period", periodForm); parts != nil {
		r.mark = &mark{till: parsed(parts[1]), attempt: parts[2], plan: plan{period: parsed(parts[3])}}
		if parts[4] != "-" {
			r.mark.plan.aligned, r.mark.plan.offset = true, parsed(parts[4])
		}
	}
	if parts := p.match("tries", triesForm); parts != nil {
		r.tries = tries{parsed(parts[1]), parsed(parts[2])}
	}
	if parts := p.match("leader", leaderForm); parts != nil {
		r.said = &said{token: parts[1], number: parsed(parts[2]), value: parts[3]}
	}
}
