package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// keepsLog reports whether the server was started with --appendonly yes.
func (s *Server) keepsLog() bool {
	at := slices.Index(s.args, "--appendonly")
	return at >= 0 && at+1 < len(s.args) && s.args[at+1] == "yes"
}

// LogSize returns the length, in bytes, of the log of a server that was started with
// --appendonly yes.
func (s *Server) LogSize() int64 {
	s.t.Helper()
	info, err := os.Stat(s.appendOnly())
	assert.MustTrue(s.t, err == nil, "redistest: the log: %v", err)
	return info.Size()
}

// LogFile returns the name of the log of a server that was started with --appendonly yes. It has
// what the server wrote since then, as long as the server does not rewrite it.
func (s *Server) LogFile() string {
	s.t.Helper()
	return s.appendOnly()
}

// CutLog shortens the log of a killed server. A machine that fails loses in this way what was
// written and not yet synced.
func (s *Server) CutLog(size int64) {
	s.t.Helper()
	assert.Must(s.t, os.Truncate(s.appendOnly(), size))
}

// appendOnly returns the file to which the server writes the log now.
func (s *Server) appendOnly() string {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, "appendonlydir", "*.incr.aof"))
	if err == nil && len(files) != 1 {
		err = fmt.Errorf("%d files of it in %s: was it started with --appendonly yes?", len(files), s.dir)
	}
	assert.MustTrue(s.t, err == nil, "redistest: the log: %v", err)
	return files[0]
}
