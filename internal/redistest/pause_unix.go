//go:build unix

package redistest

import (
	"syscall"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// Pause stops the server's process. Its connections remain open, and the kernel keeps what is
// sent to them until Continue.
func (s *Server) Pause() { s.t.Helper(); s.signal(syscall.SIGSTOP) }

// Continue lets a paused server run on.
func (s *Server) Continue() { s.t.Helper(); s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.cmd.Process.Signal(sig)
	assert.MustTrue(s.t, err == nil, "redistest: %v: %v", sig, err)
}
