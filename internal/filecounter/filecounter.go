// Package filecounter keeps a number in a file that several processes share, with the highest
// token that any of them has shown. The demo and the fault suite protect it with a lock, as if
// it were a storage system.
package filecounter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// File is such a file.
type File struct{ Path string }

// Load reads the number and the token. Before the first Store both are 0.
func (f File) Load() (value int64, highest uint64, err error) {
	text, err := os.ReadFile(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	if _, err := fmt.Sscan(string(text), &value, &highest); err != nil {
		return 0, 0, fmt.Errorf("%s holds %q: %w", filepath.Base(f.Path), text, err)
	}
	return value, highest, nil
}

// Store replaces the file as a whole, so that a reader never sees half of it. Each writer gives
// the new file its own name first, because two may write at once. After an error the file is
// unchanged.
func (f File) Store(value int64, highest uint64) error {
	next := f.Path + "." + strconv.Itoa(os.Getpid())
	if err := os.WriteFile(next, fmt.Appendf(nil, "%d %d\n", value, highest), 0o600); err != nil {
		return err
	}
	return os.Rename(next, f.Path)
}

// Guarded makes loading, comparing and storing one step: no other guarded step runs at the same
// time. The guard ends with the step, and with the process.
func (f File) Guarded(step func() error) error {
	guard, err := os.OpenFile(f.Path+".guard", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer guard.Close() //nolint:errcheck // nothing was written to it
	if err := lock(guard); err != nil {
		return fmt.Errorf("guard of %s: %w", filepath.Base(f.Path), err)
	}
	return step()
}
