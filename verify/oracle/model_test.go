package oracle

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"pgregory.net/rapid"
)

// attempt is one acquisition, as its client knows it. Its requests always say
// the same, as the protocol demands.
type attempt struct {
	id    string
	owner string
	want  string // x, s or p:WEIGHT:LIMIT
	ttl   int64
	token int64 // of its last grant; 0: never granted
}

func (a *attempt) client() string {
	client, _, _ := strings.Cut(a.id, "/")
	return client
}

// weight counts permits; every other hold weighs 1.
func (a *attempt) weight() int64 {
	if parts := strings.Split(a.want, ":"); len(parts) == 3 {
		return number(parts[1])
	}
	return 1
}

// hold is what clients believe because they were told. Entries of one named
// owner share a hold; any other attempt has one of its own.
type hold struct {
	mode    string
	owner   string
	token   int64
	expiry  int64
	weight  int64
	entries map[string]bool
	kept    bool // given up: nobody believes in it, and nobody else is let in
	asked   bool // an operator has asked for its end: it gets no longer
}

// model follows what each client was told, in server time.
type model struct {
	rt       *rapid.T
	attempts map[string]*attempt
	holds    []*hold
	highest  int64 // token
	judged   int64 // the highest when permits were last counted
}

// of finds the hold that an attempt believes in, live or not.
func (m *model) of(id string) *hold {
	for _, h := range m.holds {
		if h.entries[id] && !h.kept {
			return h
		}
	}
	return nil
}

func (m *model) live(h *hold, now int64) bool { return h != nil && h.expiry > now }

// granted notes that an attempt was told of a grant. Whatever it wants, it enters
// the exclusive hold of its named owner. A push grants a lease of its own, until the
// attempt asks.
func (m *model) granted(a *attempt, token, now, lease int64) {
	h := m.of(a.id)
	for _, other := range m.holds {
		if other.token == token && (other == h || other.mode == "x" && a.owner != "" && other.owner == a.owner) {
			if other != h {
				m.ends(a.id)
			}
			other.entries[a.id] = true
			other.expiry = max(other.expiry, now+lease)
			a.token = token
			return
		}
	}
	if m.live(h, now) {
		m.rt.Fatalf("I5: %s holds token %d and is granted %d", a.id, h.token, token)
	}
	if token <= m.highest {
		m.rt.Fatalf("I3: token %d is granted after %d", token, m.highest)
	}
	m.highest = token
	m.ends(a.id)
	a.token = token
	m.holds = append(m.holds, &hold{
		mode:    a.want[:1],
		owner:   a.owner,
		token:   token,
		expiry:  now + lease,
		weight:  a.weight(),
		entries: map[string]bool{a.id: true},
	})
}

// stepped notes that an attempt was told that it holds in another way, alone and
// with a token of its own, or that it did so before.
func (m *model) stepped(a *attempt, mode string, token, now, ttl int64) {
	h := m.of(a.id)
	if !m.live(h, now) || len(h.entries) > 1 && h.token != token {
		m.rt.Fatalf("I4: %s stepped, and held %+v", a.id, h)
	}
	if h.token != token {
		if token <= m.highest {
			m.rt.Fatalf("I3: token %d is granted after %d", token, m.highest)
		}
		m.highest, h.token, h.mode = token, token, mode
	} else if h.mode != mode {
		m.rt.Fatalf("%s holds as %s and was told that it does as %s", a.id, h.mode, mode)
	}
	h.expiry, a.token = max(h.expiry, now+ttl), token
}

// within asserts I1 on permits: when one was granted they were within the
// limit. Lowering it may leave more of them in use.
func (m *model) within(live []*hold, o outcome) {
	var used int64
	for _, h := range live {
		used += h.weight
	}
	if limit := number(o.fields["limit"]); used > limit {
		m.rt.Fatalf("I1: a permit was granted, and %d of %d are held", used, limit)
	}
}

// ends notes that an attempt holds no more.
func (m *model) ends(id string) {
	for _, h := range m.holds {
		if !h.kept {
			delete(h.entries, id)
		}
	}
	m.holds = slices.DeleteFunc(m.holds, func(h *hold) bool { return len(h.entries) == 0 })
}

// keep notes that an attempt released the lock, which is kept until expiry.
func (m *model) keep(a *attempt, expiry int64) {
	if h := m.of(a.id); h != nil {
		h.kept, h.expiry = true, expiry
	}
}

// believers are the holds that are live.
func (m *model) believers(now int64) (live []*hold) {
	for _, h := range m.holds {
		if m.live(h, now) {
			live = append(live, h)
		}
	}
	return live
}

// check asserts I1 on the beliefs, I2 on the record, and that both say the same.
func (m *model) check(o outcome, now int64) {
	live := m.believers(now)
	for _, h := range live {
		if (h.mode == "x" || live[0].mode != h.mode) && len(live) > 1 {
			m.rt.Fatalf("I1: held at one time: %+v and %+v", live[0], h)
		}
	}
	if len(live) > 0 && live[0].mode == "p" && m.highest > m.judged {
		m.within(live, o)
	}
	m.judged = m.highest
	if o.fields != nil && o.life < 0 {
		m.rt.Fatal("I2: the record lives for ever")
	}
	if position := watcher(o.fields); position != "" && o.fields["#"+position] == "" {
		m.rt.Fatalf("I7: the waiter that is to poll has left position %s: %s", position, show(o.fields))
	}
	got, want := recorded(o.fields, now), map[string]int64{}
	for _, h := range live {
		for id := range h.entries {
			want[id] = h.expiry
		}
	}
	if !maps.Equal(got, want) {
		m.rt.Fatalf("I4: the record's holders are %v, clients were told %v", got, want)
	}
}

// recorded are the live holders in a record and their expiries.
func recorded(fields map[string]string, now int64) map[string]int64 {
	holders := map[string]int64{}
	if name := holderOf(fields); name != "" {
		words := strings.Fields(fields["lock"])
		expiry := number(words[0])/1000 + number(words[1])
		for id := range strings.FieldsSeq(or(fields["entries"], name)) {
			if expiry > now {
				holders[id] = expiry
			}
		}
	}
	for field, value := range fields {
		if id, ok := strings.CutPrefix(field, "h:"); ok {
			if expiry := number(strings.Fields(value)[1]); expiry > now {
				holders[id] = expiry
			}
		}
	}
	return holders
}

// holderOf is the exclusive holder in a record, "" without one.
func holderOf(fields map[string]string) string {
	words := strings.Fields(fields["lock"])
	if len(words) < 3 || words[2] == "-" {
		return ""
	}
	return words[2]
}

// queued is the attempts in the queue of a record, in order.
func queued(fields map[string]string) (ids []string) {
	if words := only(fields); words != nil {
		return []string{words[8]}
	}
	positions := map[string]int64{}
	for field, id := range fields {
		if position, ok := strings.CutPrefix(field, "#"); ok {
			positions[id] = number(position)
		}
	}
	return slices.SortedFunc(maps.Keys(positions), func(a, b string) int { return int(positions[a] - positions[b]) })
}

// asking is the word ?UNTIL:END:PLACE… in a queue: until when waiters may answer, which ones, and who has.
func asking(fields map[string]string) (until, end int64, answers []string) {
	for word := range strings.FieldsSeq(fields["queue"]) {
		if words, is := strings.CutPrefix(word, "?"); is {
			all := strings.Split(words, ":")
			return number(all[0]), number(all[1]), all[2:]
		}
	}
	return 0, 0, nil
}

// passedOver says whether a waiter was asked to poll, and has not done so in time.
func passedOver(fields map[string]string, id string, now int64) bool {
	until, end, answers := asking(fields)
	if until == 0 || until > now {
		return false
	}
	place := strings.Fields(fields["w:"+id])[0]
	return number(place) < end && !slices.Contains(answers, place)
}

// silent are the clients that did not confirm what was pushed to them.
func silent(fields map[string]string) (clients []string) {
	for i, word := range strings.Fields(fields["queue"]) {
		if i > 2 && !strings.ContainsAny(word[:1], "~>?") {
			clients = append(clients, word)
		}
	}
	return clients
}

// watcher is the position of the waiter that was told when to poll, "" without one.
func watcher(fields map[string]string) string {
	words := strings.Fields(fields["queue"])
	if len(words) < 4 || !strings.HasPrefix(words[3], "~") {
		return ""
	}
	_, position, _ := strings.Cut(words[3], ":")
	return position
}

// only is the words of the field lock if the only waiter is part of it: FENCE LEASE HOLDER +1 TILL JOINED TTL
// 0LEASE ATTEMPT.
func only(fields map[string]string) []string {
	if words := strings.Fields(fields["lock"]); len(words) == 9 {
		return words
	}
	return nil
}

func patience(fields map[string]string, id string) int64 {
	if words := only(fields); words != nil {
		return number(words[4])
	}
	return number(strings.Fields(fields["w:"+id])[4])
}

func number(word string) int64 {
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		panic("not a number: " + strconv.Quote(word))
	}
	return n
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
