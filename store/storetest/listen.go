package storetest

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

var listenTests = []test{
	{"confirmed", testConfirmed},
	{"in order", testInOrder},
	{"one at a time", testCallsOneAtATime},
	{"several channels", testSeveralChannels},
	{"other channels", testOtherChannels},
	{"outlives its context", testOutlivesContext},
	{"stop waits", testStopWaits},
	{"after stop", testAfterStop},
	{"killed", testKilled},
	{"killed again and again", testKilledOften},
}

// recorder is a subscription that keeps its messages.
type recorder struct {
	heard   chan string
	resumed chan struct{}
	stop    func()
}

func (s *suite) listen(channel string) *recorder {
	s.Helper()
	rec := &recorder{heard: make(chan string, 10_000), resumed: make(chan struct{}, 10_000)}
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	stop, err := s.Store.Listen(ctx, channel, store.Listener{
		Message: func(payload string) { rec.heard <- payload },
		Look: func(restored bool) {
			if restored {
				rec.resumed <- struct{}{}
			}
		},
	})
	if err != nil {
		s.Fatalf("Listen: %v", err)
	}
	rec.stop = stop
	s.Cleanup(stop)
	return rec
}

// next waits for a message.
func (rec *recorder) next(s *suite) string {
	s.Helper()
	select {
	case payload := <-rec.heard:
		return payload
	case <-time.After(patience):
		s.Fatal("no message came")
		return ""
	}
}

// eventually publishes until a message arrives: for a subscription that may break and be
// restored at any moment.
func (s *suite) eventually(rec *recorder, channel string) {
	s.Helper()
	late := time.After(patience)
	for {
		s.Publish(channel, "knock")
		select {
		case <-rec.heard:
			return
		case <-late:
			s.Fatal("the subscription did not come back")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// A message that is published after Listen has returned arrives.
func testConfirmed(s *suite) {
	for i := range 50 {
		name := strconv.Itoa(i)
		rec := s.listen(s.channel(name))
		s.Publish(s.channel(name), name)
		s.is(rec.next(s), name)
	}
}

func testInOrder(s *suite) {
	rec := s.listen(s.channel("a"))
	const many = 1000
	for i := range many {
		s.Publish(s.channel("a"), strconv.Itoa(i))
	}
	for i := range many {
		s.is(rec.next(s), strconv.Itoa(i))
	}
}

// The functions of one Listener do not run at the same time.
func testCallsOneAtATime(s *suite) {
	const many = 200
	var running, calls atomic.Int32
	done := make(chan struct{})
	call := func() {
		if running.Add(1) > 1 {
			s.Error("two calls at a time")
		}
		running.Add(-1)
	}
	stop, err := s.Store.Listen(s.Context(), s.channel("a"), store.Listener{
		Message: func(payload string) {
			call()
			if calls.Add(1) == many {
				close(done)
			}
		},
		Look: func(bool) { call() },
	})
	if err != nil {
		s.Fatal(err)
	}
	defer stop()
	for range many {
		s.Publish(s.channel("a"), "x")
	}
	s.within("the last message", func() { <-done })
}

func testSeveralChannels(s *suite) {
	a, b := s.listen(s.channel("a")), s.listen(s.channel("b"))
	for i := range 20 {
		s.Publish(s.channel("a"), "a"+strconv.Itoa(i))
		s.Publish(s.channel("b"), "b"+strconv.Itoa(i))
	}
	for i := range 20 {
		s.is(a.next(s), "a"+strconv.Itoa(i))
		s.is(b.next(s), "b"+strconv.Itoa(i))
	}
}

// A channel's name is not a pattern.
func testOtherChannels(s *suite) {
	rec := s.listen(s.channel("*"))
	s.Publish(s.channel("other"), "not for us")
	s.Publish(s.channel("*"), "for us")
	s.is(rec.next(s), "for us")
}

// The context of Listen bounds the wait for the confirmation, nothing else.
func testOutlivesContext(s *suite) {
	heard := make(chan string, 1)
	ctx, cancel := context.WithCancel(s.Context())
	stop, err := s.Store.Listen(ctx, s.channel("a"), store.Listener{
		Message: func(payload string) { heard <- payload },
	})
	if err != nil {
		s.Fatal(err)
	}
	defer stop()
	cancel()
	s.Publish(s.channel("a"), "still here")
	s.within("the message", func() { s.is(<-heard, "still here") })
}

// Once stop has returned, no function of the listener runs.
func testStopWaits(s *suite) {
	started, proceed := make(chan struct{}), make(chan struct{})
	var returned atomic.Bool
	s.listen(s.channel("a")) // so stop has no subscription to end, which could wait for the function, too
	stop, err := s.Store.Listen(s.Context(), s.channel("a"), store.Listener{
		Message: func(string) {
			close(started)
			<-proceed
			returned.Store(true)
		},
	})
	if err != nil {
		s.Fatal(err)
	}
	s.Publish(s.channel("a"), "x")
	s.within("the message", func() { <-started })
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
		if !returned.Load() {
			s.Error("stop returned while a message was being handled")
		}
	}()
	for range 20 {
		s.run(script.Inspect) // gives a stop that does not wait the time to return
	}
	close(proceed)
	s.within("stop", func() { <-stopped })
	s.within("a second stop", stop)
}

func testAfterStop(s *suite) {
	first := s.listen(s.channel("a"))
	other := s.listen(s.channel("b"))
	first.stop()
	s.Publish(s.channel("a"), "too late")
	s.Publish(s.channel("b"), "a mark behind it")
	s.is(other.next(s), "a mark behind it")
	if len(first.heard) > 0 {
		s.Errorf("heard %q after stop", <-first.heard)
	}
	again := s.listen(s.channel("a"))
	s.Publish(s.channel("a"), "again")
	s.is(again.next(s), "again")
}

// A broken subscription is restored by itself, and Look is called.
func testKilled(s *suite) {
	if s.KillSubscribers == nil {
		return
	}
	a, b := s.listen(s.channel("a")), s.listen(s.channel("b"))
	s.KillSubscribers()
	for name, rec := range map[string]*recorder{"a": a, "b": b} {
		s.within("Look", func() { <-rec.resumed })
		s.Publish(s.channel(name), "after it")
		s.is(rec.next(s), "after it")
	}
	s.within("stop", a.stop)
	s.within("stop", b.stop)
}

func testKilledOften(s *suite) {
	if s.KillSubscribers == nil {
		return
	}
	rec := s.listen(s.channel("a"))
	for range 5 {
		s.KillSubscribers()
		s.within("Look", func() { <-rec.resumed })
		s.Publish(s.channel("a"), "still here")
		s.is(rec.next(s), "still here")
	}
	s.KillSubscribers()
	s.within("stop", rec.stop)
	fresh := s.listen(s.channel("c"))
	s.Publish(s.channel("c"), "fresh")
	s.is(fresh.next(s), "fresh")
}
