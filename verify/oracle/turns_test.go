package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/script"
	"pgregory.net/rapid"
)

// turns are processes that run a job once per period, on both sides at once.
type turns struct {
	*world
	period int64 // ms
	offset string
	number int
	runs   map[string]*run
	last   *run // whose period is the present one; nil if none, or it was given back
}

// run is a turn that was granted.
type run struct {
	id     string
	token  int64
	at     int64 // of the grant
	expiry int64 // of its lease, at the latest
}

const turnTTL = 3000

// A period has one run, and no run begins while another goes on, whatever
// becomes of the processes. Guarantee: I1 I3 I5.
func TestTurns(t *testing.T) {
	srv := newServer(t)
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(srv, rt)
		defer w.close()
		rt.Repeat(rapid.StateMachineActions(&turns{
			world:  w,
			period: pick(rt, int64(turnTTL), 10_000, 3_600_000),
			offset: pick(rt, "-", "-", "0", "1234"),
			runs:   map[string]*run{},
		}))
	})
}

func (m *turns) step(action *script.Script, words ...any) string {
	args := make([]string, len(words))
	for i, word := range words {
		args[i] = fmt.Sprint(word)
	}
	o := m.run(action, []string{key}, args)
	if o.fields != nil && o.life < 0 {
		m.rt.Fatal("I2: the record lives for ever")
	}
	return o.answer
}

// Turn asks for a run, twice.
func (m *turns) BeginRun(rt *rapid.T) {
	m.micros += pick(rt, int64(0), 1, 1500)
	m.number++
	id := fmt.Sprint(pick(rt, "c1/", "c2/"), m.number)
	args := []any{id, turnTTL, retention, m.period, m.offset, "now", base}
	answer := m.step(script.BeginRun, args...)
	if again := m.step(script.BeginRun, args...); again != answer {
		rt.Fatalf("I5: answered %q, and to the same request again %q", answer, again)
	}
	words := strings.Fields(answer)
	left, now := number(words[1]), m.now()
	if words[0] == "granted" {
		left = number(words[2])
		m.granted(id, number(words[1]), now)
	} else if m.due(now) && m.running(now) == nil {
		rt.Fatalf("nobody runs, the period is due, and %s is answered %q", id, answer)
	}
	if words[0] != "busy" && (left < 0 || left > m.period) {
		rt.Fatalf("%d ms until the next period of %d ms", left, m.period)
	}
	if words[0] == "early" && (m.last == nil || words[2] != m.last.id) {
		rt.Fatalf("answered %q, the period is that of %+v", answer, m.last)
	}
}

// Other asks by another period, which changes nothing.
func (m *turns) Other(rt *rapid.T) {
	m.number++
	period, offset := m.period+pick(rt, int64(0), 1000), pick(rt, "-", "77")
	if period == m.period {
		offset = "78"
	}
	args := []string{
		fmt.Sprint("c3/", m.number), fmt.Sprint(turnTTL), fmt.Sprint(retention),
		fmt.Sprint(period), offset, "next", base,
	}
	o := m.run(script.BeginRun, []string{key}, args)
	want := fmt.Sprint("other ", m.period, " ", m.offset)
	_, marked := o.fields["period"]
	if marked && o.answer != want || !marked && !strings.HasPrefix(o.answer, "early ") {
		rt.Fatalf("with the fields %v it is answered %q", o.fields, o.answer)
	}
}

// granted asserts that the run may begin.
func (m *turns) granted(id string, token, now int64) {
	if other := m.running(now); other != nil {
		m.rt.Fatalf("I1: %s runs beside %+v", id, other)
	}
	if !m.due(now) {
		m.rt.Fatalf("%s runs at %d in the period of %+v", id, now, m.last)
	}
	for _, r := range m.runs {
		if token <= r.token {
			m.rt.Fatalf("I3: token %d is granted after %d", token, r.token)
		}
	}
	m.last = &run{id: id, token: token, at: now, expiry: now + turnTTL}
	m.runs[id] = m.last
}

// due says whether a period has come that nobody has run.
func (m *turns) due(now int64) bool {
	if m.last == nil {
		return true
	}
	if m.offset == "-" {
		return now >= m.last.at+m.period
	}
	index := func(at int64) int64 { return (at - number(m.offset)) / m.period }
	return index(now) > index(m.last.at)
}

func (m *turns) running(now int64) *run {
	for _, r := range m.runs {
		if r.expiry > now {
			return r
		}
	}
	return nil
}

func (m *turns) known(rt *rapid.T) *run {
	ids := slices.Sorted(maps.Keys(m.runs))
	if len(ids) == 0 {
		rt.Skip("no run yet")
	}
	return m.runs[rapid.SampledFrom(ids[max(len(ids)-3, 0):]).Draw(rt, "run")]
}

func (m *turns) Renew(rt *rapid.T) {
	r := m.known(rt)
	answer := m.step(script.Renew, retention, turnTTL, r.id)
	if renewed := answer == "renewed 0"; renewed != (r.expiry > m.now()) {
		rt.Fatalf("the renewal of %+v is answered %q", r, answer)
	} else if renewed {
		r.expiry = m.now() + turnTTL
	}
}

func (m *turns) Release(rt *rapid.T) {
	r := m.known(rt)
	m.step(script.Release, r.id, r.token, retention, base)
	r.expiry = 0
}

func (m *turns) CancelRun(rt *rapid.T) {
	r := m.known(rt)
	m.step(script.CancelRun, r.id, retention, base)
	r.expiry = 0
	if m.last == r {
		m.last = nil
	}
}

func (m *turns) Advance(rt *rapid.T) {
	m.advance(time.Duration(pick(rt, 1, 999, 1000, turnTTL-1, turnTTL, m.period-1, m.period, 2*m.period)) *
		time.Millisecond)
}

// Check has nothing to add: every step has compared both sides.
func (m *turns) Check(*rapid.T) {}
