// Package assert has what most tests ask of an error, a value or a text, in one line each.
package assert

import (
	"errors"
	"fmt"
	"strings"
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

// Equal reports got if it is not want, and what it is. The test goes on, and then fails.
func Equal[T comparable](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", fmt.Sprintf(what, args...), got, want)
	}
}

// Contains reports text if part is not in it. The test goes on, and then fails.
func Contains(t testing.TB, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("no %q in\n%s", part, text)
	}
}
