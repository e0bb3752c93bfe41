package redistest_test

import (
	"testing"

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
