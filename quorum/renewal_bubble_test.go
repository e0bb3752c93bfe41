//go:build !race

package quorum

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// What a renewal says of each server is for how long that server certainly holds.
func TestARenewalSaysForHowLongEachServerHolds(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		acq.hold()
		s.say(func(int, string, []string) (string, error) {
			time.Sleep(second / 10) // the second gets the token once all has been looked at
			return asMemory, nil
		})
		unheard := acq.round.attempts[1]
		unheard.holds = false // its grant was not heard of, and the renewal says that it has it
		acq.renewAt13(majority.Held, majority.TooRecent, majority.Silent)
		deadline := leasetime.Deadline(13*second, acq.ttl)
		assert.Equal(t, acq.round.attempts[0].heldUntil, deadline, "the first holds until")
		assert.Equal(t, unheard.heldUntil, deadline, "the second holds until")
		assert.True(t, unheard.holds && unheard.heldSince == 13*second, "its grant is not heard of: %+v", unheard)
		assert.Equal(t, acq.round.attempts[silent].heldUntil, 0, "the silent one holds until")
	})
}

// The attempt that is replaced when a lease is restored must not acquire any more, and a server that has
// not held since the lease was renewed does not confirm it.
func TestARestoredLeaseCountsFromItsRestoration(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		acq.hold()
		before := acq.round.attempts[0]
		before.holds = false
		acq.renewAt13(majority.NotHeld, majority.Held, majority.Held)
		acq.mu.Lock()
		defer acq.mu.Unlock()
		assert.True(t, before.ended && acq.round.attempts[0] != before, "the old attempt goes on")
		acq.round.attempts[1].heldSince = acq.renewedAt + 1
		assert.EqualSlices(t, acq.round.confirmed(), []bool{false, false, true}, "confirmed by")
	})
}

// A lease that is renewed is in use. One that is lost has ended. One that was evicted acquires nothing more, and its
// client may still release what it holds.
func TestARenewalIsAUseOfItsAcquisition(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		acq.hold()
		acq.touched.Store(0)
		_, _, err := s.parseRenewals(t.Context(), []string{acq.key}, []string{"27000", "9000", "c/1"})
		assert.Must(t, err)
		assert.Equal(t, acq.touched.Load(), int64(10*second), "last used at")
	})
	for _, said := range []string{"-", "evicted"} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			acq.hold()
			s.sayEach("renewed "+said, "renewed "+said, "renewed "+said)
			answer, err := s.renew(t.Context(), []string{acq.key}, []string{"7000", "9000", "c/1"})
			assert.True(t, answer == "renewed "+said && err == nil, "%q, %v", answer, err)
			known := s.find(acq.key, "c/1") != nil && acq.phase == held
			assert.True(t, acq.round.ended && known == (said == "evicted"), "its round has ended: %t, it is known: %t",
				acq.round.ended, known)
		})
	}
}

// A coordinator that is asked for a position has not answered yet. Otherwise each later answer of another
// server asks it once more.
func TestACoordinatorIsAskedForAPositionOnce(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		for _, na := range acq.round.attempts {
			na.reply, na.lastAnswer = majority.Busy, wire.Answer{Kind: wire.Busy, Holder: "d/1.7"}
		}
		for _, want := range []majority.Decision{majority.JoinQueue, majority.Undecided} {
			d, _ := acq.decide(acq.round, true)
			assert.Equal(t, d, want, "the decision")
		}
	})
}

// What a server says of a lease is its vote. If the acquisition is not known, there is nothing that it could
// have held before.
func TestWhatAServersWordIsAsAVote(t *testing.T) {
	for _, test := range []struct {
		word    wire.Renewal
		holds   bool
		since   time.Duration
		known   bool
		want    majority.Vote
		waiters int
	}{
		{wire.Renewal{Held: true, Waiting: 3}, true, 10 * second, true, majority.Held, 3},
		{wire.Renewal{Held: true}, true, 10*second + 1, true, majority.TooRecent, 0},
		{wire.Renewal{Held: true}, false, 10 * second, true, majority.TooRecent, 0},
		{wire.Renewal{Held: true}, false, 0, false, majority.Held, 0},
		{wire.Renewal{}, true, 10 * second, true, majority.NotHeld, 0},
		{wire.Renewal{Evicted: true}, true, 10 * second, true, majority.Evicted, 0},
	} {
		inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
			acq.hold()
			ren := renewal{
				acq: acq, since: 10 * second, votes: make([]majority.Vote, 3), waiters: make([]int, 3),
			}
			if test.known {
				ren.attempts = acq.round.attempts
			}
			acq.round.attempts[1].holds, acq.round.attempts[1].heldSince = test.holds, test.since
			ren.note(1, test.word)
			assert.EqualSlices(t, ren.votes, []majority.Vote{0, test.want, 0}, "%+v: the votes", test)
			assert.Equal(t, ren.waiters[1], test.waiters, "%+v: waiters", test)
		})
	}
}

// A renewal does not see a grant since its start. So it replaces no attempt that may hold since.
func TestALeaseIsRestoredOnlyWhereItIsMissing(t *testing.T) {
	for _, test := range []struct {
		vote  majority.Vote
		holds bool
		since time.Duration
		want  bool
	}{
		{majority.NotHeld, false, 0, true},
		{majority.NotHeld, true, 12 * second, true},
		{majority.NotHeld, true, 13 * second, false},
		{majority.Silent, false, 0, false},
		{majority.TooRecent, false, 0, false},
		{majority.Evicted, false, 0, false},
	} {
		inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
			acq.hold()
			na := acq.round.attempts[2]
			na.holds, na.heldSince = test.holds, test.since
			acq.renewAt13(majority.Held, majority.Held, test.vote)
			acq.mu.Lock()
			assert.Equal(t, acq.round.attempts[2] != na, test.want, "%+v: it is restored", test)
			acq.mu.Unlock()
			synctest.Wait()
		})
	}
}

// If too few servers answer, the lease is restored where it is missing while it may yet go on.
func TestALeaseIsRestoredWhileItMayGoOn(t *testing.T) {
	for _, test := range []struct {
		until time.Duration // the silent server holds until
		at    phase
		want  bool
	}{{13 * second, held, true}, {13*second - 1, held, false}, {13 * second, ended, false}} {
		inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
			acq.hold()
			na := acq.round.attempts[1]
			na.holds, acq.phase = false, test.at
			acq.round.attempts[silent].heldUntil = test.until
			time.Sleep(3 * second)
			ren := renewal{
				acq: acq, attempts: append([]*nodeAttempt(nil), acq.round.attempts...), ttl: acq.ttl,
				since: 10 * second, votes: []majority.Vote{majority.Held, majority.NotHeld, majority.Silent},
			}
			ren.restoreMissing(13*second, second)
			acq.mu.Lock()
			assert.Equal(t, acq.round.attempts[1] != na, test.want, "%+v: it is restored", test)
			deadline := leasetime.Deadline(13*second, acq.ttl)
			assert.Equal(t, acq.round.attempts[0].heldUntil, deadline, "%+v: the other one holds until", test)
			acq.mu.Unlock()
			synctest.Wait()
		})
	}
}

// How many wait is known from the coordinator; if that is silent, it is as before. Of an acquisition that is
// not known, it is the most that a server knows of.
func TestARenewalTellsHowManyWait(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		acq.hold()
		acq.waiters = 7
		votes := []majority.Vote{majority.Held, majority.Held, majority.Held}
		ren := renewal{acq: acq, attempts: acq.round.attempts, ttl: acq.ttl, votes: votes, waiters: []int{3, 4, 5}}
		votes[acq.round.coordinator] = majority.Silent
		assert.Equal(t, ren.noteRenewed(13*second, second), 7, "while the coordinator is silent")
		votes[acq.round.coordinator] = majority.Held
		assert.Equal(t, ren.noteRenewed(13*second, second), acq.round.coordinator+3, "by the coordinator")
		ren.attempts = nil
		assert.Equal(t, ren.noteRenewed(13*second, second), 5, "if the acquisition is not known")
	})
}

// A request may not last longer than its shortest lease allows.
func TestARenewalIsBoundedByItsShortestLease(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, _ *acquisition) {
		for _, words := range [][]string{{"a/1", "b/1 1000", "c/1"}, {"a/1 1000", "b/1", "c/1"}} {
			keys := []string{"h:{a}", "h:{b}", "h:{c}"}
			args := append([]string{"7000", "4000"}, words...)
			leases, timeout, err := s.parseRenewals(t.Context(), keys, args)
			assert.Must(t, err)
			assert.Equal(t, timeout, 100*time.Millisecond, "%v: the bound", words)
			asked, with := renewArgs(0, "7000", "4000", leases)
			assert.EqualSlices(t, asked, keys, "each server is asked for each lock")
			assert.EqualSlices(t, with, args, "each server is asked for each TTL")
		}
	})
}

// Whoever has leases with several prefixes keeps the marks of each.
func TestARenewalKeepsTheMarksOfEachPrefix(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, _ *acquisition) {
		s.sayEach("renewed 0 0", "renewed 0 0", "renewed 0 0")
		_, err := s.renew(t.Context(), []string{"i:{a}", "h:{b}"}, []string{"7000", "4000", "a/1", "b/1"})
		assert.Must(t, err)
		for _, p := range []string{"h", "i"} {
			assert.Equal(t, s.statesOf(p).lastRead, 10*second, "the servers are read for %q at", p)
		}
	})
}

// Of several leases, those may go on of which enough servers know.
func TestEachLeaseOfARenewalHasItsOwnOutcome(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, _ *acquisition) {
		said := []string{"renewed 1 evicted - 5 2", "renewed 3 evicted - - 2", "renewed - - - 9 evicted"}
		s.sayEach(said...)
		keys := []string{"h:{a}", "h:{b}", "h:{c}", "h:{d}", "h:{e}"}
		answer, err := s.renew(t.Context(), keys, []string{"7000", "4000", "a/1", "b/1", "c/1", "d/1", "e/1"})
		assert.True(t, answer == "renewed 3 evicted - 9 2" && err == nil, "%q, %v", answer, err)
		s.sayEach(said[0], said[1], "!")
		answer, err = s.renew(t.Context(), keys, []string{"7000", "4000", "a/1", "b/1", "c/1", "d/1", "e/1"})
		assert.True(t, answer == "renewed 3 evicted - ? 2" && err == nil, "one is in doubt: %q, %v", answer, err)
		s.sayEach(said[0], "!", "!")
		_, err = s.renew(t.Context(), keys[:1], []string{"7000", "4000", "a/1"})
		assert.True(t, err != nil, "renewed by one server")
	})
}

// A renewal waits for a silent server only while it needs that one: it may be back.
func TestARenewalWaitsForASilentServerThatItNeeds(t *testing.T) {
	for other, want := range map[string]time.Duration{"!": 100 * time.Millisecond, "renewed 1": 2 * time.Millisecond} {
		inside(t, func(t *testing.T, s *Store, _ *acquisition) {
			s.say(func(i int, _ string, _ []string) (string, error) {
				if i == 1 {
					time.Sleep(100 * time.Millisecond)
				} else if i == 2 && other == "!" {
					return "", errBroken
				}
				return "renewed 1", nil
			})
			s.nodes[1].noteAnswers(false, s.now(), 0)
			answer, err := s.renew(t.Context(), []string{"h:{a}"}, []string{"7000", "4000", "a/1"})
			assert.True(t, answer == "renewed 1" && err == nil, "%q, %v", answer, err)
			assert.Equal(t, s.now()-10*second, want, "with %q from another one, it has waited", other)
		})
	}
}

// A server on which a lease is restored gets the lease's token, and first loses what an earlier request led to
// there.
func TestWhatIsSentToRestoreALease(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		log := &sentLog{}
		s.say(func(i int, action string, args []string) (string, error) {
			log.add(i, action+" "+args[0])
			switch action {
			case "acquire":
				return "granted 20 0", nil
			case "raise_fence":
				log.add(i, args[1])
				return "", errBroken
			}
			return "released", nil
		})
		acq.hold()
		acq.token = 50
		before := acq.round.attempts[0]
		before.holds, before.queued = false, true
		acq.renewAt13(majority.NotHeld, majority.Held, majority.Held)
		synctest.Wait()
		acq.mu.Lock()
		defer acq.mu.Unlock()
		next := acq.round.attempts[0]
		log.want(t, 0, "cancel "+before.id, "acquire "+next.id, "raise_fence "+next.id, "50")
		log.want(t, 1)
		assert.True(t, next.holds && next.heldSince == 13*second, "%+v", next)
	})
}

// A grant that a renewal is the first to tell of counts from the start of that renewal.
func TestAGrantThatARenewalTellsOfCountsFromItsStart(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		acq.hold()
		acq.round.attempts[1].holds = false
		time.Sleep(4 * second)
		votes := []majority.Vote{majority.Held, majority.TooRecent, majority.Held}
		ren := renewal{acq: acq, attempts: acq.round.attempts, ttl: acq.ttl, votes: votes, waiters: make([]int, 3)}
		ren.noteRenewed(13*second, second)
		acq.mu.Lock()
		defer acq.mu.Unlock()
		for i, na := range acq.round.attempts {
			assert.Equal(t, na.countsFrom, 13*second, "the hold of server %d counts from", i)
		}
		assert.Equal(t, acq.renewedAt, 13*second, "the lease was renewed at")
	})
}

// What a renewal says of an attempt says nothing of the one that took its place meanwhile.
func TestAVoteIsOfTheAttemptThatWasAsked(t *testing.T) {
	for _, vote := range []majority.Vote{majority.NotHeld, majority.TooRecent, majority.Held} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			acq.hold()
			ren := renewal{
				acq: acq, attempts: append([]*nodeAttempt(nil), acq.round.attempts...), ttl: acq.ttl,
				votes: []majority.Vote{vote, majority.Held, majority.Held}, waiters: make([]int, 3),
			}
			next := acq.round.newAttempt(0)
			acq.round.attempts[0] = next
			ren.noteRenewed(13*second, second)
			acq.mu.Lock()
			defer acq.mu.Unlock()
			assert.True(t, acq.round.attempts[0] == next && !next.holds && next.countsFrom == 0, "%v: %+v", vote, next)
		})
	}
}

// Only a lease that was won is renewed under the identities of its round. Of another one nothing is known.
func TestOnlyALeaseThatWasWonIsRenewed(t *testing.T) {
	for _, at := range []phase{asking, waiting, collecting, held, ended} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			acq.hold()
			acq.phase = at
			leases, _, err := s.parseRenewals(t.Context(), []string{acq.key}, []string{"27000", "9000", "c/1"})
			assert.Must(t, err)
			assert.Equal(t, leases[0].attempts != nil, at == held, "in phase %d, its attempts are known", at)
		})
	}
}
