package check_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/verify/check"
	"github.com/holdfast-go/holdfast/verify/history"
)

// The clock of these histories: the server's, in µs, is that of the events in ns.
const (
	us    = int64(1000)
	ms    = 1000 * us
	start = int64(1_800_000_000_000_000_000) // far enough that tokens have 16 digits
	ttl   = 100 * time.Millisecond
)

// at is an instant, ms after the beginning.
func at(n float64) int64 { return start + int64(n*float64(ms)) }

// story builds a history by hand.
type story struct {
	events []history.Event
	ids    uint64
	record map[string]string // what the notes left of each record
}

func newStory(faults ...history.FaultSpan) *story {
	s := &story{record: make(map[string]string)}
	s.events = []history.Event{{
		Kind: history.Began, Setup: &history.Setup{Topology: "standalone", TTL: ttl, Prefix: "p"},
	}}
	for client := 1; client <= 3; client++ {
		ready := history.Event{Kind: history.Ready, Proc: client, Client: fmt.Sprintf("c%d", client)}
		s.events = append(s.events, ready)
	}
	for i := range faults {
		s.events = append(s.events, history.Event{Kind: history.Fault, Fault: &faults[i]})
	}
	return s
}

// note has an action change a record at an instant.
func (s *story) note(n float64, action, lock, caller, after string) *story {
	key := "p:{" + lock + "}"
	before := s.record[key]
	if before == "" {
		before = "-"
	}
	s.record[key] = after
	s.events = append(s.events, history.Event{
		At: at(n), Kind: history.Note,
		Text: fmt.Sprintf("%d\n%s\n%s\n%s\n%s\n%s", at(n)/us, action, key, caller, before, after),
	})
	return s
}

// forget has a record be lost without a note.
func (s *story) forget(lock string) *story {
	delete(s.record, "p:{"+lock+"}")
	return s
}

// revert has a record be again what it was, without a note.
func (s *story) revert(lock, record string) *story {
	s.record["p:{"+lock+"}"] = record
	return s
}

// token is that of a grant at an instant.
func token(n float64) int64 { return at(n) / us }

// held is a record with an exclusive holder of ttl from the instant of its token.
func held(n float64, attempt string) string {
	return fmt.Sprintf("%d %d %s", token(n), ttl.Milliseconds(), attempt)
}

// free is a record without holders.
func free(n float64) string { return fmt.Sprintf("%d", token(n)) }

// hold has a client hold a lock: asked, got, given back, all at instants; how it
// ended; and until when it was trusted.
type hold struct {
	client           int
	lock, mode       string
	weight           int
	owner, name      string
	token            int64
	asked, got, over float64
	trusted          float64
	how              string
}

func (s *story) hold(h hold) *story {
	s.ids++
	e := history.Event{
		Proc: h.client, Client: fmt.Sprintf("c%d", h.client), Lock: h.lock, Work: h.lock, ID: s.ids,
		Mode: h.mode, Weight: h.weight, Owner: h.owner, Name: h.name,
		Token: uint64(h.token) * 1024,
	}
	if e.Mode == "" {
		e.Mode = "x"
	}
	got, end := e, e
	got.Kind, got.At, got.Asked = history.Got, at(h.got), at(h.asked)
	end.Kind, end.At, end.Asked, end.Trusted, end.How = history.End, at(h.over), at(h.over-0.1), at(h.over-0.2), h.how
	if h.trusted != 0 {
		end.Trusted = at(h.trusted)
	}
	if end.How == "" {
		end.How = history.Released
	}
	s.events = append(s.events, got, end)
	return s
}

func (s *story) add(e history.Event) *story {
	s.events = append(s.events, e)
	return s
}

// results are what the checks say, by name.
func (s *story) results() map[string]check.Result {
	byName := make(map[string]check.Result)
	for _, r := range check.All(check.Index(s.events, map[string]int{"permits": 3})) {
		byName[r.Name] = r
	}
	return byName
}

// legal is two holds of one lock, one after the other, told by everybody.
func legal(faults ...history.FaultSpan) *story {
	return newStory(faults...).
		note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
		hold(hold{client: 1, lock: "l", owner: "c1/1", token: token(1), asked: 0.5, got: 1.5, over: 5}).
		note(4.95, "release", "l", "c1/1", free(1)).
		note(6, "acquire", "l", "c2/1", held(6, "c2/1")).
		hold(hold{client: 2, lock: "l", owner: "c2/1", token: token(6), asked: 5.5, got: 6.5, over: 9}).
		note(8.95, "release", "l", "c2/1", free(6))
}

// A legal history passes every check, and the checks have judged it.
func TestALegalHistoryPasses(t *testing.T) {
	for name, r := range legal().results() {
		assert.True(t, r.Passed() && r.Excused == 0 && r.Undecided == 0,
			"%s: %+v; want a pass with nothing excused or undecided", name, r)
	}
	for _, name := range []string{
		"server-exclusion", "record-continuity", "tokens-rise", "client-exclusion", "trust-is-backed",
		"tokens-in-time", "releases-true", "linearizable",
	} {
		assert.True(t, legal().results()[name].Examined != 0, "%s looked at nothing", name)
	}
}

// After the release a late copy of the acquisition may hold the lock for nobody, until its lease ends or a copy of
// another request ends it.
func TestAGrantToALateCopyIsNobodysHold(t *testing.T) {
	for name, s := range map[string]*story{
		"until its lease ends": legal().
			note(10, "acquire", "l", "c1/1", held(10, "c1/1")).
			note(111, "acquire", "l", "c3/1", held(111, "c3/1")).
			hold(hold{client: 3, lock: "l", owner: "c3/1", token: token(111), asked: 9, got: 112, over: 115}).
			note(114.95, "release", "l", "c3/1", free(111)),
		"until it is cancelled": legal().
			note(10, "acquire", "l", "c1/1", held(10, "c1/1")).
			note(20, "cancel", "l", "c1/1", held(20, "c3/1")).
			hold(hold{client: 3, lock: "l", owner: "c3/1", token: token(20), asked: 9, got: 21, over: 25}).
			note(24.95, "release", "l", "c3/1", free(20)),
		"as an owner's entry beside another": newStory().
			note(1, "acquire", "l", "c1/1", in(1, "a", "c1/1")).
			note(2, "acquire", "l", "c2/1", in(1, "a", "c1/1", "c2/1")).
			entry(hold{client: 1, lock: "l", owner: "c1/1", token: token(1), asked: 0.5, got: 1.5, over: 5}, "a").
			note(4.95, "release", "l", "c1/1", in(1, "a", "c2/1")).
			note(6, "acquire", "l", "c1/1", in(1, "a", "c1/1", "c2/1")).
			entry(hold{client: 2, lock: "l", owner: "c2/1", token: token(1), asked: 1.5, got: 2.5, over: 9}, "a").
			note(8.95, "release", "l", "c2/1", in(1, "a", "c1/1")),
	} {
		for check, r := range s.results() {
			assert.True(t, r.Passed() && r.Excused == 0, "%s: %s: %+v", name, check, r)
		}
	}
}

// illegalStory is a history that must not be, with the check that says so.
type illegalStory struct {
	name, check string
	story       *story
}

var illegal = []illegalStory{
	{"a grant before the lease of another is over", "server-exclusion", newStory().
		note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
		note(50, "acquire", "l", "c2/1", held(50, "c2/1"))},
	{"a release that ends another's hold", "server-exclusion", newStory().
		note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
		note(2, "release", "l", "c2/1", free(1))},
	{"a renewal that shortens", "server-exclusion", newStory().
		note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
		note(2, "renew", "l", "c1/1", fmt.Sprintf("%d 50 c1/1", token(1)))},
	{"a writer beside a reader", "server-exclusion", newStory().
		note(1, "acquire", "l", "c1/1", free(1)+" 0 - +\t"+share("c1/1", "s", 1, 1)).
		note(2, "acquire", "l", "c2/1", held(2, "c2/1")+" +\t"+share("c1/1", "s", 1, 1))},
	{"more permits than there are", "server-exclusion", newStory().
		note(1, "acquire", "permits", "c1/1", free(1)+" 0 - +\t"+share("c1/1", "p", 1, 2)).
		note(2, "acquire", "permits", "c2/1",
			free(2)+" 0 - +\t"+share("c1/1", "p", 1, 2)+"\t"+share("c2/1", "p", 2, 2))},
	{"a record that was changed by nobody", "record-continuity", newStory().
		note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
		forget("l").
		note(2, "acquire", "l", "c2/1", held(2, "c2/1"))},
	{"a note that is none", "record-continuity", legal().add(history.Event{Kind: history.Note, Text: "what?"})},
	{"a token that falls", "tokens-rise", newStory().
		note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
		note(2, "release", "l", "c1/1", free(1)).
		note(3, "acquire", "l", "c2/1", held(0.5, "c2/1"))},
	{"a token that is granted twice", "tokens-rise", newStory().
		note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
		note(2, "release", "l", "c1/1", free(1)).
		note(3, "acquire", "l", "c2/1", held(1, "c2/1"))},
	{"two clients that trust at once", "client-exclusion", newStory().
		hold(hold{client: 1, lock: "l", owner: "c1/1", token: token(1), asked: 0, got: 1, over: 5}).
		hold(hold{client: 2, lock: "l", owner: "c2/1", token: token(4), asked: 2, got: 4, over: 6})},
	{"a reader beside a writer", "client-exclusion", newStory().
		hold(hold{client: 1, lock: "l", owner: "c1/1", token: token(1), asked: 0, got: 1, over: 5}).
		hold(hold{client: 2, lock: "l", mode: "s", owner: "c2/1", token: token(4), asked: 2, got: 4, over: 6})},
	{"clients with more permits than there are", "client-exclusion", newStory().
		hold(hold{client: 1, lock: "permits", mode: "p", weight: 2, owner: "c1/1", token: token(1), got: 1, over: 5}).
		hold(hold{client: 2, lock: "permits", mode: "p", weight: 2, owner: "c2/1", token: token(4), got: 4, over: 6})},
	{"a grant that the server knows nothing of", "trust-is-backed", newStory().
		hold(hold{client: 1, lock: "l", owner: "c1/1", token: token(1), asked: 0, got: 1, over: 5})},
	{"trust for longer than the lease", "trust-is-backed", newStory().
		note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
		hold(hold{client: 1, lock: "l", owner: "c1/1", token: token(1), got: 1.5, over: 150, how: history.NotHeld})},
	{"trust that only the grant to a late copy could back", "trust-is-backed", newStory().
		note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
		hold(hold{client: 1, lock: "l", owner: "c1/1", token: token(1), got: 1.5, over: 150, how: history.NotHeld}).
		note(102, "acquire", "l", "c1/1", held(102, "c1/1"))},
	{"a late copy that is granted the lock beside its holder", "server-exclusion", legal().
		note(10, "acquire", "l", "c3/1", held(10, "c3/1")).
		note(11, "acquire", "l", "c1/1", held(11, "c1/1"))},
	{"a later hold with a lower token", "tokens-in-time", newStory().
		hold(hold{client: 1, lock: "l", owner: "c1/1", token: token(3), asked: 0, got: 1, over: 2}).
		hold(hold{client: 2, lock: "l", owner: "c2/1", token: token(2.5), asked: 3, got: 4, over: 5})},
	{"a reader with a lower token than the writer before", "tokens-in-time", newStory().
		hold(hold{client: 1, lock: "l", owner: "c1/1", token: token(3), asked: 0, got: 1, over: 2}).
		hold(hold{client: 2, lock: "l", mode: "s", owner: "c2/1", token: token(2.5), asked: 3, got: 4, over: 5})},
	{"a fenced update that is lost", "updates", newStory().
		add(write(1, 1)).add(write(2, 2)).add(write(2, 3)).add(final(2, 3))},
	{"a fault that did not bite", "updates", newStory(aimed(4)...).
		add(write(1, 1)).add(write(2, 2)).add(final(2, 2))},
	{"a loss that is told late", "loss-signalled", newStory().
		add(history.Event{Kind: history.Lost, Proc: 1, Client: "c1", Lock: "l", At: at(5000), Trusted: at(100)})},
	{"a release that did nothing", "releases-true", newStory().
		note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
		hold(hold{client: 1, lock: "l", owner: "c1/1", token: token(1), asked: 0, got: 1.5, over: 5})},
	{"two runs in one period", "once-per-period", newStory().
		note(1, "begin_run", "j", "c1/1", held(1, "c1/1")+period(1000, "c1/1")).
		note(2, "release", "j", "c1/1", free(1)+period(1000, "c1/1")).
		note(3, "begin_run", "j", "c2/1", held(3, "c2/1")+period(1000, "c2/1"))},
	{"a term that goes back", "terms", newStory().
		add(history.Event{Kind: history.Term, Client: "c1", Token: 2}).
		add(history.Event{Kind: history.Term, Client: "c1", Token: 1})},
	{"a value of another leader", "terms", newStory().
		add(history.Event{Kind: history.Term, Client: "c1", Token: 2, How: history.Broken, Err: "it is not his"})},
	{"calls without an order", "linearizable", newStory().
		hold(hold{client: 1, lock: "l", owner: "c1/1", token: token(1), asked: 0, got: 1, over: 5}).
		hold(hold{client: 2, lock: "l", owner: "c2/1", token: token(2), asked: 1.5, got: 2, over: 6})},
	{"a lock that stands still", "recovery", newStory(history.FaultSpan{Name: "cut", From: at(1), Till: at(2)}).
		hold(hold{client: 1, lock: "l", owner: "c1/1", token: token(1), asked: 0, got: 60_000, over: 60_005})},
	{"a lock nobody gets any more", "recovery", newStory(history.FaultSpan{Name: "cut", From: at(10), Till: at(20)}).
		hold(hold{client: 1, lock: "l", owner: "c1/1", token: token(1), asked: 0, got: 1, over: 5})},
	{"a key for ever", "nothing-left", newStory().
		add(history.Event{Kind: history.Stats, Counts: map[string]int64{"keys without a life time": 1}})},
	{"a goroutine too many", "nothing-left", newStory().
		add(history.Event{Kind: history.Stats, Proc: 1, Counts: map[string]int64{"goroutines": 1}})},
	{"a process that broke down", "orderly-ends", newStory().
		add(history.Event{Kind: history.Gone, Proc: 1, How: history.Broken, Err: "panic"})},
	{"an error of no known kind", "orderly-ends", newStory().
		add(history.Event{Kind: history.Fail, Proc: 1, How: history.Broken, Err: "what?"})},
	{"a fault that was never injected", "faults-bite", newStory().
		add(history.Event{Kind: history.Began, Setup: &history.Setup{
			TTL: ttl, Prefix: "p", Faults: []string{"cut"}, Asked: true,
		}})},
	{"a workload that got nothing", "faults-bite", newStory().
		add(history.Event{Kind: history.Began, Setup: &history.Setup{TTL: ttl, Works: []string{"mutex"}}})},
}

func share(attempt, mode string, n float64, weight int) string {
	return fmt.Sprintf("h:%s %s %d %d %d %d", attempt, mode, at(n)/ms+ttl.Milliseconds(), weight, token(n), at(n)/ms)
}

func period(next float64, attempt string) string {
	return fmt.Sprintf("\tperiod %d %s 60000 -", at(next)/ms, attempt)
}

func write(value, plain int64) history.Event {
	return history.Event{Kind: history.Write, Proc: 1, Value: value, Plain: plain}
}

func final(fenced, plain int64) history.Event {
	return history.Event{Kind: history.Stats, Counts: map[string]int64{"fenced": fenced, "plain": plain}}
}

func TestIllegalHistoriesAreCaught(t *testing.T) {
	caught := make(map[string]bool)
	for _, c := range slices.Concat(illegal, illegalKinds, illegalRules) {
		t.Run(c.name, func(t *testing.T) {
			r := c.story.results()[c.check]
			assert.False(t, r.Passed(), "%s passed: %+v", c.check, r)
			caught[c.check] = true
		})
	}
	for _, r := range check.All(check.Index(newStory().events, nil)) {
		assert.True(t, caught[r.Name], "no illegal history is there for %s", r.Name)
	}
}

// What is not promised under a fault is not held against the library, but
// counted; and nothing else is.
func TestOnlyWhatIsNotPromisedIsExcused(t *testing.T) {
	overlap := func(second float64, fault history.FaultSpan) check.Result {
		return newStory(fault).
			hold(hold{client: 1, lock: "l", owner: "c1/1", token: token(1), asked: 0, got: 1, over: second + 50}).
			hold(hold{
				client: 2, lock: "l", owner: "c2/1", token: token(second),
				asked: second - 1, got: second, over: second + 60,
			}).
			results()["client-exclusion"]
	}
	flush := history.FaultSpan{Name: "flush-all", From: at(2), Till: at(3), Loses: true}
	// The answer to the first was under way when the fault came, and is heard of
	// after that to the second.
	late := func(asked float64) check.Result {
		return newStory(flush).
			hold(hold{client: 1, lock: "l", owner: "c1/1", token: token(1), asked: asked, got: 8, over: 20}).
			hold(hold{client: 2, lock: "l", owner: "c2/1", token: token(5), asked: 4, got: 6, over: 9}).
			results()["client-exclusion"]
	}
	r := late(0.5)
	assert.True(t, r.Passed() && r.Excused == 1, "the older grant is heard of later: %+v", r)
	r = late(3.5)
	assert.True(t, !r.Passed(), "both were asked for after the fault, and are excused")
	r = overlap(50, flush)
	assert.True(t, r.Passed() && r.Excused == 1, "within a lease of the flush: %+v", r)
	r = overlap(150, flush)
	assert.True(t, !r.Passed(), "longer than a lease after it: %+v", r)
	harmless := flush
	harmless.Loses = false
	r = overlap(50, harmless)
	assert.True(t, !r.Passed(), "after a fault that loses nothing: %+v", r)
	before := history.FaultSpan{Name: "flush-all", From: at(60), Till: at(61), Loses: true}
	r = overlap(50, before)
	assert.True(t, !r.Passed(), "before the fault: %+v", r)
}

// A client may shorten its own lease, as it does with a lost one that has a lock-delay, and nobody else's.
func TestOnlyTheHolderShortensALease(t *testing.T) {
	for _, caller := range []string{"c1/1~200", "c2/1~200"} {
		r := newStory().note(1, "acquire", "l", "c1/1~200", fmt.Sprintf("%d 300 c1/1~200", token(1))).
			note(2, "lessen", "l", caller, fmt.Sprintf("%d 200 c1/1~200", token(1))).results()["server-exclusion"]
		assert.Equal(t, r.Passed(), caller == "c1/1~200", "%s shortens the lease of c1/1: %+v", caller, r)
	}
}

// The server keeps a lease for its lock-delay, too. So a record that is lost excuses what comes until then.
func TestALostRecordExcusesUntilTheLockDelayIsOver(t *testing.T) {
	flush := history.FaultSpan{Name: "flush-all", From: at(2), Till: at(3), Loses: true}
	for _, loses := range []bool{true, false} {
		flush.Loses = loses
		first := fmt.Sprintf("%d 300 c1/1~200", token(1))
		r := newStory(flush).note(1, "acquire", "l", "c1/1~200", first).forget("l").
			note(150, "acquire", "l", "c2/1~200", held(150, "c2/1~200")).results()["server-exclusion"]
		assert.Equal(t, r.Passed(), loses, "the fault loses records: %v", loses)
	}
}

// Of a server that was killed the last notes may be missing; what its record says
// afterwards counts, and what comes then is judged as ever.
func TestWhatAKilledServerDidNotSay(t *testing.T) {
	killed := history.FaultSpan{Name: "server-kill", From: at(2), Till: at(3), Blind: true}
	s := newStory(killed).note(1, "acquire", "l", "c1/1", held(1, "c1/1"))
	s.record["p:{l}"] = free(1) // released, and not told
	s.note(4, "acquire", "l", "c2/1", held(4, "c2/1"))
	if r := s.results(); !r["server-exclusion"].Passed() || !r["record-continuity"].Passed() ||
		r["record-continuity"].Excused != 1 {
		t.Errorf("an end that was not told: %+v %+v", r["server-exclusion"], r["record-continuity"])
	}
	told := newStory(killed).
		hold(hold{client: 1, lock: "l", owner: "c1/1", token: token(1), asked: 0.5, got: 1.5, over: 5})
	r := told.results()["trust-is-backed"]
	assert.True(t, r.Passed() && r.Excused == 1, "an answer that left it before the note: %+v", r)
	ended := newStory(killed).note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
		hold(hold{client: 1, lock: "l", owner: "c1/1", token: token(1), asked: 0.5, got: 1.1, over: 1.9})
	r = ended.results()["releases-true"]
	assert.True(t, r.Passed() && r.Excused == 1, "a release that was answered before the note: %+v", r)
	// A server that is stopped when it is killed has said nothing since the stop.
	killed.From, killed.Till = at(400), at(500)
	stopped := history.FaultSpan{Name: "server-stop", From: at(2), Till: at(450)}
	for _, faults := range [][]history.FaultSpan{{killed, stopped}, {stopped, killed}, {killed}} {
		r := newStory(faults...).note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
			hold(hold{client: 1, lock: "l", owner: "c1/1", token: token(1), asked: 0.5, got: 1.1, over: 1.95}).
			results()["releases-true"]
		assert.True(t, r.Passed() == (len(faults) > 1),
			"a release before a stop that a kill ended, %d faults: %+v", len(faults), r)
	}
	s.note(5, "acquire", "l", "c3/1", held(5, "c3/1"))
	assert.False(t, s.results()["server-exclusion"].Passed(), "an overlap after it passed")
}

// A process must not be ended by its client library either.
// Two read. The release of the one, and all that came after it, is lost with the end of the server's log: then that
// one reads again, under the token that it had.
func TestAHoldWhoseReleaseIsLostIsNoNewGrant(t *testing.T) {
	both := free(2) + " 0 - +\t" + share("c1/1", "s", 1, 1) + "\t" + share("c2/1", "s", 2, 1)
	one := free(2) + " 0 - +\t" + share("c2/1", "s", 2, 1)
	story := func(faults ...history.FaultSpan) map[string]check.Result {
		s := newStory(faults...)
		s.events[0].Setup.Topology = "everysec"
		return s.note(1, "acquire", "l", "c1/1", free(1)+" 0 - +\t"+share("c1/1", "s", 1, 1)).
			note(2, "acquire", "l", "c2/1", both).
			note(3, "release", "l", "c1/1", one).
			revert("l", both).
			note(6, "acquire", "l", "c3/1", free(6)+" 0 - +\t"+share("c1/1", "s", 1, 1)+"\t"+
				share("c2/1", "s", 2, 1)+"\t"+share("c3/1", "s", 6, 1)).
			note(7, "release", "l", "c1/1", free(6)+" 0 - +\t"+
				share("c2/1", "s", 2, 1)+"\t"+share("c3/1", "s", 6, 1)).
			results()
	}
	for _, name := range []string{"tokens-rise", "record-continuity", "server-exclusion"} {
		r := story(history.FaultSpan{Name: "server-kill", From: at(4), Till: at(5), Loses: true})[name]
		assert.True(t, r.Passed(), "%s: %+v", name, r)
	}
	assert.True(t, !story()["record-continuity"].Passed(), "without a loss nobody reads again")
}

func TestAPanicOfTheClientLibraryIsOurs(t *testing.T) {
	const theirs = "it ended: exit status 2: panic: protocol bug, message handled out of order\n\ngoroutine 88 " +
		"[running]:\ngithub.com/redis/rueidis.(*pipe)._backgroundRead(0xcf5ab49ca00)"
	s := newStory().add(history.Event{Kind: history.Gone, At: at(2), Proc: 1, How: history.Broken, Err: theirs})
	r := s.results()["orderly-ends"]
	assert.True(t, !r.Passed() && r.Excused <= 0, "%+v", r)
}

// A lock's ways that are not a simple lock and unlock.
func TestLegalWaysPass(t *testing.T) {
	s := newStory().
		// Granted by a release, renewed, run out, and taken over.
		note(1, "acquire", "l", "c1/1", held(1, "c1/1")+" +").
		note(2, "release", "l", "c1/1", held(2, "c2/1")).
		note(50, "renew", "l", "c2/1", fmt.Sprintf("%d 150 c2/1", token(2))).
		note(153, "acquire", "l", "c3/1", held(153, "c3/1")).
		// Two of one key in one request.
		note(1, "acquire_free", "m", "c1/2,c1/3", held(1, "c1/3")).
		note(2, "release_idle", "m", "c1/2,c1/3", free(1)).
		// Readers together, in one step, and an upgrade.
		note(1, "acquire", "rw", "c1/4", free(2)+" 0 - +\t"+share("c1/4", "s", 2, 1)+"\t"+share("c2/4", "s", 1, 1)).
		note(3, "release", "rw", "c2/4", free(2)+" 0 - +\t"+share("c1/4", "s", 2, 1)).
		note(4, "convert", "rw", "c1/4", held(4, "c1/4")).
		// A permit that ran out while a step granted another one: it had read the time before.
		note(1, "acquire", "permits", "c1/7", free(1)+" 0 - +\t"+share("c1/7", "p", 1, 1)).
		note(101.5, "acquire", "permits", "c2/7",
			free(100.5)+" 0 - +\t"+share("c1/7", "p", 1, 1)+"\t"+share("c2/7", "p", 100.5, 1)).
		note(102, "cancel", "permits", "c1/8",
			free(100.5)+" 0 - +\t"+share("c1/7", "p", 1, 1)+"\t"+share("c2/7", "p", 100.5, 1)).
		// A record whose life has run out.
		note(1, "acquire", "old", "c1/5", held(1, "c1/5")).
		forget("old").
		note(5000, "acquire", "old", "c2/5", held(5000, "c2/5")).
		// A period that was given back.
		note(1, "begin_run", "j", "c1/6", held(1, "c1/6")+period(1000, "c1/6")).
		note(2, "cancel_run", "j", "c1/6", free(1)+period(2, "-")).
		note(3, "begin_run", "j", "c2/6", held(3, "c2/6")+period(1000, "c2/6"))
	for _, name := range []string{"server-exclusion", "record-continuity", "tokens-rise", "once-per-period"} {
		r := s.results()[name]
		assert.True(t, r.Passed() && r.Excused <= 0, "%s: %+v", name, r)
	}
}

// A client that is stopped with a grant in its hands tells of it long after it is over, and
// after those that came next.
func TestAHoldThatNobodySawMayHaveEndedBeforeItWasToldOf(t *testing.T) {
	s := newStory().
		hold(hold{
			client: 1, lock: "l", owner: "c1/1", token: token(1), asked: 0, got: 500, over: 501, how: history.NotHeld,
		}).
		hold(hold{client: 2, lock: "l", owner: "c2/1", token: token(150), asked: 149, got: 151, over: 160})
	for i := range s.events {
		if e := &s.events[i]; e.Kind == history.End && e.How == history.NotHeld {
			e.Trusted = 0
		}
	}
	r := s.results()["linearizable"]
	assert.True(t, r.Passed() && r.Examined != 0, "%+v", r)
}

// What a client library keeps after it was closed is not ours to give back, but
// nothing of ours may hide behind it.
func TestConnectionsThatTheClientLibraryKeepsAreCounted(t *testing.T) {
	const (
		own = "goroutine profile: total 4\n1 @ 0x44d191\n" +
			"#\t0x12a4314\tgithub.com/holdfast-go/holdfast/verify/workload.running+0x74\tclient.go:255\n\n" +
			"1 @ 0x4e5645\n" +
			"#\t0x12a34cb\tgithub.com/holdfast-go/holdfast/internal/childproc.(*Orders).Obey+0xbe\torders.go:34\n\n"
		theirs = "1 @ 0x48d40e\n#\t0x12552ce\tgithub.com/redis/rueidis.(*pipe)._backgroundRead+0x18e\tpipe.go:622\n\n" +
			"1 @ 0x48d40f\n#\t0x1254f36\tgithub.com/redis/rueidis.(*pipe)._backgroundWrite+0x176\tpipe.go:562\n\n"
		ours = "1 @ 0x48d410\n#\t0x1254f36\tgithub.com/holdfast-go/holdfast.(*Client).listen+0x1\tclient.go:1\n\n"
	)
	for name, c := range map[string]struct {
		topology, text string
		excused        bool
	}{
		"theirs":             {"sentinel", own + theirs, true},
		"theirs, and ours":   {"sentinel", own + theirs + ours, false},
		"nobody's":           {"sentinel", own, false},
		"without a failover": {"standalone", own + theirs, false},
	} {
		s := newStory()
		s.events[0].Setup.Topology = c.topology
		s.add(history.Event{Kind: history.Stats, Proc: 1, Text: c.text,
			Counts: map[string]int64{"files": 2, "goroutines": 2}})
		r := s.results()["nothing-left"]
		assert.True(t, r.Passed() == c.excused && (r.Excused > 0) == c.excused, "%s: %+v", name, r)
	}
}

// What is late because nothing ran in the process is the machine's; what is later is not.
func TestALossIsToldLateOnlyByAProcessThatRuns(t *testing.T) {
	for stalled, ok := range map[float64]bool{0: false, 3000: false, 4500: true} {
		r := newStory().
			add(history.Event{Kind: history.Stall, Proc: 1, Asked: at(200), At: at(200 + stalled)}).
			add(history.Event{Kind: history.Stall, Proc: 2, Asked: at(100), At: at(9000)}).
			add(history.Event{Kind: history.Lost, Proc: 1, Client: "c1", Lock: "l", At: at(5000), Trusted: at(100)}).
			results()["loss-signalled"]
		assert.Equal(t, r.Passed(), ok, "stalled for %v ms: %+v", stalled, r)
	}
}

// aimed are faults that each met a holder before its write.
func aimed(n int) []history.FaultSpan {
	return slices.Repeat([]history.FaultSpan{{Name: "stop-writer", Aimed: true}}, n)
}

// One holder that is stopped proves nothing: nobody may have written meanwhile.
func TestOneFaultNeedNotBite(t *testing.T) {
	r := newStory(aimed(1)...).add(write(1, 1)).add(write(2, 2)).add(final(2, 2)).results()["updates"]
	assert.True(t, r.Passed(), "%+v", r)
}

// A fault may last until the run ends. Then the fault before it is the last one from which the
// locks had time to recover.
func TestAFaultThatTheEndInterruptedIsNotTheLastOne(t *testing.T) {
	crash := history.FaultSpan{Name: "crash", From: at(30), Till: at(500), Err: "the run ended: it waits"}
	story := func(cut float64) check.Result {
		return newStory(history.FaultSpan{Name: "cut", From: at(10), Till: at(cut)}, crash).
			hold(hold{client: 1, lock: "l", owner: "c1/1", token: token(1), asked: 0, got: 60, over: 65}).
			results()["recovery"]
	}
	r := story(20)
	assert.True(t, r.Passed(), "the lock came back after the cut: %+v", r)
	r = story(90)
	assert.True(t, !r.Passed(), "nobody got the lock after the cut, and nothing was found")
}

// A client learns of a grant within 5 s although its connections are dead, once its link is whole. Other faults
// excuse more.
func TestAClientLearnsOfItsGrantInTime(t *testing.T) {
	span := func(name string, from, till float64) []history.FaultSpan {
		return []history.FaultSpan{{Name: name, From: at(from), Till: at(till)}}
	}
	for name, c := range map[string]struct {
		faults  []history.FaultSpan
		learned float64 // after the grant
		passed  bool
		excused int
	}{
		"without a fault":          {nil, 5100, false, 0},
		"in time":                  {span("forget", 0, 9000), 4900, true, 0},
		"too late":                 {span("forget", 0, 900), 5100, false, 0},
		"the link was not whole":   {span("half-open", 5, 1000), 5900, true, 0},
		"it was whole for long":    {span("half-open", 5, 1000), 6100, false, 0},
		"a primary was replaced":   {span("crash", 5, 6), 5100, true, 1},
		"one is replaced later":    {span("crash", 8000, 8010), 5100, false, 0},
		"one was replaced earlier": {span("crash", -60_000, -59_000), 5100, false, 0},
	} {
		r := newStory(c.faults...).
			note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
			note(10, "release", "l", "c1/1", held(10, "c2/1")).
			hold(hold{
				client: 2, lock: "l", owner: "c2/1", token: token(10), asked: 2, got: 10 + c.learned, over: 9000,
			}).
			hold(hold{client: 1, lock: "l", owner: "c1/2", token: token(9050), asked: 2, got: 9050, over: 9060}).
			results()["recovery"]
		assert.True(t, r.Passed() == c.passed && r.Excused == c.excused, "%s: %+v", name, r)
	}
}

// After a fault that has only forgotten connections, a lock comes back within the time in which that is noticed.
func TestForgottenConnectionsAreRecoveredFromSoon(t *testing.T) {
	refused := func(from, till float64) []history.FaultSpan {
		return []history.FaultSpan{{Name: "refuse", From: at(from), Till: at(till)}}
	}
	for name, c := range map[string]struct {
		others []history.FaultSpan
		back   float64 // after the end of the fault
		passed bool
	}{
		"in time":                {nil, 5050, true},
		"too late":               {nil, 5200, false},
		"after another fault":    {refused(10, 90), 15_050, true},
		"long after another one": {refused(-30_000, -29_000), 5200, false},
	} {
		r := newStory(append(c.others, history.FaultSpan{Name: "forget", From: at(50), Till: at(100)})...).
			hold(hold{client: 1, lock: "l", owner: "c1/1", token: token(1), asked: 0, got: 100 + c.back, over: 90_000}).
			results()["recovery"]
		assert.True(t, r.Passed() == c.passed, "%s: %+v", name, r)
	}
}
