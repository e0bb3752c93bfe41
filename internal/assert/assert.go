// Package assert has what most tests ask of an error, in one line each.
package assert

import (
	"errors"
	"testing"
)

// Must ends the test if err is not nil. Only the goroutine of the test may call it.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// NoError reports err if it is not nil. The test goes on, and then fails.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// Is reports err if it is not each of the targets. The test goes on, and then fails.
func Is(t testing.TB, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("error %v is no %q", err, target)
		}
	}
}
