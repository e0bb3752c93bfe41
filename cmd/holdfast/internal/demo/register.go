package demo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// register is a counter in a file, the resource that the workers share. It
// stands for the storage system behind a lock: a database row, an object in a
// bucket.
//
// A write is one step, as it is in such a system. Fenced, the register
// remembers the highest token that it was shown, and in that same step refuses
// a write with a lower one. Comparing must be the resource's own business: a
// worker that compares first and writes then can be stopped between the two.
// Unfenced, it takes every write, as most files do.
//
// What is unsafe on purpose is the way from Read to Write: the worker carries
// the value with it for as long as it thinks, and only the lock keeps the
// others out meanwhile.
type register struct {
	path   string
	fenced bool
}

func newRegister(dir, name string, fenced bool) register {
	return register{path: filepath.Join(dir, name), fenced: fenced}
}

// staleError is the answer to a write whose token is not the highest any more.
type staleError struct {
	Token, Highest uint64
	Value          int64 // what the register holds, and keeps
}

func (e *staleError) Error() string {
	return fmt.Sprintf("token %d is older than %d: write refused", e.Token, e.Highest)
}

// read answers the counter; a register that was never written stands at 0.
func (r register) read() (int64, error) {
	value, _, err := r.load()
	return value, err
}

// write sets the counter on behalf of the holder of token. On a fenced
// register the error is a *staleError if a higher token has written before.
// After any error the register is as it was.
func (r register) write(token uint64, value int64) error {
	if !r.fenced {
		return r.store(value, 0)
	}
	// The lock on this file makes comparing and writing one step. It is held
	// for no longer than that, and ends with the process.
	guard, err := os.OpenFile(r.path+".guard", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer guard.Close() //nolint:errcheck // nothing was written to it
	if err := lockFile(guard); err != nil {
		return fmt.Errorf("guard of %s: %w", filepath.Base(r.path), err)
	}
	stands, highest, err := r.load()
	if err != nil {
		return err
	}
	if token < highest {
		return &staleError{Token: token, Highest: highest, Value: stands}
	}
	return r.store(value, token)
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
