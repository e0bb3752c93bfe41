package demo

import (
	"errors"
	"os"
	"sync"
	"testing"
)

func TestFencedRegisterRefusesAnOlderToken(t *testing.T) {
	r := newRegister(t.TempDir(), fencedName, true)
	for _, token := range []uint64{5, 5, 8} { // the same holder may write twice
		if err := r.write(token, int64(token)*10); err != nil {
			t.Fatal(err)
		}
	}
	err := r.write(7, 70)
	var stale *staleError
	if !errors.As(err, &stale) || *stale != (staleError{Token: 7, Highest: 8, Value: 80}) {
		t.Errorf("a write with token 7 after 8: %v", err)
	}
	if value, err := r.read(); value != 80 || err != nil {
		t.Errorf("the register stands at %d, %v; want 80", value, err)
	}
}

func TestPlainRegisterTakesEveryWrite(t *testing.T) {
	r := newRegister(t.TempDir(), plainName, false)
	for _, token := range []uint64{8, 7} {
		if err := r.write(token, int64(token)); err != nil {
			t.Fatal(err)
		}
	}
	if value, err := r.read(); value != 7 || err != nil {
		t.Errorf("the register stands at %d, %v; want 7", value, err)
	}
}

// However many write at once, comparing and writing are one step: what stands
// in the end is what the highest token wrote.
func TestFencedRegisterIsAtomic(t *testing.T) {
	dir := t.TempDir()
	var writers sync.WaitGroup
	const highest = 200
	for token := uint64(1); token <= highest; token++ {
		writers.Go(func() {
			var stale *staleError
			err := newRegister(dir, fencedName, true).write(token, int64(token))
			if err != nil && !errors.As(err, &stale) {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	if value, err := newRegister(dir, fencedName, true).read(); value != highest || err != nil {
		t.Errorf("the register stands at %d, %v; want %d", value, err, highest)
	}
}

func TestRegisterSaysWhatItCannotRead(t *testing.T) {
	r := newRegister(t.TempDir(), plainName, false)
	if err := os.WriteFile(r.file.Path, []byte("many\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if value, err := r.read(); err == nil {
		t.Errorf("%q was read as %d", "many", value)
	}
}
