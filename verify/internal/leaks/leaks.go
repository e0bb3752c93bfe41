// Package leaks ends test programs: with an error if goroutines are left over.
package leaks

import (
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests and exits. Whatever they have started must have ended then,
// but for what is known to stay or to end soon by itself.
func Main(m *testing.M, known ...goleak.Option) {
	goleak.VerifyTestMain(m, append(known, ours()...)...)
}

func ours() []goleak.Option {
	return []goleak.Option{
		// One goroutine of redistest keeps the thread that servers are tied to.
		goleak.IgnoreAnyFunction("github.com/holdfast-go/holdfast/internal/redistest.startTied.func1.1"),
		// A pool of go-redis that could not connect tries again each second, and sees
		// only then that it was closed.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"),
	}
}
