package suite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/fault"
)

// A fault may end the suite's own connections while a script spins. A new one can
// end the script: otherwise the server would be busy for the rest of the run.
func TestANewConnectionEndsAScriptThatSpins(t *testing.T) {
	bench := &fault.Bench{}
	defer bench.Close()
	var s *redistest.Server
	assert.Must(t, fault.Try(func() { s = redistest.Start(bench, redistest.Harness()) }))
	own := &deployment{bench: bench, own: []*redistest.Server{s}}
	w := &world{deployment: own, admin: make(map[string]*redis.Client)}
	defer w.close()
	s.Do(t, "CONFIG", "SET", "busy-reply-threshold", 20)
	c := s.Dial(t)
	c.Send(t, "EVAL", "while true do end", 0)
	other := s.Dial(t)
	redistest.Await(t, "the server is busy", func() bool {
		return strings.Contains(fmt.Sprint(other.Do(t, "EXISTS", "x")), "BUSY")
	})
	assert.NoError(t, assert.Err(w.Do(t.Context(), s, "SCRIPT", "KILL")))
}
