package workload

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

func files(t *testing.T, dir string) Registers {
	t.Helper()
	r, err := Files(dir)
	assert.Must(t, err)
	return r
}

func TestAFencedFileRefusesAnOlderToken(t *testing.T) {
	dir := t.TempDir()
	r := files(t, dir).Fenced
	for _, token := range []uint64{5, 5, 8} { // the same holder may write twice
		assert.Must(t, r.Write(token, int64(token)*10))
	}
	assert.Is(t, r.Write(7, 70), ErrStale)
	assert.Is(t, assert.Err(r.Read(7)), ErrStale)
	value, err := r.Read(9)
	assert.True(t, value == 80 && err == nil, "the register stands at %d, %v; want 80", value, err)
	assert.Is(t, r.Write(8, 81), ErrStale)
	fenced, plain, err := Resource(Files).Final(dir)
	assert.True(t, fenced == 80 && plain == 0 && err == nil, "at the end: %d, %d, %v", fenced, plain, err)
}

func TestAPlainFileTakesEveryWrite(t *testing.T) {
	r := files(t, t.TempDir()).Plain
	for _, token := range []uint64{8, 7} {
		assert.Must(t, r.Write(token, int64(token)))
	}
	value, err := r.Read(1)
	assert.True(t, value == 7 && err == nil, "the register stands at %d, %v; want 7", value, err)
}

// However many write at once, comparing and writing are one step: the last value
// is what the highest token wrote.
func TestAFencedFileIsAtomic(t *testing.T) {
	dir := t.TempDir()
	var writers sync.WaitGroup
	const highest = 200
	for token := uint64(1); token <= highest; token++ {
		writers.Go(func() {
			err := files(t, dir).Fenced.Write(token, int64(token))
			assert.False(t, err != nil && !errors.Is(err, ErrStale), "%v", err)
		})
	}
	writers.Wait()
	value, err := files(t, dir).Fenced.Read(highest)
	assert.True(t, value == highest && err == nil, "the register stands at %d, %v; want %d", value, err, highest)
}

func TestAFileThatCannotBeReadIsAnError(t *testing.T) {
	dir := t.TempDir()
	assert.Must(t, os.WriteFile(filepath.Join(dir, "plain"), []byte("many\n"), 0o600))
	value, err := files(t, dir).Plain.Read(1)
	assert.True(t, err != nil, "%q was read as %d", "many", value)
}
