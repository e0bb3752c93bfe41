package check_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/verify/history"
)

// stepped is a fault that moves the server's clock at an instant, by ms.
func stepped(n, ahead float64, loses bool) history.FaultSpan {
	return history.FaultSpan{Name: "clock", From: at(n), Till: at(n), Loses: loses, Steps: []history.Step{
		{At: at(n), Ahead: int64(ahead * float64(ms))},
	}}
}

// told is a note of a server whose clock is ahead by ms.
func (s *story) told(n, ahead float64, action, lock, caller, after string) *story {
	s.note(n, action, lock, caller, after)
	e := &s.events[len(s.events)-1]
	rest := e.Text[len(fmt.Sprint(at(n)/us)):]
	e.Text = fmt.Sprint(at(n+ahead)/us) + rest
	return s
}

// set is a record with an exclusive holder whose lease ends at an instant of the
// server's clock.
func set(fence int64, till float64, attempt string) string {
	return fmt.Sprintf("%d %d %s", fence, at(till)/ms-fence/1000, attempt)
}

func TestWhatAMovedClockTellsIsPutInOrder(t *testing.T) {
	for name, ahead := range map[string]float64{
		"an hour ahead": 3_600_000, "a lease ahead": 100, "a lease behind": -100, "an hour behind": -3_600_000,
	} {
		later := max(token(60)+int64(ahead)*us, token(1)+1)
		s := newStory(stepped(50, ahead, false)).
			note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
			note(5, "release", "l", "c1/1", free(1)).
			told(60, ahead, "acquire", "l", "c2/1", set(later, 160+ahead, "c2/1")).
			told(65, ahead, "release", "l", "c2/1", fmt.Sprint(later))
		for check, r := range s.results() {
			if check == "server-exclusion" || check == "record-continuity" || check == "tokens-rise" {
				assert.True(t, r.Passed() && r.Excused == 0 && r.Examined != 0,
					"%s, %s: %+v; want a pass with nothing excused", name, check, r)
			}
		}
	}
}

// The holder of a lock with a lock-delay outlasts a step that is shorter.
func TestAStepExcusesNoSecondHolderWithinTheLockDelay(t *testing.T) {
	for _, c := range []struct {
		steps  []float64 // how far the clock is ahead after each, in ms
		suffix string
		passes bool
	}{
		{[]float64{120}, "", true},
		{[]float64{120}, "~121", false},
		{[]float64{120}, "~120", true},
		{[]float64{120, 150}, "~150", true}, // they add up
		{[]float64{120, 150}, "~151", false},
		{[]float64{-50, 100}, "~121", true},
	} {
		var faults []history.FaultSpan
		for i, ahead := range c.steps {
			faults = append(faults, stepped(float64(5+i), ahead, true))
		}
		r := newStory(faults...).
			hold(hold{client: 1, lock: "l", asked: 1, got: 2, over: 60, token: token(1), owner: "c1/1" + c.suffix}).
			hold(hold{client: 2, lock: "l", asked: 20, got: 21, over: 70, token: token(20), owner: "c2/1"}).
			results()["client-exclusion"]
		assert.True(t, r.Passed() == c.passes && r.Examined != 0, "%v, %s: %+v", c.steps, c.suffix, r)
	}
}

func TestAClockThatIsSetBackExcusesNoSecondHolder(t *testing.T) {
	s := newStory(stepped(5, -100, false)).
		note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
		told(60, -100, "acquire", "l", "c2/1", set(token(1)+1, 60, "c2/1"))
	r := s.results()["server-exclusion"]
	assert.True(t, !r.Passed(), "%+v", r)
}

// A record that is lost after the clock was set back has taken the tokens with it.
// Where it is there, or the clock was never ahead, they have to rise.
func TestTokensThatFallAreExcusedOnlyBehindALostRecord(t *testing.T) {
	lost := history.FaultSpan{Name: "flush-all", From: at(50), Till: at(51), Loses: true}
	for name, c := range map[string]struct {
		ahead   float64
		forget  bool
		excused bool
	}{
		"set back, and lost": {-100, true, true},
		"only set back":      {-100, false, false},
		"only lost":          {0, true, false},
	} {
		s := newStory(stepped(40, c.ahead, false), lost).
			note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
			note(5, "release", "l", "c1/1", free(1))
		if c.forget {
			s.forget("l")
		}
		s.told(60, c.ahead, "acquire", "l", "c2/1", set(token(1)-5, 160+c.ahead, "c2/1"))
		r := s.results()["tokens-rise"]
		assert.True(t, r.Passed() == c.excused && (r.Excused > 0) == c.excused,
			"%s: %+v; want a pass only if it is excused", name, r)
	}
}

// The record was lost while its tokens were ahead of a clock that was set back. A lock
// that is passed on within a process later has a token of the time when the process
// got it.
func TestATokenIsAsOldAsTheGrantThatItIsOf(t *testing.T) {
	for name, c := range map[string]struct {
		asked   float64
		excused bool
	}{
		"of a grant from before the clock had come there": {30, true},
		"of a grant from after it":                        {70, false},
	} {
		s := newStory(stepped(10, -50, false)).
			hold(hold{client: 1, lock: "l", owner: "c1/1", token: token(15), asked: 14, got: 15, over: 20}).
			hold(hold{
				client: 2, lock: "l", owner: "c2/1", token: token(31 - 50), asked: c.asked, got: c.asked + 1, over: 80,
			}).
			hold(hold{client: 2, lock: "l", owner: "c2/1", token: token(31-50) + 1, asked: 79, got: 81, over: 85})
		r := s.results()["tokens-in-time"]
		assert.True(t, r.Passed() == c.excused && (r.Excused > 0) == c.excused,
			"%s: %+v; want a pass only if it is excused", name, r)
	}
}

// The clock was behind only after it was asked for, and before it was heard of.
func TestATokenOfAClockThatWasBehindForAMoment(t *testing.T) {
	wrong := stepped(30, -1000, false)
	wrong.Steps = append(wrong.Steps, history.Step{At: at(50), Ahead: 0})
	s := newStory(wrong).
		hold(hold{client: 1, lock: "l", owner: "c1/1", token: token(15), asked: 14, got: 15, over: 20}).
		hold(hold{client: 2, lock: "l", owner: "c2/1", token: token(40 - 1000), asked: 25, got: 60, over: 80})
	r := s.results()["tokens-in-time"]
	assert.True(t, r.Passed() && r.Excused == 1, "%+v", r)
}

// A quorum's token that is ahead of every right clock is known only to the servers
// that it was written to.
func TestAQuorumsTokensThatFallAreExcusedOnlyAheadOfTheClocksAndBehindALoss(t *testing.T) {
	killed := history.FaultSpan{Name: "server-kill", From: at(6), Till: at(7), Blind: true}
	early := history.FaultSpan{Name: "server-kill", From: at(-5), Till: at(-4), Blind: true}
	forward := history.FaultSpan{Name: "clock-forward", From: at(100), Till: at(100), Steps: []history.Step{
		{At: at(100), Server: "another", Ahead: 3600_000 * ms},
	}}
	for name, c := range map[string]struct {
		fault   history.FaultSpan
		first   int64
		excused bool
	}{
		"ahead, and a server forgot": {killed, token(500), true},
		"only ahead":                 {early, token(500), false},
		"only a server forgot":       {killed, token(15), false},
		"ahead, and a clock was set": {forward, token(500), true},
		"only a clock was set":       {forward, token(15), false},
	} {
		s := newStory(stepped(0, 1000, false), c.fault)
		s.events[0].Setup.Topology = "quorum"
		s.hold(hold{client: 1, lock: "l", owner: "c1/1", token: c.first, asked: 1, got: 2, over: 5}).
			hold(hold{client: 2, lock: "l", owner: "c2/1", token: token(11), asked: 220, got: 221, over: 225})
		for _, rule := range []string{"tokens-in-time", "linearizable"} {
			r := s.results()[rule]
			assert.True(t, r.Passed() == c.excused && (r.Excused > 0) == c.excused,
				"%s: %s: %+v; want a pass only if it is excused", rule, name, r)
		}
	}
}

// A lease that a step of the clock has ended was held until that step.
func TestALeaseThatAStepEndsWasHeldUntilThen(t *testing.T) {
	s := newStory(stepped(50, 3_600_000, true)).
		note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
		hold(hold{client: 1, lock: "l", owner: "c1/1", token: token(1), asked: 0.5, got: 1.5, over: 60, trusted: 45}).
		told(55, 3_600_000, "acquire", "l", "c2/1", held(1, "c1/1")+" +").
		told(59, 3_600_000, "release", "l", "c1/1", free(1))
	r := s.results()["trust-is-backed"]
	assert.True(t, r.Passed() && r.Excused <= 0, "%+v", r)
}

// Who comes in under an owner's name has the token of the grant to the first of its
// entries: that one was asked for behind the loss, with the clock that was set back.
func TestAnEntryHasTheTokenOfTheGrantToItsOwner(t *testing.T) {
	lost := history.FaultSpan{Name: "flush-all", From: at(50), Till: at(51), Loses: true}
	for _, first := range []bool{true, false} {
		s := newStory(stepped(40, -100, false), lost).
			hold(hold{client: 1, lock: "l", owner: "c1/1", token: token(38), asked: 37, got: 38.5, over: 39})
		entry := hold{client: 2, lock: "l", owner: "c2/1", token: token(-40), asked: 59, got: 61, over: 200}
		if first {
			s.entry(entry, "b")
		}
		entry.client, entry.owner, entry.asked, entry.got = 3, "c3/1", 150, 151
		s.entry(entry, "b")
		r := s.results()["tokens-in-time"]
		assert.True(t, r.Passed() == first, "with the grant to the first entry %v: %+v", first, r)
	}
}

// On a busy machine a note is heard a while after it was. What one server says is in its
// order all the same: a note from before its clock was set back is not put behind those
// of afterwards.
func TestWhatIsHeardLateIsFromBeforeTheStep(t *testing.T) {
	s := newStory(stepped(50, -100, false)).
		note(10, "acquire", "l", "c1/1", held(10, "c1/1")).
		note(40, "release", "l", "c1/1", free(10)).
		told(60, -100, "acquire", "l", "c2/1", set(token(10)+1, 60, "c2/1")).
		told(65, -100, "release", "l", "c2/1", fmt.Sprint(token(10)+1))
	for i := range s.events {
		if e := &s.events[i]; e.Kind == history.Note {
			e.At = max(e.At, at(140)) // the second one nearer to what the clock will say once more
		}
	}
	for check, r := range s.results() {
		if check == "server-exclusion" || check == "record-continuity" || check == "tokens-rise" {
			assert.True(t, r.Passed() && r.Examined != 0,
				"%s: %+v; want a pass that looked at something", check, r)
		}
	}
}

// A client that joins an owner's entry, under a lease from before its server's
// clock was set back, trusts the hold for a lease of its own time, and no longer.
func TestAnEntryUnderALeaseFromBeforeAStepLastsForALease(t *testing.T) {
	lost := history.FaultSpan{Name: "flush-all", From: at(65), Till: at(66), Loses: true}
	s := newStory(stepped(50, -100, false), lost).
		told(1, 0, "acquire", "l", "c1/1", fmt.Sprintf("%d 100 @b\tentries c1/1", token(1))).
		told(45, 0, "renew", "l", "c1/1", fmt.Sprintf("%d 144 @b\tentries c1/1", token(1))).
		told(60, -100, "acquire", "l", "c2/1", fmt.Sprintf("%d 144 @b\tentries c1/1 c2/1", token(1)))
	s.forget("l")
	s.told(190, -100, "acquire", "l", "c3/1", set(token(90), 190, "c3/1"))
	r := s.results()["server-exclusion"]
	assert.True(t, r.Passed(), "%+v", r)
}

// A record that is lost and made anew while nothing is said has the tokens of a clock that
// was set back. Without such a clock they have to rise.
func TestTokensOfARecordThatWasMadeAnewUnsaid(t *testing.T) {
	for _, ahead := range []float64{-100, 0} {
		silent := history.FaultSpan{Name: "no-perm", From: at(20), Till: at(70), Blind: true}
		s := newStory(stepped(30, ahead, false), silent).
			note(10, "acquire", "l", "c1/1", held(10, "c1/1")).
			note(15, "release", "l", "c1/1", free(10))
		s.forget("l")
		s.record["p:{l}"] = set(token(-40), 60+ahead, "c2/1")
		s.told(80, ahead, "release", "l", "c2/1", fmt.Sprint(token(-40))).
			told(85, ahead, "acquire", "l", "c3/1", set(token(-15), 185+ahead, "c3/1"))
		r := s.results()["tokens-rise"]
		assert.True(t, r.Passed() == (ahead < 0), "a clock ahead by %v ms: %+v", ahead, r)
	}
}

// Of several servers each is heard in its own order, however late. A note from while one
// server's clock was ahead is not put where that clock came once more.
func TestWhatOneOfSeveralServersSaysIsInItsOrder(t *testing.T) {
	for _, topology := range []string{"sentinel", "cluster"} {
		there := stepped(20, 100, false)
		there.Steps = append(there.Steps, history.Step{At: at(80), Ahead: 0})
		for i := range there.Steps {
			there.Steps[i].Server = "one"
		}
		s := newStory(there)
		s.events[0].Setup.Topology = topology
		later := token(30) + 100*1000
		s.note(10, "acquire", "l", "c1/1", held(10, "c1/1")).
			note(15, "release", "l", "c1/1", free(10)).
			told(30, 100, "acquire", "l", "c2/1", set(later, 230, "c2/1")).
			told(35, 100, "release", "l", "c2/1", fmt.Sprint(later)).
			told(60, 100, "acquire", "l", "c2/2", set(later+5, 260, "c2/2")).
			note(90, "release", "l", "c2/2", fmt.Sprint(later+5))
		for i := range s.events {
			if e := &s.events[i]; e.Kind == history.Note {
				e.Text += "\none 0"
				e.At = max(e.At, at(110)) // nearer to what the clock says after the second step
			}
		}
		s.told(120, 0, "acquire", "l", "c3/1", set(later+9, 220, "c3/1"))
		s.events[len(s.events)-1].Text += "\ntwo 0"
		for check, r := range s.results() {
			if check == "server-exclusion" || check == "record-continuity" || check == "tokens-rise" {
				assert.True(t, r.Passed() && r.Examined != 0,
					"%s, %s: %+v; want a pass that looked at something", topology, check, r)
			}
		}
	}
}

// A script that has read the clock, and a note that reads it after a step: what the script
// wrote is by the time before.
func TestAStepBetweenAScriptAndItsNote(t *testing.T) {
	for _, ahead := range []float64{-3_600_000, 3_600_000} {
		s := least()
		s.events[0].Setup.Topology = "everysec"
		s.add(history.Event{Kind: history.Fault, Fault: &history.FaultSpan{
			Name: "clock", From: at(4.5), Till: at(4.5),
			Steps: []history.Step{{At: at(4.5), Ahead: int64(ahead * float64(ms))}},
		}}).told(5, ahead, "release_after", "l", "c1/1", keptBy(1, "c1/1", 50))
		r := s.results()["least"]
		assert.True(t, r.Passed() && r.Examined != 0, "a clock ahead by %v ms: %+v", ahead, r)
	}
	// A renewal by the time before the step: the lease lasts until the step.
	for trusted, ok := range map[float64]bool{53: true, 54.4: true, 99: false} {
		s := newStory(stepped(54.5, 3_600_000, false)).
			note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
			hold(hold{
				client: 1, lock: "l", owner: "c1/1", token: token(1), asked: 0.5, got: 1.5, over: 100, trusted: trusted,
			}).
			told(55, 3_600_000, "renew", "l", "c1/1", set(token(1), 154, "c1/1"))
		r := s.results()["trust-is-backed"]
		assert.True(t, r.Passed() == ok, "trusted until %v: %+v", trusted, r)
	}
	// The record is lost, and the grant after it is heard of with the step.
	lost := history.FaultSpan{Name: "flush-all", From: at(50), Till: at(51), Loses: true}
	s := newStory(stepped(70, -3_600_000, false), lost).
		note(1, "acquire", "l", "c1/1", held(1, "c1/1")).note(5, "release", "l", "c1/1", free(1))
	s.forget("l")
	s.told(65, -3_600_000, "acquire", "l", "c2/1", set(token(65-3_600_000), 165-3_600_000, "c2/1"))
	r := s.results()["tokens-rise"]
	assert.True(t, r.Passed() && r.Excused == 1, "%+v", r)
}
