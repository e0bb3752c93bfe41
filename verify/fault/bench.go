package fault

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// Bench takes the place of a test where none runs: what starts and stops servers was
// made for tests. A failure of it is a panic with a [FailureError].
type Bench struct {
	testing.TB // nil: what is not here is not used

	mu       sync.Mutex
	cleanups []func()
	dirs     []string
}

// Helper implements [testing.TB].
func (b *Bench) Helper() {}

// Fatalf implements [testing.TB].
func (b *Bench) Fatalf(format string, args ...any) { panic(FailureError(fmt.Sprintf(format, args...))) }

// Cleanup implements [testing.TB].
func (b *Bench) Cleanup(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cleanups = append(b.cleanups, f)
}

// TempDir implements [testing.TB].
func (b *Bench) TempDir() string {
	dir, err := os.MkdirTemp("", "holdfast-verify-")
	if err != nil {
		b.Fatalf("%v", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dirs = append(b.dirs, dir)
	return dir
}

// Close cleans up, the last thing first.
func (b *Bench) Close() {
	for {
		b.mu.Lock()
		n := len(b.cleanups)
		if n == 0 {
			dirs := b.dirs
			b.dirs = nil
			b.mu.Unlock()
			for _, dir := range dirs {
				_ = os.RemoveAll(dir) // a temporary directory that stays is no harm
			}
			return
		}
		f := b.cleanups[n-1]
		b.cleanups = b.cleanups[:n-1]
		b.mu.Unlock()
		f()
	}
}

// Try runs f and returns what it failed with.
func Try(f func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			failed, ok := p.(FailureError)
			if !ok {
				panic(p)
			}
			err = failed
		}
	}()
	f()
	return nil
}
