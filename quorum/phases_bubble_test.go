//go:build !race

package quorum

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// The tests of this file look at what is sent to which server as an acquisition goes from phase to phase.

// sentLog is what was sent to each server, oldest first.
type sentLog struct {
	mu   sync.Mutex
	sent [3][]string
}

func (l *sentLog) add(i int, what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[i] = append(l.sent[i], what)
}

func (l *sentLog) want(t *testing.T, i int, want ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	assert.EqualSlices(t, l.sent[i], want, "sent to server %d", i)
}

// Only the coordinator is asked for a position. Where a waiter has none, what it was granted is cancelled.
func TestAWaiterHasOnePosition(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		log, coordinator := &sentLog{}, s.order(acq.key)[0]
		s.say(func(i int, action string, args []string) (string, error) {
			switch action {
			case "acquire":
				log.add(i, "acquire "+args[4])
				if i == coordinator {
					time.Sleep(10 * time.Millisecond)
					return "queued 2 5000 0", nil
				}
				return "granted 20 0", nil
			case "cancel":
				log.add(i, "cancel")
				return "released", nil
			}
			return asMemory, nil
		})
		acq.waiterTTL = "27000"
		answer, err := acq.runRounds(t.Context())
		assert.True(t, answer == "queued 2 3000 0" && err == nil, "%q, %v", answer, err)
		assert.Equal(t, acq.phase, waiting, "the phase")
		synctest.Wait()
		for i := range 3 {
			if i == coordinator {
				log.want(t, i, "acquire 27000")
				continue
			}
			log.want(t, i, "acquire 0", "cancel")
			assert.True(t, acq.round.attempts[i].reply == majority.Busy, "server %d: %+v", i, acq.round.attempts[i])
		}
	})
}

// If a client that does not wait is granted by the coordinator, the others may be cancelling, whether they held for
// one attempt or for several. They are asked some times more, and the coordinator is not.
func TestATryAsksBusyServersAFewTimesMore(t *testing.T) {
	for _, holders := range [][3]string{{"d/1", "e/1", "f/1"}, {"d/1", "d/1", "d/1"}} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			log, coordinator := &sentLog{}, s.order(acq.key)[0]
			s.say(func(i int, action string, args []string) (string, error) {
				if action == "cancel" {
					log.add(i, action)
					return "released", nil
				}
				log.add(i, action+" "+args[4])
				if i == coordinator {
					return "granted 20 0", nil
				}
				return "busy 4000 " + holders[i] + ".1", nil
			})
			acq.waiterTTL = "0"
			answer, err := acq.runRounds(t.Context())
			assert.True(t, answer == "busy 4000 "+holders[s.order(acq.key)[1]] && err == nil, "%q, %v", answer, err)
			synctest.Wait()
			for i := range 3 {
				if i == coordinator {
					log.want(t, i, "acquire 0", "cancel")
					continue
				}
				log.want(t, i, slices.Repeat([]string{"acquire 0"}, maxReasks+1)...)
			}
		})
	}
}

// If a majority has granted, the others have a moment to do so, too.
func TestTheOthersHaveAMomentToGrant(t *testing.T) {
	for after, want := range map[time.Duration]bool{time.Millisecond: true, 5 * time.Millisecond: false} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			last := s.order(acq.key)[2]
			s.say(func(i int, action string, _ []string) (string, error) {
				if action == "acquire" && i == last {
					time.Sleep(after)
				}
				return asMemory, nil
			})
			acq.waiterTTL = "0"
			assert.Must(t, s.identify(t.Context(), acq.states))
			began := s.now()
			answer, err := acq.runRounds(t.Context())
			assert.True(t, strings.HasPrefix(answer, "granted ") && err == nil, "%q, %v", answer, err)
			assert.Equal(t, acq.round.attempts[last].holds, want, "after %v, it holds", after)
			assert.Equal(t, s.now()-began, min(after, 2*time.Millisecond), "after %v, it has waited", after)
		})
	}
}

// When its turn has come, a waiter joins the queues of the other servers. What it has it keeps.
func TestAWaiterWhoseTurnItIsAsksTheOthers(t *testing.T) {
	for _, at := range []phase{waiting, asking, idle, held, ended} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			log, r := &sentLog{}, acq.round
			s.say(func(i int, action string, args []string) (string, error) {
				if action == "acquire" {
					log.add(i, "acquire "+args[4])
					return "busy 4000 d/1.1", nil
				}
				return "none", nil
			})
			acq.waiterTTL, acq.phase = "27000", at
			r.attempts[r.coordinator].holds, r.attempts[r.coordinator].reply = true, majority.Granted
			acq.collect(r)
			synctest.Wait()
			acq.mu.Lock()
			defer acq.mu.Unlock()
			for i := range 3 {
				if i == r.coordinator || at != waiting && at != asking {
					log.want(t, i)
				} else {
					log.want(t, i, "acquire 27000")
				}
			}
		})
	}
}

// A poll extends what the round has on each server. Servers on which it has nothing are asked for more only
// while it collects.
func TestWhatAPollAsksFor(t *testing.T) {
	for _, at := range []phase{collecting, held} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			log := &sentLog{}
			s.say(func(i int, action string, args []string) (string, error) {
				if action == "cancel" {
					return "none", nil
				}
				log.add(i, action+" "+args[len(args)-2]) // for how long a position is kept
				acq.mu.Lock()
				defer acq.mu.Unlock()
				waits := acq.round.attempts[i].reply == majority.Open
				assert.Equal(t, waits, action == "acquire", "an answer of %d is awaited to %s", i, action)
				return "", errBroken
			})
			acq.hold()
			acq.phase, acq.waiterTTL = at, "27000"
			queued, nothing := acq.round.attempts[1], acq.round.attempts[2]
			queued.holds, queued.queued, queued.reply = false, true, majority.Queued
			nothing.holds, nothing.reply = false, majority.Busy
			answer, err := acq.pollAll(t.Context(), acq.round)
			log.want(t, 0, "poll 27000")
			log.want(t, 1, "poll 27000")
			if at == collecting {
				assert.True(t, answer == "queued 1 3000 0" && err == nil, "%q, %v", answer, err)
				log.want(t, 2, "acquire 27000")
				return
			}
			log.want(t, 2)
			assert.True(t, answer == "gone" && err == nil, "%q, %v", answer, err) // one server may hold
		})
	}
}

// A lease that no majority confirms is in doubt while a majority may hold it, and gone when no majority can.
func TestALeaseIsInDoubtWhileAMajorityMayHoldIt(t *testing.T) {
	for hold, gone := range []bool{true, true, false, false} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			s.say(func(int, string, []string) (string, error) { return "", errBroken })
			acq.hold()
			for _, na := range acq.round.attempts[hold:] {
				na.holds = false
			}
			time.Sleep(second) // what was heard before the poll confirms nothing
			answer, err := acq.pollAll(t.Context(), acq.round)
			assert.True(t, (answer == "gone") == gone && (err == nil) == gone, "%d may hold: %q, %v", hold, answer, err)
		})
	}
}

// The token is above those of all grants that count, and is written to the servers that gave them.
func TestTheTokenIsWrittenWhereItIsGranted(t *testing.T) {
	const mark = " 10000 run%d 1:q:-3600000:0:10000:0"
	for _, test := range []struct {
		name    string
		answers [2]string
		want    string
	}{
		{"all is well", [2]string{"raised 31" + mark, "raised 31" + mark}, "granted 31 4"},
		{"one has forgotten", [2]string{"raised 31" + mark, "gone"}, ""},
		{"one does not answer", [2]string{"raised 31" + mark, "!"}, ""},
		{"one is new", [2]string{"raised 31" + mark, "raised 31 10000 run%d -"}, ""},
		{"both are one", [2]string{"raised 31 10000 run 1:q:-3600000:0:10000:0",
			"raised 31 10000 run 1:q:-3600000:0:10000:0"}, ""},
	} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			log := &sentLog{}
			s.say(func(i int, action string, args []string) (string, error) {
				if action != "raise_fence" {
					return "", errBroken
				}
				log.add(i, args[1])
				if i == 2 || test.answers[i] == "!" {
					return "", errBroken
				}
				if strings.Contains(test.answers[i], "%d") {
					return fmt.Sprintf(test.answers[i], i), nil
				}
				return test.answers[i], nil
			})
			acq.hold()
			acq.phase, acq.waiters = asking, 4
			for i, na := range acq.round.attempts {
				na.token = []uint64{20, 30, 40}[i]
			}
			acq.round.attempts[2].countsFrom-- // it does not count
			answer, err := acq.writeToken(t.Context(), acq.round, second)
			assert.True(t, answer == test.want && (err == nil) == (test.want != ""), "%s: %q, %v", test.name,
				answer, err)
			assert.Equal(t, acq.phase == held, test.want != "", "%s: it is held", test.name)
			synctest.Wait()
			log.want(t, 0, "31")
			log.want(t, 1, "31")
			if test.want != "" {
				log.want(t, 2, "31") // it holds, too, though it does not count
				assert.True(t, acq.token == 31 && acq.renewedAt == 10*second, "%d, %v", acq.token, acq.renewedAt)
			}
		})
	}
}

// A lease that is polled is confirmed with the number of waiters that the coordinator knows, however late it
// answers. A silent coordinator is not waited for.
func TestAConfirmationWaitsForTheCoordinator(t *testing.T) {
	for _, isSilent := range []bool{false, true} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			acq.hold()
			acq.token, acq.waiters = 20, 9
			coordinator := acq.round.coordinator
			s.say(func(i int, _ string, _ []string) (string, error) {
				if i == coordinator {
					time.Sleep(100 * time.Millisecond)
				}
				return fmt.Sprintf("granted 20 %d", i), nil
			})
			want, waited := fmt.Sprintf("granted 20 %d", coordinator), 100*time.Millisecond
			if isSilent {
				s.nodes[coordinator].noteAnswers(false, s.now(), 0)
				want, waited = "granted 20 9", 0
			}
			answer, err := acq.poll(t.Context())
			assert.True(t, answer == want && err == nil, "%q, %v, want %q", answer, err, want)
			assert.Equal(t, s.now()-10*second, waited, "it has waited")
		})
	}
}

// An attempt that is cancelled before it has asked anybody asks nobody afterwards.
func TestAnAttemptThatIsCancelledEarlyAsksNobody(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		log := &sentLog{}
		s.say(func(i int, action string, _ []string) (string, error) {
			log.add(i, action)
			return "granted 20 0", nil
		})
		other := s.acquisition("c/2", acq.acquireArgs)
		answer, err := s.cancel(t.Context(), []string{acq.key}, []string{"c/2", "7000", "push:"})
		assert.True(t, answer == "withdrawn" && err == nil, "%q, %v", answer, err)
		_, err = other.acquire(t.Context(), "0") // it has waited for its turn
		assert.Is(t, err, errInvalidCall)
		for i := range 3 {
			log.want(t, i)
		}
	})
}

// Whatever its client does with an acquisition is a use of it. What is not used is swept, and a waiter that is
// swept loses its position.
func TestWhatIsAUseOfAnAcquisition(t *testing.T) {
	for what, use := range map[string]func(t *testing.T, s *Store, acq *acquisition){
		"a poll": func(t *testing.T, s *Store, acq *acquisition) {
			acq.phase, acq.round.attempts[acq.round.coordinator].queued = waiting, true
			args := []string{"c/1", "9000", "7000", "27000", "push:"}
			answer, err := s.poll(t.Context(), []string{acq.key}, args)
			assert.True(t, answer == "queued 2 2000 0" && err == nil, "%q, %v", answer, err)
		},
		"a round": func(_ *testing.T, _ *Store, acq *acquisition) { acq.newRound() },
		"a grant": func(t *testing.T, _ *Store, acq *acquisition) {
			acq.countsFrom = acq.s.now()
			assert.Must(t, assert.Err(acq.granted(acq.round, 20, nil, second)))
		},
		"a renewal": func(t *testing.T, s *Store, acq *acquisition) {
			assert.Must(t, assert.Err(s.renew(t.Context(), []string{acq.key}, []string{"7000", "9000", "c/1"})))
		},
	} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			s.say(func(_ int, action string, _ []string) (string, error) {
				switch action {
				case "poll":
					return "queued 2 2000 0", nil
				case "renew":
					return "renewed 0", nil
				}
				return asMemory, nil
			})
			time.Sleep(second)
			use(t, s, acq)
			assert.Equal(t, acq.touched.Load(), int64(11*second), "%s: last used at", what)
			acq.phase = ended
		})
	}
}

// As long as clocks differ, further answers may tell which are right.
func TestTheThirdAnswerTellsWhichClockIsRight(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		s.say(func(i int, action string, _ []string) (string, error) {
			if action != "raise_fence" {
				return "", errBroken
			}
			time.Sleep(time.Duration(i) * 10 * time.Millisecond)
			clock := []int{15000, 10010, 10020}[i]
			return fmt.Sprintf("raised 21 %d run%d 1:q:-3600000:0:10000:0", clock, i), nil
		})
		acq.hold()
		acq.phase = asking
		for _, na := range acq.round.attempts {
			na.token = 21
		}
		answer, err := acq.writeToken(t.Context(), acq.round, second)
		assert.True(t, answer == "granted 21 0" && err == nil, "%q, %v", answer, err)
		assert.Equal(t, s.now(), 10*second+20*time.Millisecond, "granted at")
	})
}

// A second phase that ends after its round brings nothing: what the round has is being cancelled.
func TestASecondPhaseOfAnEndedRoundIsNotBelieved(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		acq.hold()
		acq.phase = asking
		r := acq.round
		r.end()
		assert.Is(t, assert.Err(acq.granted(r, 20, nil, second)), errEnded)
		assert.Equal(t, acq.phase, asking, "the phase")
	})
}

// If the second phase fails, the error names each server that is missing, also those that had not granted.
func TestAFailedSecondPhaseNamesTheServersThatHadNotGranted(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		s.say(func(i int, _ string, _ []string) (string, error) {
			if i == 0 {
				time.Sleep(100 * time.Millisecond) // the failure of the second server is known before
			}
			return "", errBroken
		})
		acq.hold()
		acq.phase, acq.round.attempts[2].holds = asking, false
		_, err := acq.writeToken(t.Context(), acq.round, second)
		assert.Is(t, err, errNoGrant, errBroken)
		assert.Contains(t, err.Error(), "1 of 3 nodes can take part")
		assert.Contains(t, err.Error(), "node 2: "+errBroken.Error()+"; node 3: "+errNoGrant.Error())
	})
}

// A refusal is told once nothing is left of the locks before it: the client sends no cancel after a refusal.
func TestARefusalOfOneOfSeveralLocksCancelsTheOthers(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, _ *acquisition) {
		var mu sync.Mutex
		asked, cancelled := make([]int, 3), make([]int, 3)
		s.say(func(i int, action string, _ []string) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			switch action {
			case "acquire":
				if asked[i]++; asked[i] > 1 {
					return "", &store.ServerError{Code: "NOPERM", Message: "NOPERM this user may not"}
				}
			case "cancel":
				cancelled[i]++
			}
			return asMemory, nil
		})
		args := []string{"c/2", "9000", "7000", "push:", "push:"}
		answer, err := s.acquireAll(t.Context(), []string{"h:{y}", "h:{z}"}, args)
		assert.True(t, isRefusal(err) && answer == "", "%q, %v", answer, err)
		mu.Lock()
		defer mu.Unlock()
		assert.EqualSlices(t, cancelled, []int{1, 1, 1}, "cancelled on each server when it is told")
	})
}

// A server that has forgotten its grant when the token is written, or does not know its own mark any more, is left
// out of the next round, which begins when nothing is left of this one. The error says so.
func TestAServerThatForgotItsGrantCausesAnotherRound(t *testing.T) {
	for raised, why := range map[string]string{
		"gone": errForgot.Error(), "raised 21 10000 run%d -": "is new, or has lost its memory",
	} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			var mu sync.Mutex
			rounds, cancels := 0, 0
			s.say(func(i int, action string, _ []string) (string, error) {
				if action == "cancel" {
					time.Sleep(second / 10)
				}
				mu.Lock()
				defer mu.Unlock()
				switch action {
				case "acquire":
					if i == 0 {
						rounds++
						assert.True(t, raised == "gone" || cancels >= 3*(rounds-1), "round %d: %d", rounds, cancels)
					}
					return "granted 20 0", nil
				case "raise_fence":
					return strings.Replace(raised, "%d", strconv.Itoa(i), 1), nil
				case "cancel":
					cancels++
					return "released", nil
				}
				return asMemory, nil
			})
			_, err := acq.runRounds(t.Context())
			assert.Equal(t, rounds, 4, "after %q, rounds, of which each could find out one server", raised)
			assert.Contains(t, fmt.Sprint(err), why)
		})
	}
}

// A subscription that nobody waits for any more is ended at each server.
func TestASubscriptionThatNobodyWaitsForEnds(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, _ *acquisition) {
		for _, n := range s.nodes {
			n.Store = &slowListener{Store: memstore.New()}
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		_, err := s.Listen(ctx, "push:c", store.Listener{})
		assert.Is(t, err, context.Canceled)
		assert.Equal(t, len(s.listeners.On("push:c")), 0, "subscriptions")
	})
}

// A server that does not confirm a subscription is not waited for longer than for an answer.
func TestASubscriptionDoesNotWaitForOneServer(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, _ *acquisition) {
		s.nodes[1].Store = &slowListener{memstore.New()}
		s.nodes[silent].Store = memstore.New()
		began := s.now()
		stop, err := s.Listen(t.Context(), "push:c", store.Listener{})
		assert.Must(t, err)
		assert.Equal(t, s.now()-began, s.cfg.Timeout, "it has waited")
		stop()
	})
}

// slowListener is a server that never confirms a subscription.
type slowListener struct{ *memstore.Store }

func (*slowListener) Listen(ctx context.Context, _ string, _ store.Listener) (func(), error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// The polls of waiters keep the marks, and the comparison of clocks recent.
func TestAPollOfAWaiterReadsTheServersIfThatIsDue(t *testing.T) {
	for age, want := range map[time.Duration]bool{2 * second: false, 3 * second: true} { // MaxTTL/20 is 3 s
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			s.say(func(_ int, action string, _ []string) (string, error) {
				if action == "mark_server" {
					return asMemory, nil
				}
				return "queued 4 2000 0", nil
			})
			acq.phase = waiting
			acq.round.attempts[acq.round.coordinator].queued = true
			acq.states.lastRead = s.now() - age
			_, err := acq.poll(t.Context())
			assert.Must(t, err)
			assert.Equal(t, acq.states.lastRead == 10*second, want, "after %v, the servers are read", age)
		})
	}
}

// A refusal is an answer: the server is not late.
func TestARefusalDoesNotMakeAServerLate(t *testing.T) {
	for err, want := range map[error]bool{
		&store.ServerError{Code: "NOPERM", Message: "NOPERM no"}: false, context.DeadlineExceeded: true,
	} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			s.say(func(int, string, []string) (string, error) { return "", err })
			n := s.nodes[0]
			_, _ = n.call(nil, second, script.Poll, []string{acq.key}, nil)
			assert.Equal(t, n.isSilent(), want, "after %v, it is silent", err)
			for range 4 {
				n.window.window.Enter()
			}
			assert.Equal(t, n.window.window.Full(), want, "after %v, requests have to wait", err)
		})
	}
}
