package redistest

import (
	_ "embed"
	native "encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

//go:embed testdata/clock.c
var clockSource string

// ErrNoClock says that this system cannot give a server a clock that tests move.
var ErrNoClock = errors.New("no server's clock can be moved here")

// clockLibrary is the library that is loaded between a server and the system's clock. It is
// built once, for all servers of this process.
var clockLibrary = sync.OnceValues(func() ([]byte, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("%w: the clock of one process can be moved on Linux only, not on %s",
			ErrNoClock, runtime.GOOS)
	}
	dir, err := os.MkdirTemp("", "holdfast-clock-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory that is left does no harm
	library := filepath.Join(dir, "clock.so")
	cc := exec.Command("cc", "-shared", "-fPIC", "-O1", "-o", library, "-x", "c", "-")
	cc.Stdin = strings.NewReader(clockSource)
	if said, err := cc.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: it takes a C compiler, cc: %w %s", ErrNoClock, err, said)
	}
	return os.ReadFile(library)
})

// Movable returns nil if tests can move the clocks of servers here, or an error that says why
// not.
func Movable() error {
	_, err := clockLibrary()
	return err
}

// Clock gives the server a wall clock that [Server.MoveClock] moves. A library is loaded
// between the server and the system's clock. So this needs Linux and a C compiler, which the
// race detector needs as well.
func Clock() Option {
	return func(s *Server) {
		text, err := clockLibrary()
		if s.failed = err; err != nil {
			return
		}
		library := filepath.Join(s.dir, "clock.so")
		s.clock = filepath.Join(s.dir, "clock")
		s.env = append(s.env, "LD_PRELOAD="+library, "HOLDFAST_TEST_CLOCK="+s.clock)
		s.failed = errors.Join(os.WriteFile(library, text, 0o600), os.WriteFile(s.clock, make([]byte, 8), 0o600))
	}
}

// MoveClock sets the server's wall clock, which [Clock] gave it, to d ahead of the true time,
// or behind it if d is below 0. This lasts until the clock is moved again.
func (s *Server) MoveClock(d time.Duration) {
	s.t.Helper()
	f, err := os.OpenFile(s.clock, os.O_WRONLY, 0)
	if err == nil {
		// In place and in one write, because the server has mapped the file.
		_, err = f.WriteAt(native.NativeEndian.AppendUint64(nil, uint64(d.Milliseconds())), 0)
		err = errors.Join(err, f.Close())
	}
	assert.MustTrue(s.t, err == nil, "redistest: moving the clock: %v", err)
}
