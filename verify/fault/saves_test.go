package fault

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/history"
)

// lone is a world of one server.
type lone struct {
	World
	t    testing.TB
	told func(command string)
}

func (o lone) TTL() time.Duration { return time.Second }

func (o lone) Do(_ context.Context, s *redistest.Server, args ...any) (any, error) {
	o.told(args[0].(string))
	reply := s.Do(o.t, args...)
	if e, refused := reply.(redistest.Error); refused {
		return nil, e
	}
	return reply, nil
}

// A save in the background is older than what the server is to load: if it ended between
// the saving and the loading, what was written since would be lost.
func TestALoadingWaitsForASaveInTheBackground(t *testing.T) {
	s := redistest.Start(t)
	s.Do(t, "SET", "old", 1)
	s.Do(t, "CONFIG", "SET", "rdb-key-save-delay", 500_000) // what is begun now takes its time
	s.Do(t, "BGSAVE")
	s.Do(t, "CONFIG", "SET", "rdb-key-save-delay", 0)
	s.Do(t, "SET", "new", 1)
	var loaded atomic.Bool
	world := lone{t: t, told: func(command string) {
		if command != "DEBUG" {
			return
		}
		loaded.Store(true)
		assert.Equal(t, s.Info(t, "rdb_bgsave_in_progress"), "0", "it loads while a save is under way")
	}}
	r := loading(world, rand.New(rand.NewPCG(1, 1)), s, new(history.FaultSpan))
	ctx, cancel := context.WithTimeout(t.Context(), redistest.Patience) // a refused command is repeated
	defer cancel()
	assert.Must(t, r.enter(ctx))
	assert.Must(t, r.leave(ctx)) // by now it has loaded
	if got := s.Do(t, "GET", "new"); !loaded.Load() || got != "1" {
		t.Errorf("it did not load (%v), or what was written is gone: %v", loaded.Load(), got)
	}
}
