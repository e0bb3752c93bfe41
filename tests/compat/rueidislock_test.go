package compat

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// rueidislock writes when its lease ends as a time of its own clock. If that clock is behind the
// server's by more than the lease, the server answers OK and stores nothing: two processes hold the
// lock, and no key says so. A client of another library cannot see such a holder, whatever it
// reads. This is why its wire is not shared: docs/decisions/0012.
func TestTwoProcessesOfRueidislockHoldALockIfTheirClocksAreBehind(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.AllowAll(), redistest.Clock())
	lockers := make([]rueidislock.Locker, 2)
	for i := range lockers {
		locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: rueidis.ClientOption{InitAddress: []string{server.Addr()}, TLSConfig: redistest.TLS()},
			KeyMajority:  1, NoLoopTracking: true, KeyValidity: 5 * time.Second,
		})
		must(t, err)
		t.Cleanup(locker.Close)
		lockers[i] = locker
	}
	try := func() (held int) {
		for _, locker := range lockers {
			ctx, cancel, err := locker.TryWithContext(t.Context(), "key")
			if err != nil {
				continue
			}
			t.Cleanup(cancel)
			if ctx.Err() == nil {
				held++
			}
		}
		return held
	}
	server.MoveClock(10 * time.Second)
	assert.Equal(t, try(), 2, "hold the lock, and the clocks differ by 10s")
	assert.Equal[any](t, server.Do(t, "DBSIZE"), int64(0), "keys")
	server.MoveClock(0)
	assert.Equal(t, try(), 1, "hold the lock, and the clocks agree")
}
