package check_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/verify/check"
	"github.com/holdfast-go/holdfast/verify/history"
)

// ended has the last note say, at its end, how many messages the action published and
// what it failed with.
func (s *story) ended(told int, failed string) *story {
	s.events[len(s.events)-1].Text += fmt.Sprintf("\n- %d %s", told, failed)
	return s
}

// waiting is a record with the first of a line of one.
func waiting(record, attempt string) string { return record + "\tqueue 1 1 1 " + attempt }

func drop(owner string, n float64) history.Event {
	return history.Event{Kind: history.Drop, Proc: 1, Client: "c1", Lock: "l", Owner: owner, At: at(n), Asked: at(0.5)}
}

// overQuorum is a story of a quorum, with faults of some of its servers.
func overQuorum(servers ...string) *story {
	s := newStory(history.FaultSpan{Name: "server-stop", From: at(1), Till: at(30_000), Servers: servers})
	s.events[0].Setup.Topology = "quorum"
	return s.hold(hold{client: 1, lock: "l", owner: "c1/1", token: token(1), asked: 0, got: 1, over: 5}).
		hold(hold{client: 2, lock: "l", owner: "c2/1", token: token(20_000), asked: 3, got: 20_000, over: 20_005})
}

// stopped is a story in which a client is stopped, and granted the lock by others.
func stopped(times int) *story {
	s := newStory(history.FaultSpan{Name: "stop", From: at(10), Till: at(1000), Procs: []int{1}})
	for i := range times {
		n := 200 + 150*float64(i)
		s.note(n, "poll", "l", "c2/1", held(n, fmt.Sprintf("c1/%d", i+1)))
	}
	return s
}

var illegalRules = []illegalStory{
	{"a message of an action that fails", "told-after-written", newStory().
		note(1, "acquire", "l", "c1/1", held(1, "c1/1")).ended(0, "").
		note(2, "release", "l", "c1/1", held(1, "c1/1")).ended(1, "READONLY You can't")},
	{"a free lock that nobody gets", "free-is-granted", newStory().
		note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
		note(2, "acquire", "l", "c2/1", waiting(held(1, "c1/1"), "c2/1")).
		note(3, "release", "l", "c1/1", waiting(free(1), "c2/1")).
		note(9000, "poll", "l", "c2/1", held(9000, "c2/1"))},
	{"a lock that a minority keeps from all", "no-veto", overQuorum("a", "b")},
	{"a lease that is freed since nobody sees it", "dropped-handles", newStory().
		note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
		add(drop("c1/1", 2)).
		note(20, "release", "l", "c1/1", free(1))},
	{"a client that is stopped delays the queue twice", "frozen-once", stopped(2)},
	{"a check that looked at nothing", "dropped-handles", newStory().
		add(history.Event{Kind: history.Drop, Lock: "other"})},
}

// What these rules allow.
func TestWhatTheRulesAllowPasses(t *testing.T) {
	for name, s := range map[string]*story{
		"told-after-written": newStory().
			note(1, "acquire", "l", "c1/1", held(1, "c1/1")).ended(1, "").
			note(2, "release", "l", "c1/1", free(1)).ended(0, "NOPERM no"),
		"free-is-granted": newStory().
			note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
			note(2, "acquire", "l", "c2/1", waiting(held(1, "c1/1"), "c2/1")).
			note(300, "poll", "l", "c2/1", held(300, "c2/1")),
		"dropped-handles": newStory().
			note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
			add(drop("c1/1", 2)).
			note(120, "acquire", "l", "c2/1", held(120, "c2/1")),
		"frozen-once": stopped(1),
		"no-veto":     overQuorum("a", "b", "c"),
	} {
		r := s.results()[name]
		assert.True(t, r.Passed() && (r.Examined != 0 || name == "no-veto"),
			"%s: %+v; want a pass that looked at something", name, r)
	}
}

// Two primaries that grant while their tokens run ahead of the clock grant equal ones.
func TestUpdatesWithTokensAheadOfTheClockAreExcusedBehindAFailover(t *testing.T) {
	for name, c := range map[string]struct {
		topology string
		token    int64
		excused  bool
	}{
		"ahead, behind a failover": {"sentinel", token(5000), true},
		"ahead, on one server":     {"standalone", token(5000), false},
		"not ahead":                {"sentinel", token(1), false},
	} {
		s := newStory()
		s.events[0].Setup.Topology = c.topology
		for range 2 {
			e := write(1, 1)
			e.At, e.Token = at(10), uint64(c.token)<<10
			s.add(e)
		}
		s.add(final(1, 1))
		r := s.results()["updates"]
		assert.True(t, r.Passed() == c.excused && (r.Excused == 1) == c.excused, "%s: %+v", name, r)
	}
}

// A check is no better than what it has judged.
func TestACheckThatLooksAtNothingHasFailed(t *testing.T) {
	events := newStory().add(history.Event{Kind: history.Got, Lock: "l", Mode: "x", Owner: "c1/1"}).events
	for _, r := range check.All(check.Index(events, nil)) {
		switch r.Name {
		case "server-exclusion":
			assert.False(t, r.Passed(), "there was a hold, and no account of it: %+v", r)
		case "refused":
			assert.True(t, r.Passed(), "nobody tried anything: %+v", r)
		}
	}
}

// What a client had asked before it was stopped comes late to a server that has much to
// do: the client shows life by it. Without that it is granted the lock once.
func TestWhoAskedBeforeItWasStoppedMayBeGrantedTheLockAnew(t *testing.T) {
	s := stopped(1).note(400, "poll", "l", "c1/1", held(400, "c1/2"))
	r := s.results()["frozen-once"]
	assert.True(t, r.Passed() && r.Examined != 0, "%+v", r)
	s.note(550, "poll", "l", "c2/1", held(550, "c1/3"))
	r = s.results()["frozen-once"]
	assert.True(t, !r.Passed(), "it asked once, and was granted the lock twice since")
	// Where the account has a gap, nobody knows what was asked.
	s.add(history.Event{Kind: history.Fault, Fault: &history.FaultSpan{
		Name: "no-perm", From: at(100), Till: at(300), Blind: true,
	}})
	r = s.results()["frozen-once"]
	assert.True(t, r.Passed() && r.Excused != 0, "with a gap: %+v", r)
}

// A loss brings back a hold that was released, and other clients join it under the name of
// its owner.
func TestWhoComesInBesideAHoldThatALossBroughtBackHasItsToken(t *testing.T) {
	for name, c := range map[string]struct {
		from    float64
		excused int
	}{
		"a loss":             {10, 2},
		"a loss long before": {-500, 0},
	} {
		s := newStory(history.FaultSpan{Name: "server-kill", From: at(c.from), Till: at(c.from + 20), Loses: true}).
			hold(hold{client: 1, lock: "l", owner: "c1/1", name: "o", token: token(2), asked: 1, got: 2, over: 5}).
			hold(hold{client: 2, lock: "l", owner: "c2/1", name: "p", token: token(8), asked: 7, got: 8, over: 9}).
			hold(hold{client: 1, lock: "l", owner: "c1/2", name: "o", token: token(2), asked: 32, got: 33, over: 300}).
			hold(hold{client: 3, lock: "l", owner: "c3/1", name: "o", token: token(2), asked: 290, got: 291, over: 295})
		r := s.results()["tokens-in-time"]
		assert.True(t, r.Passed() == (c.excused > 0) && r.Excused == c.excused,
			"%s: %+v; want a pass only if it is excused", name, r)
	}
}

// A change of the primary that nobody saw the end of goes on until another has ended.
func TestAFailoverThatWasNotSeenToEndGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		err  string
		next float64 // when another was over, 0 if there was none
		pass bool
	}{
		"seen to end":                           {"", 0, false},
		"not seen to end":                       {"the others do not follow", 0, true},
		"another was over afterwards":           {"the others do not follow", 2500, true},
		"another was over long before the loss": {"the others do not follow", 300, false},
	} {
		faults := []history.FaultSpan{{Name: "crash", From: at(1), Till: at(2), Loses: true, Err: c.err}}
		if c.next > 0 {
			faults = append(faults, history.FaultSpan{Name: "crash", From: at(250), Till: at(c.next), Loses: true})
		}
		s := newStory(faults...)
		s.events[0].Setup.Topology = "sentinel"
		s.note(2000, "acquire", "l", "c1/1", held(2000, "c1/1")).forget("l").
			note(2010, "acquire", "l", "c2/1", held(2010, "c2/1"))
		r := s.results()["record-continuity"]
		assert.True(t, r.Passed() == c.pass && (r.Excused > 0) == c.pass,
			"%s: %+v; want a pass only if it is excused", name, r)
	}
}
