//go:build !race

package quorum

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/store"
)

// The tests of this file look at what is known of the servers' memories and clocks.

// If a grant has shown that a mark is wrong, a read that began before does not put it right.
func TestAReadThatBeganBeforeIsNotEnough(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		var mu sync.Mutex
		reads := 0
		s.say(func(i int, _ string, _ []string) (string, error) {
			mu.Lock()
			reads++
			mu.Unlock()
			time.Sleep(100 * time.Millisecond)
			return []string{"node 9000 a 1:q:-3600000:0:9000:5000", "node 9000 b 1:q:-3600000:0:9000:5000",
				""}[i], errAt(i)
		})
		ns := acq.states
		ns.mu.Lock()
		ns.startRead()
		ns.mu.Unlock()
		time.Sleep(50 * time.Millisecond)
		ns.mu.Lock()
		ns.marksWrong = true // a grant has shown it since
		ns.mu.Unlock()
		assert.Must(t, s.identify(t.Context(), ns))
		assert.Equal(t, s.now(), 10*second+200*time.Millisecond, "it has waited until")
		assert.Equal(t, reads, 6, "reads")
		assert.Must(t, s.identify(t.Context(), ns))
		assert.Equal(t, reads, 6, "reads, as all is known")
	})
}

// errAt is the error of the silent server.
func errAt(i int) error {
	if i == silent {
		return errBroken
	}
	return nil
}

// A majority of the servers must have been read.
func TestAQuorumIsIdentifiedByAMajority(t *testing.T) {
	for _, failing := range []int{silent, 1} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			s.say(func(i int, _ string, _ []string) (string, error) {
				if i >= failing {
					return "", errBroken
				}
				return asMemory, nil
			})
			err := s.identify(t.Context(), acq.states)
			assert.Equal(t, err == nil, failing == silent, "%v, servers that fail: %d", err, 3-failing)
			assert.Equal(t, acq.states.identified, failing == silent, "identified")
		})
	}
}

// A server that was silent is waited for if a majority needs it: it may be back. A read that nobody answers
// identifies nothing.
func TestAReadWaitsForSilentServersThatAMajorityNeeds(t *testing.T) {
	for first, want := range map[int]time.Duration{2: 0, 1: 100 * time.Millisecond, 0: 100 * time.Millisecond} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			s.say(func(i int, _ string, _ []string) (string, error) {
				if i >= first {
					time.Sleep(100 * time.Millisecond)
				}
				return asMemory, nil
			})
			for _, n := range s.nodes[first:] {
				n.noteAnswers(false, s.now(), 0)
			}
			began := s.now()
			acq.states.readEach(second, make([]string, 3), nil)
			assert.Equal(t, s.now()-began, want, "%d servers were silent, it has waited", 3-first)
		})
	}
}

// Two of the servers may turn out to be one, by what both said since the same read.
func TestTwoServersWithOneRunAreOne(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		ns := acq.states
		assert.Must(t, ns.noteRead(0, 8*second, "9000 a -"))
		assert.Must(t, ns.noteRead(1, 9*second, "9000 a -"))
		assert.Must(t, ns.noteRead(2, 9*second, "9000 - -"))
		assert.True(t, ns.findSameServer(9*second) == nil, "an older word counts")
		assert.Is(t, ns.findSameServer(8*second), ErrSameServer)
		assert.Must(t, ns.noteRead(0, 9*second, "9000 - -"))
		assert.True(t, ns.findSameServer(8*second) == nil, "servers that do not tell their run are one")
	})
}

// Marks are read again, and at once, only if a server is new, or stepped; one on probation has a right mark.
func TestWhichMarksAreWrong(t *testing.T) {
	for standing, want := range map[majority.Standing]bool{
		majority.OnProbation: false, majority.Stranger: true, majority.ClockStepped: true, majority.Stale: true,
	} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			acq.states.noteWrongMarks(map[int]error{0: &probationError{standing: standing}, 1: errBroken})
			assert.Equal(t, acq.states.haveWrongMarks(), want, "standing %d", standing)
			acq.states.noteWrongMarks(nil)
			assert.Equal(t, acq.states.haveWrongMarks(), want, "standing %d, afterwards", standing)
			acq.states.lastRead = s.now()
			acq.states.refresh()
			assert.Equal(t, acq.states.reading != nil, want, "standing %d: they are read again", standing)
		})
	}
}

// While answers are to come, they may yet tell which clocks are right. If they do not, the clocks are compared anew.
func TestClocksThatStayInDoubtAreComparedAnew(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		for i, clock := range []string{"10000", "20000"} {
			assert.Must(t, acq.states.noteRead(i, 10*second, clock+" run"+clock+" 1:q:-3600000:0:10000:0"))
		}
		for _, open := range []int{1, 0} {
			ok, err := acq.vouched(10*second, []bool{true, true, false}, map[int]error{}, open)
			assert.True(t, !ok && (err == nil) == (open > 0), "answers to come: %d: %v, %v", open, ok, err)
			assert.Equal(t, acq.states.haveWrongMarks(), open == 0, "answers to come: %d: marks are wrong", open)
		}
	})
}

// A server that refuses has refused since the first time.
func TestSinceWhenAServerRefuses(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		ns, code := acq.states, "FIRST"
		s.say(func(int, string, []string) (string, error) {
			return "", &store.ServerError{Code: code, Message: code}
		})
		assert.True(t, ns.readNode(0, second, "") != nil, "read")
		time.Sleep(second)
		code = "SECOND"
		assert.True(t, ns.readNode(0, second, "") != nil, "read")
		refusal, since := refusalOf([]*nodeStates{ns}, 0)
		assert.True(t, refusal == "SECOND" && since == 10*second, "%s since %v", refusal, since)
		ns.nodes[0].OK = true
		ns.nodes[0].setProbation(s.now(), 70*second, majority.OnProbation)
		info := s.Nodes()[0]
		assert.True(t, !info.Counts && info.CountsFrom.IsZero(), "nobody knows for how long it refuses: %+v", info)
		s.sayEach("node 9000 a -", "", "")
		assert.Must(t, ns.readNode(0, second, ""))
		refusal, _ = refusalOf([]*nodeStates{ns}, 0)
		assert.Equal(t, refusal, "", "refused")
	})
}

// What a server says of itself is an instant, its run and its mark; anything else is no word of a server.
func TestWhatIsNoWordOfAServer(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		for _, said := range []string{"", "9000 run", "9000 run - x", "-1 run -", "x run -", "3153600000001 run -"} {
			assert.Is(t, acq.states.noteRead(0, 9*second, said), wire.ErrAnswer)
		}
		for _, said := range []string{"gone", "set 20 9000 run -", "raised 20"} {
			assert.Is(t, acq.states.noteRaised(0, 9*second, said), wire.ErrAnswer)
		}
		assert.False(t, acq.states.nodes[0].OK, "it counts as read")
		assert.Must(t, acq.states.noteRaised(0, 9*second, "raised 20 9000 run -"))
		at := acq.states.nodes[0]
		assert.True(t, at.Low == -second && at.High == time.Millisecond, "between %v and %v", at.Low, at.High)
	})
}

// A request waits for a third of the time that its caller has left, and not at all if that is over.
func TestARequestLeavesTimeForTheRest(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, _ *acquisition) {
		for left, want := range map[time.Duration]time.Duration{
			900 * time.Millisecond: 300 * time.Millisecond, -second: time.Millisecond, time.Hour: s.cfg.Timeout,
		} {
			ctx, cancel := context.WithTimeout(context.Background(), left)
			assert.Equal(t, s.requestTimeout(ctx, 0), want, "with %v left", left)
			cancel()
		}
		assert.Equal(t, s.requestTimeout(context.Background(), second), 100*time.Millisecond, "for a lease of a second")
		for i, want := range []time.Duration{100 * time.Millisecond, 210 * time.Millisecond} {
			s.nodes[i].pace.Store(int64(70 * time.Millisecond))
			assert.Equal(t, s.requestTimeout(context.Background(), second), want, "if %d are slow", i+1)
		}
	})
}

// What an acquire asks for, and what of it is refused.
func TestWhatAnAcquireAsksFor(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		assert.Equal(t, acq.retention, 7*second, "the retention")
		assert.True(t, acq.ttl == 9*second && acq.channelPrefix == "push:", "%+v", acq.acquireArgs)
		assert.True(t, acq.states == s.statesOf("h"), "the states are those of another prefix")
		for _, test := range []struct{ ttl, recordTTL, mode string }{
			{"0", "9000", "x"}, {"9000", "8999", "x"}, {"9000", "-", "x"}, {"9000", "9000", "p:1:2"},
			{"60001", "90000", "x"},
		} {
			_, err := s.parse([]string{"h:{x}"}, []string{"c/1", test.ttl, test.recordTTL, test.mode, "0", "push:"})
			assert.True(t, isRefusal(err), "%+v: %v", test, err)
		}
		for _, mode := range []string{"x", "s"} {
			_, err := s.parse([]string{"h:{x}"}, []string{"c/1", "60000", "60000", mode, "0", "push:"})
			assert.NoError(t, err)
		}
	})
}

// A client knows its attempts without the numbers that the quorum adds.
func TestAClientsAttemptIsNamedWithoutTheRound(t *testing.T) {
	for id, want := range map[string]string{
		"c/1.7": "c/1", "c/1": "c/1", "c/1.": "c/1.", "c/.7": "c/.7", "c/x.7": "c/x.7", "c/1.x": "c/1.x", "c": "c",
		"c.3/12.34": "c.3/12", "": "", "c/1~50.7": "c/1~50", "c/1~50": "c/1~50", "c/1~.7": "c/1~.7",
	} {
		assert.Equal(t, clientAttempt(id), want, "%q", id)
	}
	for key, want := range map[string]string{"a:{x}": "a", "a:b:{x}": "a:b", ":{x}": "holdfast", "x": "holdfast"} {
		assert.Equal(t, prefix(key), want, "%q", key)
	}
}

// An attempt that has ended acquires nothing more, and one that waits is asked for as it was last.
func TestARepeatedAcquireIsAnsweredByItsPhase(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		acq.phase = ended
		_, err := acq.acquire(t.Context(), "5000")
		assert.Is(t, err, errInvalidCall)
		answer, err := acq.poll(t.Context())
		assert.True(t, answer == "gone" && err == nil, "%q, %v", answer, err)
		_, err = acq.runRounds(t.Context())
		assert.Is(t, err, errEnded)

		s.sayEach("queued 4 2000 0", "queued 4 2000 0", "queued 4 2000 0")
		acq.phase = waiting
		na := acq.round.attempts[acq.round.coordinator]
		na.queued, na.reply = true, majority.Queued
		na.lastAnswer = wire.Answer{Kind: wire.Queued, Place: 9}
		answer, err = acq.acquire(t.Context(), "5000")
		assert.True(t, answer == "queued 4 2000 0" && err == nil, "%q, %v", answer, err)
		assert.Equal(t, acq.currentWaiterTTL(), "5000", "the waiter's TTL")
		assert.True(t, acq.round.attempts[na.i] == na, "it has given up its position")
		synctest.Wait()
	})
}

// Of several prefixes, the one for which a server counts last tells whether it counts, and the newest reading
// tells of its clock.
func TestWhichOfSeveralStatesIsTold(t *testing.T) {
	state := func(askedAt, from time.Duration, standing majority.Standing) *nodeStates {
		return &nodeStates{nodes: []nodeState{{
			Reading: majority.Reading{OK: askedAt > 0}, askedAt: askedAt, countsFrom: from, standing: standing,
		}}}
	}
	counts, soon := state(9, 0, majority.Counts), state(7, 20, majority.OnProbation)
	late, unread := state(8, 30, majority.OnProbation), state(0, 90, majority.OnProbation)
	for _, states := range [][]*nodeStates{
		{counts, soon, late, unread}, {unread, late, soon, counts},
		{soon, unread, counts, late}, {late, counts, unread, soon},
	} {
		worst, newest := worstOf(states, 0, 10)
		assert.Equal(t, worst.countsFrom, 30, "it counts from")
		assert.Equal(t, newest.askedAt, 9, "the newest reading was asked for at")
	}
	worst, _ := worstOf([]*nodeStates{counts, state(7, 0, majority.Stranger)}, 0, 10)
	assert.Equal(t, worst.standing, majority.Stranger, "beside one for which it counts")
	worst, _ = worstOf([]*nodeStates{unread}, 0, 10)
	assert.False(t, worst.OK, "what was never read is told")
	for from, told := range map[time.Duration]bool{10: false, 11: true} {
		n, info := state(9, from, majority.Stranger).nodes[0], NodeInfo{}
		info.judge(n, 10, func(at time.Duration) time.Time { return time.Unix(0, int64(at)) })
		assert.True(t, !info.Counts && info.CountsFrom.IsZero() != told, "at 10, out until %v: %+v", from, info)
	}
}

// If two clients begin a quorum at once, the marks of one of them are there first. The other client goes by
// those, and not by what it wanted to write.
func TestAMarkThatAnotherClientWroteFirstIsJudged(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		s.say(func(i int, _ string, args []string) (string, error) {
			run := string(rune('a' + i))
			if len(args) == 1 {
				return "node 9000 " + run + " -", nil
			}
			return "node 9000 " + run + " 1:other:9000:0:9000:0", nil // the write finds this mark
		})
		assert.Must(t, s.identify(t.Context(), acq.states))
		for i := range 3 {
			left := acq.states.probation(i).left
			assert.True(t, left > s.cfg.MaxTTL-second && left <= s.cfg.MaxTTL+second,
				"server %d does not count for another %v", i, left)
		}
	})
}
