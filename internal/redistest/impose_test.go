package redistest_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// If one of two faults of a proxy ends, the other goes on.
func TestEachOfTwoFaultsIsLiftedByItself(t *testing.T) {
	s := redistest.Start(t, redistest.AllowAll())
	p := redistest.NewProxy(t, s.Addr())
	c := redistest.Dial(t, p.Addr())
	c.Do(t, "PING")
	first, second, lost := p.Impose(), p.Impose(), p.Impose()
	first.BlackHole()
	second.BlackHole()
	lost.DropRepliesAndCut(1, "incr")
	c.Send(t, "INCR", "n")
	p.Await(t, redistest.Arrived, "INCR", 1)
	first.Lift()
	first.Lift()
	p.Pass()
	assert.Equal(t, p.Count(redistest.Executed, "INCR"), 0, "the end of one black hole was the end of both")
	second.Lift()
	p.Await(t, redistest.Dropped, "INCR", 1)
	got := redistest.Dial(t, p.Addr()).Do(t, "INCR", "n")
	assert.True(t, got == int64(2), "got %v", got)
}

// Saves fail only while SpoilSaves is in force.
func TestSpoiltSavesFail(t *testing.T) {
	s := redistest.Start(t, redistest.AllowAll())
	s.Do(t, "CONFIG", "SET", "save", "3600 100000000")
	assert.Must(t, s.SpoilSaves())
	s.Do(t, "BGSAVE")
	redistest.Await(t, "a save fails", func() bool { return s.Info(t, "rdb_last_bgsave_status") == "err" })
	_, refused := s.Do(t, "SET", "a", "b").(redistest.Error)
	assert.True(t, refused, "it takes writes")
	assert.Must(t, s.MendSaves())
	s.Do(t, "BGSAVE")
	redistest.Await(t, "a save goes well", func() bool { return s.Info(t, "rdb_last_bgsave_status") == "ok" })
	assert.Equal(t, s.Do(t, "SET", "a", "b"), "OK", "it says")
}

// A router that forgets says nothing: what is sent over a connection that has rested is gone, also after
// the fault, and new connections work.
func TestAConnectionThatRestedIsForgotten(t *testing.T) {
	s := redistest.Start(t, redistest.AllowAll())
	p := redistest.NewProxy(t, s.Addr())
	rested := redistest.Dial(t, p.Addr())
	rested.Do(t, "SUBSCRIBE", "news")
	forgets := p.Impose()
	forgets.Forget(time.Nanosecond, 0)
	s.Do(t, "PUBLISH", "news", "n")
	redistest.Await(t, "the push is swallowed", func() bool { return forgets.Forgotten() == 1 })
	forgets.Lift()
	rested.Send(t, "UNSUBSCRIBE", "news")
	p.Await(t, redistest.Arrived, "UNSUBSCRIBE", 1)
	fresh := redistest.Dial(t, p.Addr())
	fresh.Do(t, "INCR", "n")
	list := s.Do(t, "PUBSUB", "NUMSUB", "news").([]any)
	assert.Equal[any](t, list[1], int64(1), "subscribers by the server's count, which learns nothing")
	forgets = p.Impose()
	forgets.Forget(0, time.Nanosecond)
	fresh.Send(t, "INCR", "n")
	redistest.Await(t, "an old connection is forgotten too", func() bool { return forgets.Forgotten() == 1 })
	forgets.Lift()
	assert.Equal[any](t, redistest.Dial(t, p.Addr()).Do(t, "INCR", "n"), int64(2), "n")
}

// A copy comes later, over a connection of its own that is set up as the first was. Its answer goes to nobody.
func TestALateCopyIsSentOnceMore(t *testing.T) {
	s := redistest.Start(t, redistest.AllowAll())
	p := redistest.NewProxy(t, s.Addr())
	c := redistest.Dial(t, p.Addr())
	c.Do(t, "SELECT", "3")
	again, dropped := p.Impose(), p.Impose()
	again.CopyLate(func() (time.Duration, bool) { return time.Millisecond, true }, "incr")
	dropped.CopyLate(func() (time.Duration, bool) { return time.Hour, true }, "incr")
	c.Send(t, "PING")
	c.Send(t, "INCR", "n")
	c.Send(t, "PING")
	assert.Equal(t, c.Receive(t), "PONG", "first")
	assert.Equal[any](t, c.Receive(t), int64(1), "second")
	assert.Equal(t, c.Receive(t), "PONG", "third")
	redistest.Await(t, "the copy has arrived", func() bool { return again.Copied() == 1 })
	dropped.Lift()
	again.Lift()
	c.Do(t, "INCR", "n")
	assert.Equal(t, c.Do(t, "GET", "n"), "3", "in the database of the connection, one copy and no more")
	assert.Equal(t, dropped.Copied(), 0, "copies of a fault that was lifted before")
}
