package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

const key = "lock"

func run(t *testing.T, s *memstore.Store, action *script.Script, line string) (string, error) {
	t.Helper()
	return s.Run(t.Context(), action, []string{key}, strings.Fields(line))
}

// do runs an action and checks the beginning of its answer.
func do(t *testing.T, s *memstore.Store, action *script.Script, line, want string) string {
	t.Helper()
	answer, err := run(t, s, action, line)
	assert.MustTrue(t, err == nil && strings.HasPrefix(answer, want),
		"%s %s: %q, %v, want %q", action.Name, line, answer, err, want)
	return answer
}

// listen returns the messages on the channel of client c2.
func listen(t *testing.T, s *memstore.Store) (heard chan string) {
	t.Helper()
	heard = make(chan string, 100)
	stop, err := s.Listen(t.Context(), "push:c2", store.Listener{
		Message: func(payload string) { heard <- payload },
		Look:    func(bool) { heard <- "resumed" },
	})
	assert.Must(t, err)
	t.Cleanup(stop)
	return heard
}

const (
	holds = "c1/1 30000 630000 x 0 push:"
	waits = "c2/1 30000 630000 x 60000 push:"
	gives = "c1/1 0 600000 push:"
)

// pass lets time pass in a bubble.
func pass(d time.Duration) { <-time.After(d) }

// In a bubble the store's clock is the bubble's: an hour costs nothing.
func TestVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		do(t, s, script.Acquire, holds, "granted")
		pass(10 * time.Second)
		do(t, s, script.Acquire, "c2/1 30000 600000 x 0 push:", "busy 20000 c1/1")
		assert.Equal(t, s.Clock()(), 10*time.Second, "the clock")
		pass(20 * time.Second)
		do(t, s, script.Acquire, "c2/1 30000 600000 x 0 push:", "granted")
		pass(time.Hour)
		keys := s.Keys()
		assert.True(t, keys == nil, "left after an hour: %q", keys)
	})
}

// A subscription that waits does not keep a bubble's clock from moving.
func TestListenerInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		heard := listen(t, s)
		do(t, s, script.Acquire, holds, "granted")
		do(t, s, script.Acquire, waits, "queued")
		pass(time.Second)
		do(t, s, script.Release, gives, "released")
		synctest.Wait()
		got := <-heard
		assert.True(t, strings.HasPrefix(got, "granted c2/1"), "heard %q", got)
	})
}

func TestAdvance(t *testing.T) {
	s := memstore.New()
	do(t, s, script.Acquire, holds, "granted")
	before := s.Clock()()
	s.Advance(10 * time.Minute)
	assert.AtLeast(t, s.Clock()()-before, 10*time.Minute, "Now() moved by")
	ttl := s.TTL(key)
	assert.True(t, ttl <= 30*time.Second && ttl > 0, "the record lives for %v", ttl)
	s.Advance(time.Minute)
	assert.True(t, s.Dump(key) == nil && s.TTL(key) == -2, "the record did not end: %v", s.Dump(key))
}

var errNet = errors.New("network down")

// A request that is lost has done nothing; a reply that is lost has.
func TestFailAndLose(t *testing.T) {
	s := memstore.New()
	var names []string
	s.FailRequest(func(action string, keys []string) error {
		names = append(names, action+" "+keys[0])
		return errNet
	})
	assert.Is(t, assert.Err(run(t, s, script.Acquire, holds)), errNet)
	if s.Dump(key) != nil || !slices.Equal(names, []string{"acquire lock"}) {
		t.Errorf("after Fail: %v, called for %q", s.Dump(key), names)
	}
	s.FailRequest(nil)
	s.LoseReply(func(string, []string) error { return errNet })
	assert.Is(t, assert.Err(run(t, s, script.Acquire, holds)), errNet)
	s.LoseReply(nil)
	assert.True(t, strings.HasSuffix(s.Dump(key)["lock"], " c1/1"), "after Lose: %v", s.Dump(key))
	do(t, s, script.Acquire, holds, "granted "+s.Dump(key)["birth"])
}

func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		resume := s.Stall()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Run(ctx, script.Acquire, []string{key}, strings.Fields(holds))
		if !errors.Is(err, context.DeadlineExceeded) || s.Dump(key) != nil {
			t.Errorf("%v, and left %v", err, s.Dump(key))
		}
		answered := make(chan error)
		go func() {
			_, err := s.Run(t.Context(), script.Acquire, []string{key}, strings.Fields(holds))
			answered <- err
		}()
		synctest.Wait()
		select {
		case err := <-answered:
			t.Errorf("answered while stalled: %v", err)
		default:
		}
		resume()
		assert.NoError(t, <-answered)
	})
}

// A dropped push counts as delivered. So the waiter holds the lock, and learns of it only
// when it polls.
func TestDropPushes(t *testing.T) {
	s := memstore.New()
	heard := listen(t, s)
	s.DropPushes(1)
	do(t, s, script.Acquire, holds, "granted")
	do(t, s, script.Acquire, waits, "queued")
	do(t, s, script.Release, gives, "released")
	assert.True(t, strings.HasSuffix(s.Dump(key)["lock"], " c2/1"), "not handed over: %v", s.Dump(key))
	s.Publish("push:c2", "next")
	assert.Equal(t, <-heard, "next", "heard")
	do(t, s, script.Poll, "c2/1 30000 600000 60000 push:", "granted")
}

// While subscriptions are broken no push reaches a waiter, so waiters are skipped; then
// every listener is told.
func TestCut(t *testing.T) {
	s := memstore.New()
	heard := listen(t, s)
	do(t, s, script.Acquire, holds, "granted")
	do(t, s, script.Acquire, waits, "queued")
	resume := s.BreakSubscriptions()
	do(t, s, script.Release, gives, "released")
	assert.True(t, strings.HasSuffix(s.Dump(key)["lock"], " 0 - +"), "handed over to nobody: %v", s.Dump(key))
	resume()
	resume()
	assert.Equal(t, <-heard, "resumed", "heard")
	do(t, s, script.Acquire, waits, "granted")
}

func TestFlush(t *testing.T) {
	s := memstore.New()
	do(t, s, script.Acquire, holds, "granted")
	s.Flush()
	assert.True(t, s.Keys() == nil, "left: %q", s.Keys())
	do(t, s, script.Release, "c1/1 7 600000 push:", "gone")
}

// refused expects a server's error.
func refused(t *testing.T, s *memstore.Store, action *script.Script, line, code string) {
	t.Helper()
	_, err := run(t, s, action, line)
	var refusal *store.ServerError
	assert.True(t, errors.As(err, &refusal) && refusal.Code == code && strings.HasPrefix(refusal.Message, code+" "),
		"%s %s: %v, want the code %s", action.Name, line, err, code)
}

func TestRefusals(t *testing.T) {
	s := memstore.New()
	refused(t, s, &script.Script{Name: "dance"}, "", "ERR")
	refused(t, s, script.Acquire, "c1/1", "ERR")
	refused(t, s, script.Acquire, "c1/1 long 600000 x 0 push:", "ERR")
	refused(t, s, script.Acquire, "c1/1 30000 600000 y 0 push:", "ERR")
	refused(t, s, script.Acquire, holds+" alice and more", "ERR")
	assert.True(t, assert.Err(s.Run(t.Context(), script.Acquire, nil, nil)) != nil, "an action without a key was run")
	assert.True(t, s.Keys() == nil, "what was refused left %q", s.Keys())
	s.PlantForeign(key)
	refused(t, s, script.Acquire, holds, "WRONGTYPE")
	s.PlantNewerFormat(key)
	refused(t, s, script.Acquire, holds, "FORMAT")
	do(t, s, script.Renew, "600000 30000 c1/1", "renewed -")
}

// A refusal pushes nothing, because it writes nothing.
func TestRefusalPushesNothing(t *testing.T) {
	s := memstore.New()
	heard := listen(t, s)
	do(t, s, script.Acquire, holds, "granted")
	do(t, s, script.Acquire, waits, "queued")
	refused(t, s, script.Release, "c1/1 0 retention push:", "ERR")
	s.Publish("push:c2", "next")
	assert.Equal(t, <-heard, "next", "heard")
	do(t, s, script.Inspect, "", "lock")
}

// A listener may use the store.
func TestListenerRunsAnAction(t *testing.T) {
	s := memstore.New()
	done := make(chan string)
	stop, err := s.Listen(t.Context(), "push:c2", store.Listener{Message: func(string) {
		answer, err := s.Run(context.Background(), script.Inspect, []string{key}, nil)
		if err != nil {
			answer = err.Error()
		}
		done <- answer
	}})
	assert.Must(t, err)
	defer stop()
	s.Publish("push:c2", "look")
	assert.Equal(t, <-done, "absent", "answered")
}

// A step looks for expired holds among some hundred. The waiter is asked to poll until it has
// the lock. Meanwhile a hold that has expired is over, also if no step has come to it.
// Guarantee: I4 I7 I11.
func TestManyExpiredHoldsEndStepByStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		heard := listen(t, s)
		for n := range 600 {
			do(t, s, script.Acquire, fmt.Sprintf("r/%d 1000 601000 s 0 push:", n), "granted ")
		}
		pass(time.Second)
		do(t, s, script.Acquire, waits, "queued 1 0 ")
		do(t, s, script.Renew, "600000 30000 r/599", "renewed -")
		do(t, s, script.Poll, "r/599 30000 600000 60000 push:", "gone")
		for polls := 1; ; polls++ {
			assert.MustEqual(t, <-heard, "kept c2/1 1", "pushed")
			answer, err := run(t, s, script.Poll, "c2/1 30000 600000 60000 push:")
			assert.Must(t, err)
			if strings.HasPrefix(answer, "granted ") {
				return
			}
			assert.MustTrue(t, polls <= 2, "after %d polls: %q", polls, answer)
		}
	})
}

// A hold that is shortened behind a sweep ends at its time. Guarantee: I7.
func TestASweepDoesNotForgetShortenedHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		do(t, s, script.Acquire, "r/0 61000 661000 s 0 push:", "granted ")
		for n := range 600 {
			do(t, s, script.Acquire, fmt.Sprintf("d/%d 1000 601000 s 0 push:", n), "granted ")
		}
		pass(time.Second)
		do(t, s, script.AwaitFree, "x 0 600000 push:", "busy 0")
		do(t, s, script.Lessen, "r/0 2000 0 600000 push:", "lessened 2000 ")
		do(t, s, script.AwaitFree, "x 0 600000 push:", "busy 2000")
	})
}
