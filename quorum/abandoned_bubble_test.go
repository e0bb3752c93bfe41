//go:build !race

package quorum

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/window"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// The tests of this file look at calls whose callers have gone, and at calls of a closed store.

// calls are calls for attempt "c/1" on "h:{x}", each in the phase in which its client sends it.
var calls = map[string]func(ctx context.Context, s *Store, acq *acquisition) error{
	"a round": func(ctx context.Context, _ *Store, acq *acquisition) error {
		acq.waiterTTL = "0"
		return assert.Err(acq.runRound(ctx))
	},
	"a read of all servers": func(ctx context.Context, s *Store, acq *acquisition) error {
		return s.identify(ctx, acq.states)
	},
	"a new acquisition": func(ctx context.Context, s *Store, _ *acquisition) error {
		return assert.Err(s.Run(ctx, script.Acquire, []string{"h:{y}"},
			[]string{"c/2", "9000", "16000", wire.Exclusive, "27000", "push:"}))
	},
	"several locks": func(ctx context.Context, s *Store, _ *acquisition) error {
		return assert.Err(s.Run(ctx, script.AcquireAll, []string{"h:{y}", "h:{z}"},
			[]string{"c/2", "9000", "7000", "push:", "push:"}))
	},
	"a round that is cancelled": func(ctx context.Context, _ *Store, acq *acquisition) error {
		acq.hold()
		return acq.cancelRoundAndWait(ctx, acq.round, second, nil)
	},
	"a second phase": func(ctx context.Context, _ *Store, acq *acquisition) error {
		acq.hold()
		acq.phase = asking
		return assert.Err(acq.writeToken(ctx, acq.round, second))
	},
	"a poll of a waiter": func(ctx context.Context, s *Store, acq *acquisition) error {
		acq.phase, acq.round.attempts[acq.round.coordinator].queued = waiting, true
		return assert.Err(s.Run(ctx, script.Poll, []string{acq.key}, []string{"c/1", "9000", "7000", "27000", "push:"}))
	},
	"a poll of who collects": func(ctx context.Context, s *Store, acq *acquisition) error {
		acq.hold()
		acq.phase = collecting
		return assert.Err(s.Run(ctx, script.Poll, []string{acq.key}, []string{"c/1", "9000", "7000", "27000", "push:"}))
	},
	"a poll of a stranger": func(ctx context.Context, s *Store, acq *acquisition) error {
		return assert.Err(s.Run(ctx, script.Poll, []string{acq.key}, []string{"c/3", "9000", "7000", "27000", "push:"}))
	},
	"a renewal": func(ctx context.Context, s *Store, acq *acquisition) error {
		acq.hold()
		return assert.Err(s.Run(ctx, script.Renew, []string{acq.key}, []string{"7000", "9000", "c/1"}))
	},
	"a release": func(ctx context.Context, s *Store, acq *acquisition) error {
		acq.hold()
		return assert.Err(s.Run(ctx, script.Release, []string{acq.key}, []string{"c/1", "20", "7000", "push:"}))
	},
	"a release of a stranger": func(ctx context.Context, s *Store, acq *acquisition) error {
		return assert.Err(s.Run(ctx, script.Release, []string{acq.key}, []string{"c/3", "20", "7000", "push:"}))
	},
	"a kept release": func(ctx context.Context, s *Store, acq *acquisition) error {
		acq.hold()
		return assert.Err(s.Run(ctx, script.ReleaseAfter, []string{acq.key},
			[]string{"c/1", "20", "7000", "push:", "3000", "9000"}))
	},
	"a cancel": func(ctx context.Context, s *Store, acq *acquisition) error {
		acq.hold()
		return assert.Err(s.Run(ctx, script.Cancel, []string{acq.key}, []string{"c/1", "7000", "push:"}))
	},
	"an inspection": func(ctx context.Context, s *Store, acq *acquisition) error {
		return assert.Err(s.Run(ctx, script.Inspect, []string{acq.key}, nil))
	},
	"an eviction": func(ctx context.Context, s *Store, acq *acquisition) error {
		args := []string{"ops", "test", wire.Force, "7000", "push:"}
		return assert.Err(s.Run(ctx, script.Evict, []string{acq.key}, args))
	},
	"what is known of a client": func(ctx context.Context, s *Store, acq *acquisition) error {
		return assert.Err(s.Run(ctx, script.ReadClient, []string{acq.key}, nil))
	},
	"a description": func(ctx context.Context, s *Store, _ *acquisition) error { return assert.Err(s.Server(ctx)) },
	"what is known of the nodes": func(ctx context.Context, s *Store, _ *acquisition) error {
		return assert.Err(s.ReadNodes(ctx, "h"))
	},
}

// A call ends when its context does, however long the servers take.
func TestACallEndsWithItsContext(t *testing.T) {
	for what, call := range calls {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			for _, n := range s.nodes {
				n.Store = &hangingNode{memstore.New()}
			}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(100*time.Millisecond, cancel)
			assert.Is(t, call(ctx, s, acq), context.Canceled)
			assert.Equal(t, s.now(), 10*second+100*time.Millisecond, "%s: it has ended at", what)
		})
	}
}

// hangingNode is a server that is so slow that every request to it takes all of its time.
type hangingNode struct{ *memstore.Store }

func (*hangingNode) Run(ctx context.Context, _ *script.Script, _, _ []string) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

func (*hangingNode) Server(ctx context.Context) (store.ServerInfo, error) {
	<-ctx.Done()
	return store.ServerInfo{}, ctx.Err()
}

// A call that pauses before it asks busy servers again ends with its context, too.
func TestAPauseEndsWithItsContext(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		coordinator := acq.round.coordinator
		s.say(func(i int, action string, _ []string) (string, error) {
			switch {
			case action != "acquire":
				return asMemory, nil
			case i == coordinator:
				return "granted 20 0", nil
			}
			return fmt.Sprintf("busy 5000 d/%d.1", i), nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		_, err := acq.acquire(ctx, "0")
		assert.Is(t, err, context.Canceled)
		assert.Equal(t, s.now(), 10*second+time.Millisecond, "it has ended at")
	})
}

// A call that meets the end of the store says so, and waits for nobody.
func TestACallEndsWithTheStore(t *testing.T) {
	for what, call := range calls {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			for _, n := range s.nodes {
				n.Store = &hangingNode{memstore.New()}
			}
			time.AfterFunc(100*time.Millisecond, s.Close)
			err := call(t.Context(), s, acq)
			assert.True(t, err != nil || what == "a cancel" || what == "a round that is cancelled" ||
				what == "what is known of the nodes", "%s: no error", what)
			assert.Equal(t, s.now(), 10*second+100*time.Millisecond, "%s: it has ended at", what)
		})
	}
}

// A call of a store that is closing sends nothing any more, and does not wait for an answer.
func TestACallOfAClosedStoreSaysSo(t *testing.T) {
	for what, call := range calls {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			s.Close()
			s.say(func(_ int, action string, _ []string) (string, error) {
				t.Errorf("%s: %s is sent", what, action)
				return "", errBroken
			})
			err := call(t.Context(), s, acq)
			says := errors.Is(err, ErrClosed)
			assert.True(t, says || what == "a round that is cancelled", "%s: %v", what, err)
		})
	}
}

// What a server's store has open, and nobody uses, Close closes. The stores are the caller's, who may use them on.
func TestCloseClosesIdleConnections(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, _ *acquisition) {
		closed := make([]int, 3)
		for i, n := range s.nodes {
			n.Store = &idleNode{memstore.New(), func() { closed[i]++ }}
		}
		s.Close()
		assert.EqualSlices(t, closed, []int{1, 1, 1}, "closed connections of each server")
	})
}

// idleNode is a server to which connections are open.
type idleNode struct {
	*memstore.Store
	closes func()
}

func (n *idleNode) CloseIdleConnections() { n.closes() }

// The client whose context has ended sends a cancel, which must find what the acquisition has.
func TestAnAbandonedAcquisitionIsFoundByItsCancel(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, _ *acquisition) {
		s.say(func(i int, action string, _ []string) (string, error) {
			if action == script.Acquire.Name {
				time.Sleep(300 * time.Millisecond)
			}
			return asMemory, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		_, err := s.acquire(ctx, []string{"h:{y}"}, []string{"c/2", "9000", "16000", wire.Exclusive, "27000", "push:"})
		assert.Is(t, err, context.Canceled)
		answer, err := s.cancel(t.Context(), []string{"h:{y}"}, []string{"c/2", "7000", "push:"})
		assert.True(t, answer == "released" && err == nil, "%q, %v", answer, err)
		assert.True(t, s.find("h:{y}", "c/2") == nil, "it is still known")
	})
}

// A call that has to wait for the driver of its acquisition gives that up with its context.
func TestACallDoesNotWaitForTheDriverLongerThanItsContext(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		acq.driver <- struct{}{}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.Is(t, assert.Err(acq.acquire(ctx, "0")), context.Canceled)
		args := []string{"c/1", "9000", "7000", "27000", "push:"}
		assert.Is(t, assert.Err(s.poll(ctx, []string{acq.key}, args)), context.Canceled)
		<-acq.driver
	})
}

// What each kind of node that does not count is called, and that only a probation has an end.
func TestWhyANodeDoesNotCount(t *testing.T) {
	for standing, want := range map[majority.Standing]string{
		majority.ClocksDiffer: "clock that differs", majority.ClockStepped: "clock that was changed",
		majority.Stale: "not been compared recently", majority.Stranger: "is new, or has lost its memory",
		majority.OnProbation: "again in 3s",
	} {
		assert.Contains(t, (&probationError{standing, 3 * second, false}).Error(), want)
	}
}

// Nothing is sent for somebody who has gone before the call.
func TestACallThatComesTooLateIsNotSent(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		s.say(func(_ int, action string, _ []string) (string, error) {
			t.Errorf("%s is sent", action)
			return "", errBroken
		})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for name := range actions {
			_, err := s.Run(ctx, &script.Script{Name: name}, []string{acq.key}, nil)
			assert.Is(t, err, context.Canceled)
		}
		assert.Is(t, assert.Err(s.Server(ctx)), context.Canceled)
		assert.Is(t, assert.Err(s.ReadNodes(ctx, "h")), context.Canceled)
		assert.Is(t, assert.Err(s.Listen(ctx, "push:c", store.Listener{})), context.Canceled)
	})
}

// Close does not wait for a goroutine that waits for servers, or pauses: each of them sees the store close.
func TestCloseWaitsForNoPause(t *testing.T) {
	for what, wait := range map[string]func(s *Store, acq *acquisition){
		"who collects": func(_ *Store, acq *acquisition) {
			acq.phase = collecting
			acq.awaitCollect(acq.round, second)
		},
		"who backs off": func(_ *Store, acq *acquisition) {
			acq.phase, acq.failedCollects = collecting, 10
			acq.backOff(acq.round, second)
		},
		"cancels that are owed": func(s *Store, acq *acquisition) {
			s.nodes[silent].owed.cancels = []pendingCancel{{keys: []string{acq.key}, args: []string{"c/1.1"}, times: 1,
				until: time.Hour}}
			s.nodes[silent].sendCancels()
		},
		"waiters that are told after a pause": func(s *Store, _ *acquisition) {
			s.recheckSoon()
			s.recheckSoon()
		},
		"a subscription that is tried again": func(s *Store, _ *acquisition) {
			s.nodes[silent].Store = &silentNode{Store: memstore.New()}
			_, _ = s.Listen(context.Background(), "push:c", store.Listener{})
		},
	} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			began := s.now()
			assert.MustTrue(t, s.life.Go(grantLabel, func() { wait(s, acq) }), "%s: it has not begun", what)
			synctest.Wait()
			s.Close()
			synctest.Wait()
			assert.Equal(t, s.now(), began, "%s: the store has closed at", what)
		})
	}
}

// A request that waits for its turn at a late server is not sent once its round has ended.
func TestWhoWaitsForALateServerSeesItsRoundEnd(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		s.say(func(_ int, action string, _ []string) (string, error) {
			t.Errorf("%s is sent", action)
			return "", errBroken
		})
		w := &s.nodes[0].window
		w.mu.Lock()
		w.window.Enter()
		w.window.Leave(window.Late, false) // it is late: from now on there is a limit
		for !w.window.Full() {
			w.window.Enter()
		}
		w.mu.Unlock()
		time.AfterFunc(100*time.Millisecond, func() {
			acq.mu.Lock()
			defer acq.mu.Unlock()
			acq.round.end()
		})
		assert.Is(t, acq.round.attempts[0].acquire(second, "0"), errEnded)
		assert.Equal(t, s.now(), 10*second+100*time.Millisecond, "it has ended at")
	})
}

// What is restored under a new identity is not held under the old one.
func TestAReplacedAttemptHoldsNothing(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		acq.hold()
		before := acq.round.attempts[0]
		acq.mu.Lock()
		defer acq.mu.Unlock()
		acq.restore(0, second)
		assert.True(t, before.ended && !before.holds && acq.round.attempts[0] != before, "%+v", before.bid)
	})
}
