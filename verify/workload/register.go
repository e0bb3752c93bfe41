package workload

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
)

// Register is a counter, the resource that the clients share. It stands for the
// storage system behind a lock: a database row, an object in a bucket.
//
// Fenced, it remembers the highest token that it was shown, by a reader or by a
// writer, and in one step with that refuses who shows a lower one, with
// [ErrStale]. Readers have to show theirs too: a late write that slips in after
// the next holder has read, and before it writes, would be overwritten. Unfenced,
// it takes everything, as most storage does.
//
// What is unsafe on purpose is the way from read to write: the client carries
// the value with it, and only the lock keeps the others out meanwhile.
type Register interface {
	// Read answers the counter; one that was never written stands at 0.
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

// Resource opens the registers that are kept in a directory, or makes them there.
// Every process of a run does, and the suite itself at the end.
type Resource func(dir string) (Registers, error)

// Files is the resource that needs nothing but files.
func Files(dir string) (Registers, error) {
	return Registers{newRegister(dir, true), newRegister(dir, false), func() error { return nil }}, nil
}

// Final reads what the two registers in dir stand at, with a token that is
// higher than all.
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

// register is a counter in a file.
type register struct {
	path   string
	fenced bool
}

// ErrStale refuses a token that is not the highest any more.
var ErrStale = errors.New("the token is older than one that was seen")

// Read implements [Register].
func (r register) Read(token uint64) (value int64, err error) {
	if !r.fenced {
		value, _, err = r.load()
		return value, err
	}
	err = r.guarded(func() error {
		var highest uint64
		if value, highest, err = r.load(); err != nil {
			return err
		}
		if token < highest {
			return ErrStale
		}
		return r.store(value, token)
	})
	return value, err
}

// Write implements [Register].
func (r register) Write(token uint64, value int64) error {
	if !r.fenced {
		return r.store(value, 0)
	}
	return r.guarded(func() error {
		_, highest, err := r.load()
		if err != nil {
			return err
		}
		if token < highest {
			return ErrStale
		}
		return r.store(value, token)
	})
}

// guarded makes comparing and writing one step. The lock on the file is held
// for no longer than that, and ends with the process.
func (r register) guarded(step func() error) error {
	guard, err := os.OpenFile(r.path+".guard", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer guard.Close() //nolint:errcheck // nothing was written to it
	if err := lockFile(guard); err != nil {
		return fmt.Errorf("guard of %s: %w", filepath.Base(r.path), err)
	}
	return step()
}

func (r register) load() (value int64, highest uint64, err error) {
	text, err := os.ReadFile(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	if _, err := fmt.Sscan(string(text), &value, &highest); err != nil {
		return 0, 0, fmt.Errorf("%s holds %q: %w", filepath.Base(r.path), text, err)
	}
	return value, highest, nil
}

// store replaces the file as a whole, so that a reader never sees half of it.
// The name of the new one is the writer's own: two may write at once.
func (r register) store(value int64, highest uint64) error {
	next := r.path + "." + strconv.Itoa(os.Getpid())
	if err := os.WriteFile(next, fmt.Appendf(nil, "%d %d\n", value, highest), 0o600); err != nil {
		return err
	}
	return os.Rename(next, r.path)
}

func newRegister(dir string, fenced bool) register {
	name := "plain"
	if fenced {
		name = "fenced"
	}
	return register{path: filepath.Join(dir, name), fenced: fenced}
}
