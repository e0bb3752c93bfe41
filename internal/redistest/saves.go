package redistest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// saved is the file that the server saves to.
func (s *Server) saved() string { return filepath.Join(s.dir, "dump.rdb") }

// SpoilSaves makes every save of the server fail from now on: it puts a directory where the
// file would be. Permissions would not keep root from writing.
func (s *Server) SpoilSaves() error {
	file := s.saved()
	if err := os.RemoveAll(file); err != nil {
		return err
	}
	return os.MkdirAll(filepath.Join(file, "in-the-way"), 0o700)
}

// MendSaves reverses SpoilSaves. It keeps a file that was saved.
func (s *Server) MendSaves() error {
	file := s.saved()
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil
	}
	return errors.Join(err, os.RemoveAll(file))
}
