package proc

import (
	"errors"
	"fmt"
	"os"
)

// ErrNotOwn says that a name is not that of a regular file with one name: a file that a process makes for itself
// is one. Whoever may write to the directory can put a link to another user's file in its place.
var ErrNotOwn = errors.New("not a regular file, or a link to one")

// OpenOwn opens a file that only this program makes. With [os.O_CREATE], it makes one that only its user may
// read. It follows no link.
func OpenOwn(name string, flags int) (*os.File, error) {
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s", ErrNotOwn, name)
	}
	f, err := os.OpenFile(name, flags|noFollow, 0o600)
	if err != nil {
		if isLink(err) {
			err = fmt.Errorf("%w: %s", ErrNotOwn, name)
		}
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || linked(info)) {
		err = fmt.Errorf("%w: %s", ErrNotOwn, name)
	}
	if err != nil {
		f.Close() //nolint:errcheck // nothing was written
		return nil, err
	}
	return f, nil
}
