package demo

import (
	"fmt"
	"path/filepath"

	"github.com/holdfast-go/holdfast/internal/filecounter"
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
	file   filecounter.File
	fenced bool
}

func newRegister(dir, name string, fenced bool) register {
	return register{file: filecounter.File{Path: filepath.Join(dir, name)}, fenced: fenced}
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
	value, _, err := r.file.Load()
	return value, err
}

// write sets the counter on behalf of the holder of token. On a fenced
// register the error is a *staleError if a higher token has written before.
// After any error the register is as it was.
func (r register) write(token uint64, value int64) error {
	if !r.fenced {
		return r.file.Store(value, 0)
	}
	return r.file.Guarded(func() error {
		stands, highest, err := r.file.Load()
		if err != nil {
			return err
		}
		if token < highest {
			return &staleError{Token: token, Highest: highest, Value: stands}
		}
		return r.file.Store(value, token)
	})
}
