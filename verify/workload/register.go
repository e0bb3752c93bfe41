package workload

import (
	"errors"
	"math"
	"path/filepath"

	"github.com/holdfast-go/holdfast/internal/filecounter"
)

// Register is a counter, the resource that the clients share. It represents the
// storage system behind a lock: a database row, an object in a bucket.
//
// A fenced register remembers the highest token that a reader or a writer has shown. In
// the same step it refuses a lower one, with [ErrStale]. Readers must show a token, too:
// otherwise a late write could come after the next holder has read and before it writes,
// and would be overwritten. A plain register takes everything, as most storage does.
//
// The time from read to write is unsafe on purpose: the client keeps the value in memory,
// and only the lock excludes other clients meanwhile.
type Register interface {
	// Read returns the counter; one that was never written is 0.
	Read(token uint64) (value int64, err error)
	// Write sets the counter on behalf of the holder of token. After any error
	// the register is as it was.
	Write(token uint64, value int64) error
}

// Registers are the two that the workload [Update] writes to.
type Registers struct {
	Fenced, Plain Register
	Close         func() error
}

// Resource opens the registers in a directory, or makes them there. Every process of a
// run calls it, and the suite itself at the end.
type Resource func(dir string) (Registers, error)

// Files is the resource that needs nothing but files.
func Files(dir string) (Registers, error) {
	return Registers{
		Fenced: fencedFile{filecounter.File{Path: filepath.Join(dir, "fenced")}},
		Plain:  plainFile{filecounter.File{Path: filepath.Join(dir, "plain")}},
		Close:  func() error { return nil },
	}, nil
}

// Final reads the two registers in dir, with the highest token there is.
func (open Resource) Final(dir string) (fenced, plain int64, err error) {
	r, err := open(dir)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if fenced, err = r.Fenced.Read(math.MaxInt64); err != nil {
		return 0, 0, err
	}
	plain, err = r.Plain.Read(math.MaxInt64)
	return fenced, plain, err
}

// ErrStale refuses a token that is lower than one that the register has seen.
var ErrStale = errors.New("the token is older than one that was seen")

// fencedFile refuses older tokens.
type fencedFile struct{ filecounter.File }

// Read implements [Register].
func (f fencedFile) Read(token uint64) (value int64, err error) {
	err = f.shown(token, func(stands int64) int64 { value = stands; return stands })
	return value, err
}

// Write implements [Register].
func (f fencedFile) Write(token uint64, value int64) error {
	return f.shown(token, func(int64) int64 { return value })
}

// shown remembers the token, and replaces the value by what next returns.
func (f fencedFile) shown(token uint64, next func(stands int64) int64) error {
	return f.Guarded(func() error {
		stands, highest, err := f.Load()
		if err != nil {
			return err
		}
		if token < highest {
			return ErrStale
		}
		return f.Store(next(stands), token)
	})
}

// plainFile takes everything.
type plainFile struct{ filecounter.File }

// Read implements [Register].
func (f plainFile) Read(uint64) (value int64, err error) {
	value, _, err = f.Load()
	return value, err
}

// Write implements [Register].
func (f plainFile) Write(_ uint64, value int64) error { return f.Store(value, 0) }
