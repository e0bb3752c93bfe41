//go:build !unix

package redistest

// Pause fails the test: this system cannot stop a process for a while.
func (s *Server) Pause() { s.t.Helper(); s.t.Fatal("redistest: this system cannot stop a process") }

// Continue fails the test, like Pause.
func (s *Server) Continue() { s.t.Helper(); s.t.Fatal("redistest: this system cannot stop a process") }
