//go:build !race

package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// The tests of this file look at steps whose acquisition has ended, or gone further, while they were under way,
// and at calls that are decided without asking a server.

// Whatever step of an acquisition is under way when it ends, the step comes to nothing, and at once.
func TestAStepEndsWithItsAcquisition(t *testing.T) {
	for what, step := range map[string]struct {
		run  func(ctx context.Context, acq *acquisition) (string, error)
		said string
		err  error
	}{
		"a round": {func(ctx context.Context, acq *acquisition) (string, error) {
			acq.waiterTTL = "0"
			return acq.runRound(ctx)
		}, "", errEnded},
		"a second phase": {func(ctx context.Context, acq *acquisition) (string, error) {
			acq.hold()
			acq.phase = asking
			return acq.writeToken(ctx, acq.round, second)
		}, "", errEnded},
		"a poll of the coordinator": {func(ctx context.Context, acq *acquisition) (string, error) {
			acq.phase, acq.round.attempts[acq.round.coordinator].queued = waiting, true
			return acq.poll(ctx)
		}, "gone", nil},
		"a poll of a holder": {func(ctx context.Context, acq *acquisition) (string, error) {
			acq.hold()
			return acq.poll(ctx)
		}, "gone", nil},
	} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			asked := 0
			var mu sync.Mutex
			s.say(func(_ int, action string, _ []string) (string, error) {
				mu.Lock()
				if action != script.Cancel.Name && action != script.MarkServer.Name {
					asked++
				}
				mu.Unlock()
				time.Sleep(300 * time.Millisecond)
				return "queued 4 2000 0", nil
			})
			time.AfterFunc(100*time.Millisecond, func() { s.end(acq) })
			said, err := step.run(t.Context(), acq)
			assert.True(t, said == step.said && (err == nil) == (step.err == nil), "%s: %q, %v", what, said, err)
			if step.err != nil {
				assert.Is(t, err, step.err)
			}
			time.Sleep(second)
			mu.Lock()
			defer mu.Unlock()
			assert.AtMost(t, asked, 3, "%s: requests, of which none may be of another round", what)
			assert.Equal(t, acq.phase, ended, "%s: the phase", what)
		})
	}
}

// A round that has ended is not completed, and does not pause: what it has is being cancelled.
func TestAnEndedRoundGoesNowhere(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		acq.hold()
		acq.phase = collecting
		acq.round.end()
		_, won, err := acq.complete(t.Context(), acq.round, second)
		assert.False(t, won, "it has won")
		assert.Is(t, err, errEnded)
		acq.driver <- struct{}{} // somebody else drives
		acq.backOff(acq.round, second)
		assert.Equal(t, acq.failedCollects, 0, "failed collects")
		assert.True(t, acq.tryComplete(acq.round, second), "it goes on collecting")
		<-acq.driver
		assert.True(t, acq.tryComplete(acq.round, second), "it goes on collecting")
		assert.Equal(t, acq.phase, collecting, "the phase")
	})
}

// A poll during the pause after a failed collect takes over. Then the pause leads to nothing.
func TestAPauseThatAPollHasEndedLeadsToNothing(t *testing.T) {
	for _, overtaken := range []bool{false, true} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			s.say(func(_ int, action string, _ []string) (string, error) {
				switch action {
				case script.MarkServer.Name:
					return asMemory, nil
				case script.Cancel.Name:
					return "none", nil
				}
				return "queued 4 2000 0", nil
			})
			r := acq.round
			acq.phase = collecting
			done := make(chan struct{})
			go func() {
				acq.backOff(r, second)
				close(done)
			}()
			synctest.Wait()
			assert.True(t, acq.phase == idle && r.ended, "the phase in the pause: %d", acq.phase)
			assert.MustTrue(t, acq.lockDriver(nil), "the driver is not free")
			acq.unlockDriver()
			var next *round
			if overtaken {
				acq.mu.Lock()
				next = acq.newRound()
				acq.phase = idle
				acq.mu.Unlock()
			}
			<-done
			assert.Equal(t, acq.round == next, overtaken, "overtaken: %v, the round is the poll's", overtaken)
			if overtaken {
				assert.False(t, next.ended, "the pause has ended the poll's round")
			}
		})
	}
}

// A request of an ask that has its majority need not be sent any more: its context has ended.
func TestWhatAnAskHasNotSentIsNotSent(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, _ *acquisition) {
		s.nodes[silent].noteAnswers(false, s.now(), 0)
		ended := make(chan struct{})
		answers, err := askEach(t.Context(), s.servers, func(ctx context.Context, i int, _ *node) (string, error) {
			if i == silent {
				<-ctx.Done()
				close(ended)
				return "", ctx.Err()
			}
			return "yes", nil
		})
		assert.True(t, len(answers) == 2 && err == nil, "%v, %v", answers, err)
		<-ended
	})
}

// What these calls answer is known without any server.
func TestCallsThatNeedNoServer(t *testing.T) {
	x, release := []string{"h:{x}"}, []string{"c/1", "20", "9000", "0", "7000", "push:"}
	stranger := append([]string{"c/9"}, release[1:]...)
	for what, call := range map[string]struct {
		run  func(ctx context.Context, s *Store, acq *acquisition) (string, error)
		said string // "": it is refused
	}{
		"a kept release of a stranger": {func(ctx context.Context, s *Store, _ *acquisition) (string, error) {
			return s.releaseAfter(ctx, x, stranger)
		}, "gone"},
		"a kept release of what was not won": {func(ctx context.Context, s *Store, _ *acquisition) (string, error) {
			return s.releaseAfter(ctx, x, release)
		}, "gone"},
		"a poll of what has ended": {func(ctx context.Context, s *Store, acq *acquisition) (string, error) {
			acq.phase = ended
			return s.poll(ctx, x, []string{"c/1", "9000", "7000", "27000", "push:"})
		}, "gone"},
		"a kept release with too few arguments": {func(ctx context.Context, s *Store, _ *acquisition) (string, error) {
			return s.releaseAfter(ctx, x, release[1:])
		}, ""},
		"several locks with too few channels": {func(ctx context.Context, s *Store, _ *acquisition) (string, error) {
			return s.acquireAll(ctx, []string{"h:{y}", "h:{z}"}, []string{"c/2", "9000", "7000", "push:"})
		}, ""},
		"several locks for no time": {func(ctx context.Context, s *Store, _ *acquisition) (string, error) {
			return s.acquireAll(ctx, x, []string{"c/2", "short", "7000", "push:"})
		}, ""},
		"several locks for too long": {func(ctx context.Context, s *Store, _ *acquisition) (string, error) {
			return s.acquireAll(ctx, x, []string{"c/2", "60001", "7000", "push:"})
		}, ""},
		"a renewal for too long": {func(ctx context.Context, s *Store, _ *acquisition) (string, error) {
			return s.renew(ctx, x, []string{"7000", "60001", "c/1"})
		}, ""},
		"a renewal for no time": {func(ctx context.Context, s *Store, _ *acquisition) (string, error) {
			return s.renew(ctx, x, []string{"7000", "0", "c/1"})
		}, ""},
		"permits": {func(ctx context.Context, s *Store, _ *acquisition) (string, error) {
			return s.acquire(ctx, x, []string{"c/2", "9000", "16000", "3", "0", "push:"})
		}, ""},
		"a record that ends before its lease": {func(ctx context.Context, s *Store, _ *acquisition) (string, error) {
			return s.acquire(ctx, x, []string{"c/2", "9000", "8999", wire.Exclusive, "0", "push:"})
		}, ""},
	} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			s.say(func(_ int, action string, _ []string) (string, error) {
				t.Errorf("%s: %s is sent", what, action)
				return "", errBroken
			})
			known := len(s.acquisitions)
			said, err := call.run(t.Context(), s, acq)
			assert.True(t, said == call.said && isRefusal(err) == (said == ""), "%s: %q, %v", what, said, err)
			assert.Equal(t, len(s.acquisitions), known, "%s: acquisitions", what)
		})
	}
}

// A minimum time that is over on a majority keeps nothing. A release after one can be repeated.
func TestAMinimumTimeThatIsOverIsARelease(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		acq.hold()
		s.sayEach("released", "released", "kept 9000")
		for range 2 {
			args := []string{"c/1", "20", "9000", "0", "7000", "push:"}
			answer, err := s.releaseAfter(t.Context(), []string{acq.key}, args)
			assert.True(t, answer == "released" && err == nil, "%q, %v", answer, err)
			assert.True(t, acq.phase == ended && acq.round.ended, "it goes on")
		}
	})
}

// A lock that is not free although no server names a holder is held by somebody.
func TestALockThatNobodyIsNamedForIsBusy(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		assert.Equal(t, acq.busyAnswer(acq.round), "busy 0 -", "the answer")
		for i, na := range acq.round.attempts {
			na.lastAnswer = wire.Answer{Kind: wire.Busy, Left: time.Duration(i+1) * second}
		}
		first := acq.round.order[0]
		left := wire.Millis(time.Duration(first+1) * second)
		assert.Equal(t, acq.busyAnswer(acq.round), "busy "+left+" -", "the answer")
	})
}

// A node that is opened late is scanned like the others; one whose store cannot scan is refused.
func TestALazyNodeIsScanned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memstore.New()
		_, err := m.Run(t.Context(), script.Acquire, []string{"h:{x}"},
			[]string{"c/1", "9000", "16000", wire.Exclusive, "0", "push:"})
		assert.Must(t, err)
		var got []string
		visit := func(keys []string) error { got = append(got, keys...); return nil }
		n := Lazy(func() (store.Store, error) { return m, nil }).(*lazy)
		assert.Must(t, n.Scan(t.Context(), "h", visit))
		assert.True(t, slices.Contains(got, "h:{x}"), "the keys: %v", got)
		assert.True(t, n.Unwrap() == store.Store(m) && !n.Sharded() && n.Group("x") == "", "it is not the node")
		n = Lazy(func() (store.Store, error) { return struct{ store.Store }{m}, nil }).(*lazy)
		assert.Is(t, n.Scan(t.Context(), "h", visit), ErrUnsupported)
		n = Lazy(func() (store.Store, error) { return m, errBroken }).(*lazy)
		assert.Is(t, n.Scan(t.Context(), "h", visit), store.ErrNotSent, errBroken)
	})
}

// An answer that makes no sense is none: what the server has ended is not known. So it needs the others.
func TestAnEvictionDoesNotGuess(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		s.sayEach("evicted 1", "what", "what")
		_, err := s.evict(t.Context(), []string{acq.key}, []string{"ops", "test", wire.Force, "7000", "push:"})
		assert.True(t, err != nil, "no error")
		assert.Contains(t, err.Error(), s.nodes[2].name())
	})
}

// A release after a minimum time is no release where the attempt cannot be ended, or holds nothing.
func TestAKeptReleaseOfNothingSaysSo(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		acq.phase = held
		args := []string{"c/1", "20", "9000", "0", "7000", "push:"}
		for i, na := range acq.round.attempts {
			na.queued = true // there is something to cancel
			_, err := na.releaseAfter(second, args)
			assert.Is(t, err, map[bool]error{false: errForgot, true: errBroken}[i == silent])
			assert.True(t, na.ended, "it may go on")
		}
		assert.Equal(t, acq.round.attempts[0].reply, majority.Open, "the reply")
	})
}

// Each try of an eviction is a request of its own. A server that knows its identity repeats the answer to the try
// before.
func TestEachTryOfAnEvictionHasItsOwnIdentity(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		var mu sync.Mutex
		tries := make(map[string]int)
		s.say(func(i int, action string, args []string) (string, error) {
			if action == script.Inspect.Name {
				return "lock 10000 30 0 0 0 0\nholder x d/1.7 d 1 30 9000 5000 1", nil
			}
			mu.Lock()
			defer mu.Unlock()
			if tries[args[5]]++; i == 0 && len(tries) == 1 {
				return "evicted 1", nil
			}
			return "changed 31", nil
		})
		args := []string{"ops", "test", "30", "7000", "push:", "id", "20"}
		answer, err := s.evict(t.Context(), []string{acq.key}, args)
		assert.True(t, answer == "changed 31" && err == nil, "%q, %v", answer, err)
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, len(tries), 4, "identities of tries")
		for id, n := range tries {
			assert.Equal(t, n, 3, "requests of %s", id)
		}
	})
}

// The refusal of one server is not the quorum's, and what was not sent to one may have been sent to another.
func TestWhatAnErrorOfSomeServersIs(t *testing.T) {
	refusal := &store.ServerError{Code: "NOPERM", Message: "NOPERM no"}
	err := error(&NoMajorityError{Nodes: 3, Missing: []error{
		&nodeError{"a", refusal}, &nodeError{"b", store.ErrNotSent}, &nodeError{"c", errBroken},
	}})
	assert.False(t, isRefusal(err), "it is a refusal")
	assert.False(t, errors.Is(err, store.ErrNotSent), "nothing was sent")
	assert.Is(t, err, errBroken)
}

// The further pages of a long record are not read for somebody who has gone.
func TestNoFurtherPageIsReadForNobody(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		for i := range 600 {
			for _, n := range s.nodes[:silent] {
				_, err := n.Run(t.Context(), script.Acquire, []string{acq.key},
					[]string{fmt.Sprintf("c%d/1", i), "30000", "630000", "s", "0", "push:"})
				assert.Must(t, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var pages atomic.Int32
		for _, n := range s.nodes[:silent] {
			n.Store = &saidNode{n.Store.(*memstore.Store), func(string, []string) (string, error) {
				pages.Add(1)
				cancel()
				return asMemory, nil
			}}
		}
		_, err := s.inspect(ctx, []string{acq.key}, nil)
		assert.Is(t, err, context.Canceled)
		synctest.Wait()
		assert.AtMost(t, pages.Load(), 2, "pages")
	})
}

// Whatever ends an attempt owes the server a cancel for each acquire that got no answer, and one more if the end got
// none. A refusal for good is an answer. A release after a minimum time owes nothing for itself: its client repeats it.
func TestWhatTheEndOfAnAttemptOwes(t *testing.T) {
	refused := &store.ServerError{Code: "NOPERM", Message: "NOPERM no"}
	for what, end := range map[string]struct {
		run    func(na *nodeAttempt)
		answer string
		owes   map[error]int // with two acquires that got no answer, by how the end is answered
	}{
		"a release": {func(na *nodeAttempt) { _ = na.release(second, []string{"c/1", "20", "7000", "push:"}) },
			"released", map[error]int{nil: 2, refused: 2, errBroken: 3}},
		"a kept release": {func(na *nodeAttempt) {
			_, _ = na.releaseAfter(second, []string{"c/1", "20", "9000", "0", "7000", "push:"})
		}, "kept 3000", map[error]int{nil: 2}},
		"a cancel": {func(na *nodeAttempt) { _, _ = na.cancel(second) },
			"released", map[error]int{nil: 2, refused: 2, errBroken: 3}},
	} {
		for err, want := range end.owes {
			for _, unanswered := range []int{0, 2} {
				inside(t, func(t *testing.T, s *Store, acq *acquisition) {
					acq.hold()
					s.say(func(int, string, []string) (string, error) { return end.answer, err })
					na, n := acq.round.attempts[0], s.nodes[0]
					if na.unanswered = unanswered; unanswered > 0 {
						na.unansweredUntil = 12 * second
					}
					end.run(na)
					n.mu.Lock()
					defer n.mu.Unlock()
					times := 0
					for _, owed := range n.owed.cancels {
						times += owed.times
					}
					assert.Equal(t, times, want-2+unanswered, "%s, answered %v: owed", what, err)
				})
			}
		}
	}
}

// A lease may have been renewed until its release. So a release without an answer is owed for a whole lease.
func TestAReleaseWithoutAnAnswerIsOwedForALease(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		acq.hold()
		time.Sleep(5 * second)
		na := acq.round.attempts[silent]
		assert.Is(t, na.release(second, []string{"c/1", "20", "7000", "push:"}), errBroken)
		na.node.mu.Lock()
		defer na.node.mu.Unlock()
		assert.Equal(t, na.node.owed.late[na.id].until, s.now()+acq.ttl, "it is owed until")
	})
}

// After Extend a hold may last longer than the lease that was acquired. So may what is owed for it.
func TestWhatIsOwedLastsAsLongAsTheLongestLease(t *testing.T) {
	const extended = 40 * second
	for what, end := range map[string]func(na *nodeAttempt) error{
		"a release": func(na *nodeAttempt) error { return na.release(second, []string{"c/1", "20", "7000", "push:"}) },
		"a cancel":  func(na *nodeAttempt) error { _, err := na.cancel(second); return err },
	} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			acq.hold()
			_, err := s.renew(t.Context(), []string{acq.key}, []string{"7000", wire.Millis(extended), "c/1"})
			assert.NoError(t, err)
			na := acq.round.attempts[silent]
			na.holds = true
			assert.Is(t, end(na), errBroken)
			na.node.mu.Lock()
			defer na.node.mu.Unlock()
			assert.Equal(t, na.node.owed.late[na.id].until, 10*second+extended, "%s is owed until", what)
		})
	}
}

// A waiter may be granted until its cancel arrives, however long ago it was queued. So a cancel without an answer is
// owed for as long as a request may take, at least.
func TestTheCancelOfAWaiterIsOwedFromNow(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		na, n := acq.round.attempts[silent], s.nodes[silent]
		na.queued, na.askedAt = true, 10*second
		time.Sleep(20 * second)
		_, err := na.cancel(second)
		assert.Is(t, err, errBroken)
		n.mu.Lock()
		defer n.mu.Unlock()
		assert.MustEqual(t, len(n.owed.cancels), 1, "cancels that are owed")
		assert.Equal(t, n.owed.cancels[0].until, 31*second, "it is owed until")
	})
}

// A renewal of which nothing is certain says why each server does not vouch.
func TestARenewalInDoubtSaysWhy(t *testing.T) {
	for said, why := range map[string]error{"renewed -": errForgot, "renewed 0": errTooRecent} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			acq.hold()
			acq.round.attempts[0].heldSince = 11 * second
			s.sayEach(said, "renewed 0", "!")
			_, err := s.renew(t.Context(), []string{acq.key}, []string{"7000", "9000", "c/1"})
			assert.Is(t, err, why, errBroken)
			assert.Equal(t, acq.phase, held, "the phase")
		})
	}
}

// Joining again after a failed collect is bounded: until it ends, the client's calls wait for the driver.
func TestJoiningAgainIsBounded(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		for _, n := range s.nodes {
			n.Store = &hangingNode{memstore.New()}
		}
		acq.failedCollects, acq.phase = -1, collecting // the shortest pause
		acq.backOff(acq.round, 10*time.Millisecond)
		assert.AtMost(t, s.now(), 10*second+200*time.Millisecond, "it has ended at")
		assert.True(t, acq.lockDriver(nil), "the driver is not free")
	})
}

// Whether somebody waits for a push is the client's to say, at each server. Only then must a dead connection be
// noticed soon.
func TestEachServerLearnsWhetherAPushIsAwaited(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, _ *acquisition) {
		var asked atomic.Int32
		for _, n := range s.nodes {
			n.Store = &askingListener{memstore.New()}
		}
		stop, err := s.Listen(t.Context(), "push:c", store.Listener{Awaited: func() bool { asked.Add(1); return true }})
		assert.Must(t, err)
		stop()
		assert.Equal(t, asked.Load(), 3, "servers that have asked")
	})
}

// askingListener is a server that asks once whether a push is awaited.
type askingListener struct{ *memstore.Store }

func (n *askingListener) Listen(ctx context.Context, channel string, l store.Listener) (func(), error) {
	if l.Awaited != nil {
		l.Awaited()
	}
	return n.Store.Listen(ctx, channel, l)
}

// A majority must refuse with one code before the quorum does: after a refusal the client sends no cancel.
func TestAQuorumRefusesIfAMajorityDoes(t *testing.T) {
	no := &store.ServerError{Code: "NOPERM", Message: "NOPERM no"}
	off := &store.ServerError{Code: "NOAUTH", Message: "NOAUTH"}
	for failed, want := range map[[3]error]bool{
		{no, no, nil}: true, {no, no, errBroken}: true, {errBroken, no, no}: true, {off, no, no}: true,
		{no, errBroken, errBroken}: false, {no, off, errBroken}: false, {no, nil, errBroken}: false,
	} {
		inside(t, func(t *testing.T, s *Store, _ *acquisition) {
			by := make(map[int]error)
			for i, err := range failed {
				if err != nil {
					by[i] = err
				}
			}
			err := s.noMajority(by)
			assert.Equal(t, isRefusal(err), want, "%v: a refusal", failed)
			if want {
				assert.Is(t, err, no)
			}
		})
	}
}

// Two nodes that were one server are read again at the next acquisition: the mistake may be corrected.
func TestAfterAMistakeTheServersAreReadAgain(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		ns := acq.states
		ns.identified, ns.lastRead, ns.sameServer = true, s.now(), ErrSameServer
		assert.Must(t, s.identify(t.Context(), ns))
		ns.mu.Lock()
		defer ns.mu.Unlock()
		assert.Must(t, ns.sameServer)
	})
}

// A release that is repeated waits for the coordinator, too, and for no other server once a majority has released.
func TestARepeatedReleaseWaitsForTheCoordinator(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		order := s.order(acq.key)
		for slow, want := range map[int]time.Duration{order[0]: second / 10, order[1]: 0, order[2]: 0} {
			s.say(func(i int, _ string, _ []string) (string, error) {
				if i == slow {
					time.Sleep(second / 10)
				}
				return "released", nil
			})
			start := s.now()
			answer, err := s.release(t.Context(), []string{acq.key}, []string{"c/9", "20", "7000", "push:"})
			assert.True(t, answer == "released" && err == nil, "%q, %v", answer, err)
			assert.Equal(t, s.now()-start, want, "it has waited for the server that is %d", slow)
			time.Sleep(second)
		}
	})
}
