//go:build !race

package quorum

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// The server's TTL may begin as soon as the request is sent. So a hold counts from then, and not from when the
// request had to wait for another one, nor from the answer.
func TestAHoldCountsFromItsRequest(t *testing.T) {
	for action, from := range map[string]time.Duration{"acquire": 11 * second, "poll": 11 * second} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			s.say(func(int, string, []string) (string, error) {
				time.Sleep(2 * second)
				return "granted 20 3", nil
			})
			na := acq.round.attempts[0]
			na.gate <- struct{}{} // an earlier request, for one second
			time.AfterFunc(second, func() { <-na.gate })
			if action == "acquire" {
				assert.Must(t, na.acquire(4*second, "0"))
			} else {
				assert.Must(t, na.poll(4*second))
			}
			assert.Equal(t, na.countsFrom, from, "%s: the hold counts from", action)
			assert.Equal(t, na.askedAt, from, "%s: it was asked for at", action)
			assert.Equal(t, na.heldUntil, leasetime.Deadline(from, acq.ttl), "%s: it lasts until", action)
			assert.Equal(t, na.heldSince, 13*second, "%s: it vouches from", action)
			assert.True(t, na.token == 20 && na.waiters == 3 && na.reply == majority.Granted, "%s: %+v", action, na)
		})
	}
}

// An acquire without an answer may yet take the lock, for a TTL; a poll and a request that was not sent may
// not.
func TestWhichRequestsMayYetTakeTheLock(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: errBroken}
	for _, test := range []struct {
		action string
		err    error
		want   int
	}{
		{"acquire", errBroken, 1},
		{"acquire", &net.OpError{Op: "read", Err: errBroken}, 1},
		{"acquire", dial, 0},
		{"acquire", fmt.Errorf("%w: full", store.ErrNotSent), 0},
		{"acquire", &store.ServerError{Code: "ERR", Message: "ERR no"}, 0},
		{"poll", errBroken, 0},
	} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			s.say(func(int, string, []string) (string, error) {
				time.Sleep(second)
				return "", test.err
			})
			na := acq.round.attempts[0]
			if test.action == "poll" {
				assert.Is(t, na.poll(2*second), test.err)
			} else {
				assert.Is(t, na.acquire(2*second, "0"), test.err)
			}
			assert.Equal(t, na.unanswered, test.want, "%+v: acquires without an answer", test)
			if test.want > 0 {
				assert.Equal(t, na.unansweredUntil, 11*second+acq.ttl, "%+v: it may take the lock until", test)
			}
		})
	}
}

// A pushed grant counts for all of its lease only if the push says so, or says nothing.
func TestAPushThatGrantsForLessMustBeConfirmed(t *testing.T) {
	for lease, want := range map[string]bool{"": false, " 10000 2000": true, " 10000 8999": true,
		" 10000 9000": false} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			na := acq.round.attempts[0]
			s.say(func(int, string, []string) (string, error) { return "", errBroken })
			s.handlePush(0, "granted "+na.id+" 20 0"+lease)
			assert.Equal(t, na.unconfirmed, want, "with %q, it must be confirmed", lease)
			na.noteGrant(20, 0, 11*second)
			assert.False(t, na.unconfirmed, "with %q, the confirmation is not heard", lease)
		})
	}
}

// So must one that counts from before the client's lease: the last poll got no answer, and its start is where that
// lease counts from.
func TestAPushFromBeforeTheClientsLeaseMustBeConfirmed(t *testing.T) {
	for countsFrom, want := range map[time.Duration]int32{10 * second: 0, 11 * second: 1} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			var polls atomic.Int32
			s.say(func(int, string, []string) (string, error) {
				polls.Add(1)
				return "granted 20 0", nil
			})
			na := acq.round.attempts[0]
			na.queued, na.askedAt, acq.phase, acq.countsFrom = true, 10*second, collecting, countsFrom
			time.Sleep(2 * second)
			s.handlePush(0, "granted "+na.id+" 20 0 10000 9000")
			synctest.Wait()
			assert.Equal(t, polls.Load(), want, "polls, where the lease counts from %v", countsFrom)
			assert.True(t, na.counts(countsFrom), "it does not count")
		})
	}
}

// A server whose push arrives when the lease is held gets its token; the coordinator's push is the waiter's
// turn; any other may complete a majority.
func TestWhatAPushLeadsTo(t *testing.T) {
	for _, at := range []phase{waiting, collecting, held} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			raised := ""
			s.say(func(_ int, action string, args []string) (string, error) {
				if action == "raise_fence" {
					raised = args[1]
				}
				return "", errBroken
			})
			acq.phase, acq.token = at, 50
			na := acq.round.attempts[acq.round.coordinator]
			s.handlePush(na.i, "granted "+na.id+" 20 0")
			synctest.Wait()
			acq.mu.Lock()
			defer acq.mu.Unlock()
			if at == held {
				assert.True(t, raised == "50" && acq.phase == held, "raised to %q, phase %d", raised, acq.phase)
				return
			}
			assert.True(t, raised == "" && acq.phase == collecting, "raised to %q, phase %d", raised, acq.phase)
			assert.Equal(t, len(acq.changed), int(at-waiting), "in phase %d, who collects is woken", at)
		})
	}
}

// Whether a request has certainly not reached its server decides whether it must be cancelled.
func TestWhichRequestsWereNotSent(t *testing.T) {
	for _, test := range []struct {
		err  error
		want bool
	}{
		{&net.OpError{Op: "dial", Err: io.EOF}, true},
		{&net.OpError{Op: "write", Err: io.EOF}, false},
		{fmt.Errorf("%w: x", store.ErrNotSent), true},
		{errNotSent, true},
		{errEnded, true},
		{&store.ServerError{Code: "LOADING", Message: "LOADING"}, true},
		{context.DeadlineExceeded, false},
		{io.EOF, false},
	} {
		assert.Equal(t, notSent(test.err), test.want, "%v", test.err)
	}
}

// While cancels are sent, others may be added.
func TestACancelThatIsAddedWhileOthersAreSentIsSent(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		n := s.nodes[0]
		pending := func(id string, times int) pendingCancel {
			return pendingCancel{[]string{acq.key}, []string{id, "7000", "push:"}, times, time.Hour}
		}
		var sent []string
		s.say(func(_ int, _ string, args []string) (string, error) {
			sent = append(sent, args[0])
			switch len(sent) {
			case 1:
				n.addCancel(pending("c/1.3", 1))
				return "", errBroken
			case 2:
				return "none", nil // its request is still on the way
			}
			return "released", nil
		})
		n.addCancel(pending("c/1.1", 2))
		n.addCancel(pending("c/1.2", 1))
		time.Sleep(10 * second)
		n.mu.Lock()
		defer n.mu.Unlock()
		assert.True(t, len(n.owed.cancels) == 0 && !n.owed.sending, "pending: %+v", n.owed.cancels)
		slices.Sort(sent[1:])
		assert.Equal(t, strings.Join(sent, " "), "c/1.1 c/1.1 c/1.1 c/1.1 c/1.2 c/1.3", "cancelled")
	})
}

// A cancel is given up when what it could end is over, and when the server refuses it for good.
func TestWhenACancelIsGivenUp(t *testing.T) {
	for _, test := range []struct {
		until time.Duration
		err   error
		want  bool
	}{
		{time.Hour, errBroken, false},
		{11 * second, errBroken, true},
		{time.Hour, &store.ServerError{Code: "NOPERM", Message: "NOPERM no"}, true},
		{time.Hour, &store.ServerError{Code: "LOADING", Message: "LOADING soon"}, false},
	} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			n, sent := s.nodes[0], 0
			s.say(func(int, string, []string) (string, error) { sent++; return "", test.err })
			n.addCancel(pendingCancel{[]string{acq.key}, []string{"c/1.1", "7000", "push:"}, 1, test.until})
			time.Sleep(10 * second)
			n.mu.Lock()
			defer n.mu.Unlock()
			assert.Equal(t, !n.owed.sending, test.want, "until %v, %v: it is given up", test.until, test.err)
			assert.AtMost(t, sent, 30, "until %v, %v: with pauses that grow, it is sent", test.until, test.err)
		})
	}
}

// A server without an answer is late and not silent if it has answered a later request.
func TestWhenAServerIsSilent(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, _ *acquisition) {
		n := s.nodes[0]
		n.noteAnswers(true, 9*second, second)
		n.noteAnswers(false, 10*second-1, 0) // sent before that answer arrived
		assert.True(t, !n.isSilent() && n.isLate(context.DeadlineExceeded) && !n.isLate(errBroken), "it is silent")
		n.noteAnswers(false, 10*second, 0)
		assert.True(t, n.isSilent() && !n.isLate(context.DeadlineExceeded), "it is not silent")
		time.Sleep(second)
		n.noteAnswers(false, 11*second, 0)
		assert.Equal(t, n.changedAt, 10*second, "silent since")
		assert.Equal(t, n.roundTrip, second, "a failure changes the round trip to")
		assert.Equal(t, n.answeredAt, 10*second, "a failure changes the last answer to")
		n.noteAnswers(true, 10*second, 2*second)
		assert.True(t, !n.isSilent() && n.changedAt == 11*second, "silent, or not since %v", n.changedAt)
		assert.Equal(t, n.roundTrip, 2*second, "the round trip")
		n.noteAnswers(false, s.now(), 0)
		assert.Must(t, assert.Err(n.readServer(second)))
		assert.False(t, n.isSilent(), "it is silent, and has told of itself")
	})
}

// Waiters are told at once that a server is silent, and after growing pauses if that happens again and again.
func TestWaitersAreToldAfterGrowingPauses(t *testing.T) {
	pauses := backoff.Exponential{First: second, Longest: 16 * second}
	r, now := rechecks{}, time.Hour
	for _, test := range []struct{ after, want time.Duration }{
		{0, 0}, {0, second}, {0, 2 * second}, {second, 3 * second}, {9 * second, 0}, {0, 16 * second},
		{32 * second, 0}, {32*second + 1, 0}, {0, second},
	} {
		now += test.after
		got := r.next(now, pauses, 1)
		assert.Equal(t, got, test.want, "%+v: the pause", test)
		now += got
		r.last = now
	}
}

// An end that is told to several servers is told to each by the name and the token that it knows.
func TestEachServerIsToldItsOwnToken(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		acq.hold()
		told := make([]string, 3)
		s.say(func(i int, _ string, args []string) (string, error) {
			told[i] = strings.Join(args, " ")
			return "released", nil
		})
		for i, na := range acq.round.attempts {
			na.token = uint64(20 + i)
			assert.Must(t, na.release(second, []string{"c/1", "99", "7000", "push:"}))
			assert.Equal(t, told[i], fmt.Sprintf("%s %d 7000 push:", na.id, 20+i), "release on %d", i)
			_, err := na.releaseAfter(second, []string{"c/1", "99", "9000", "0", "7000", "push:"})
			assert.Must(t, err)
			assert.Equal(t, told[i], fmt.Sprintf("%s %d 9000 0 7000 push:", na.id, 20+i), "release_after on %d", i)
		}
		na := acq.round.attempts[0]
		na.holds, na.queued = false, true
		assert.True(t, errors.Is(na.release(second, []string{"c/1", "99", "7000", "push:"}), errForgot),
			"it held nothing")
		assert.Equal(t, told[0], na.id+" 7000 push:", "what it has is cancelled")
	})
}

// A server refuses the release of a token that it no longer has, and the hold would stay. So a release waits until
// the request is over that writes another token, and that token is noted.
func TestAReleaseWaitsForTheTokenThatIsBeingWritten(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		acq.hold()
		told := ""
		s.say(func(_ int, action string, args []string) (string, error) {
			if action == script.RaiseFence.Name {
				time.Sleep(second / 10)
				return "raised 31 10000 a 1:q:-3600000:0:10000:0", nil
			}
			told = action + " " + args[1]
			return "released", nil
		})
		na := acq.round.attempts[0]
		na.token = 20
		go func() { assert.NoError(t, na.raiseToken(second, 31)) }()
		synctest.Wait()
		assert.Must(t, na.release(second, []string{"c/1", "99", "7000", "push:"}))
		assert.Equal(t, told, "release 31", "the server is told")
	})
}

// A poll without an answer tells nothing of when a hold began. A push that arrives after it is of a grant from
// before, so it counts from the last request that was answered.
func TestAPollWithoutAnAnswerMovesNoHold(t *testing.T) {
	for _, holds := range []bool{false, true} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			acq.phase = waiting
			na := acq.round.attempts[0]
			if na.askedAt = 10 * second; holds {
				na.noteGrant(20, 0, 10*second)
			} else {
				na.noteAnswer(wire.Answer{Kind: wire.Queued, Place: 1}, 10*second, nil)
			}
			s.say(func(int, string, []string) (string, error) { return "", errBroken })
			time.Sleep(2 * second)
			assert.Is(t, na.poll(second), errBroken)
			s.handlePush(0, "granted "+na.id+" 20 0")
			assert.Equal(t, na.countsFrom, 10*second, "held before: %v, the hold counts from", holds)
		})
	}
}

// Waiters that will be told to poll need not be told twice.
func TestWaitersAreToldOnceAfterAPause(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, _ *acquisition) {
		told := 0
		stop, err := s.Listen(t.Context(), "push:c", store.Listener{Look: func(bool) { told++ }})
		assert.Must(t, err)
		defer stop()
		time.Sleep(time.Minute)
		told = 0
		for i, want := range []int{1, 1, 1} {
			s.nodes[i].noteAnswers(false, s.now(), 0)
			assert.Equal(t, told, want, "after server %d they were told", i)
		}
		time.Sleep(s.cfg.Timeout)
		assert.Equal(t, told, 2, "after the pause they were told")
		time.Sleep(time.Minute)
		assert.Equal(t, told, 2, "in all they were told")
	})
}

// An answer that is not of this protocol says nothing of who holds.
func TestAnAnswerThatIsNoneIsAFailure(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		s.sayEach("mumble", "mumble", "mumble")
		na := acq.round.attempts[0]
		assert.Is(t, na.acquire(second, "0"), wire.ErrAnswer)
		assert.Equal(t, na.reply, majority.Failed, "the reply")
		assert.Equal(t, na.unanswered, 1, "acquires that may have taken the lock")
	})
}
