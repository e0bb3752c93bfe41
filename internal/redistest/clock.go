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
	"time"
)

//go:embed testdata/clock.c
var clockSource string

// Clock gives the server a wall clock that [Server.MoveClock] moves. It works
// on Linux, and with a C compiler, which the race detector needs as well: a
// library is put between the server and the system's clock.
func Clock() Option {
	return func(s *Server) {
		if runtime.GOOS != "linux" {
			s.failed = fmt.Errorf("the clock of one process can be moved on Linux only, not on %s", runtime.GOOS)
			return
		}
		library := filepath.Join(s.dir, "clock.so")
		cc := exec.Command("cc", "-shared", "-fPIC", "-O1", "-o", library, "-x", "c", "-")
		cc.Stdin = strings.NewReader(clockSource)
		if said, err := cc.CombinedOutput(); err != nil {
			s.failed = fmt.Errorf("a C compiler, cc, is needed to move a server's clock: %w\n%s", err, said)
			return
		}
		s.clock = filepath.Join(s.dir, "clock")
		s.env = append(s.env, "LD_PRELOAD="+library, "HOLDFAST_TEST_CLOCK="+s.clock)
		s.failed = os.WriteFile(s.clock, make([]byte, 8), 0o600)
	}
}

// MoveClock sets the server's wall clock, which [Clock] gave it, to be ahead of
// the true time, or behind if d is below 0, at once and until it is moved again.
func (s *Server) MoveClock(d time.Duration) {
	s.t.Helper()
	f, err := os.OpenFile(s.clock, os.O_WRONLY, 0)
	if err == nil {
		// In place and in one piece, for the server has the file in its memory.
		_, err = f.WriteAt(native.NativeEndian.AppendUint64(nil, uint64(d.Milliseconds())), 0)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		s.t.Fatalf("redistest: moving the clock: %v", err)
	}
}
