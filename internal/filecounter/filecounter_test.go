package filecounter_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/filecounter"
)

func TestWhatIsGuardedIsOneStep(t *testing.T) {
	f := filecounter.File{Path: filepath.Join(t.TempDir(), "n")}
	const some, each = 8, 25
	var all sync.WaitGroup
	for range some {
		all.Go(func() {
			for range each {
				err := f.Guarded(func() error {
					value, highest, err := f.Load()
					if err != nil {
						return err
					}
					return f.Store(value+1, highest+2)
				})
				assert.NoError(t, err)
			}
		})
	}
	all.Wait()
	value, highest, err := f.Load()
	assert.True(t, value == some*each && highest == 2*some*each && err == nil, "%d and %d, %v", value, highest, err)
}

func TestWhatIsNoCounterIsSaid(t *testing.T) {
	f := filecounter.File{Path: filepath.Join(t.TempDir(), "n")}
	if value, highest, err := f.Load(); value != 0 || highest != 0 || err != nil {
		t.Errorf("a file that is not there: %d and %d, %v", value, highest, err)
	}
	assert.Must(t, os.WriteFile(f.Path, []byte("seven"), 0o600))
	value, _, err := f.Load()
	assert.True(t, err != nil, "read as %d", value)
}
