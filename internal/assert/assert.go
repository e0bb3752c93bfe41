// Package assert has what most tests ask of an error, a value or a text, in one line each.
package assert

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Err is the error of a call that also returns a value, for a test that asks only for the error.
func Err[T any](_ T, err error) error { return err }

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

// Is reports err if errors.Is denies one of the targets. The test goes on, and then fails.
func Is(t testing.TB, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("error: got %v, want %q", err, target)
		}
	}
}

// True reports what is wrong if ok is false. The test goes on, and then fails.
func True(t testing.TB, ok bool, wrong string, args ...any) {
	t.Helper()
	if !ok {
		t.Errorf(wrong, args...)
	}
}

// MustTrue ends the test, and says what is wrong, if ok is false. Only the goroutine of the
// test may call it.
func MustTrue(t testing.TB, ok bool, wrong string, args ...any) {
	t.Helper()
	if !ok {
		t.Fatalf(wrong, args...)
	}
}

// False reports what is wrong if bad is true. The test goes on, and then fails.
func False(t testing.TB, bad bool, wrong string, args ...any) {
	t.Helper()
	True(t, !bad, wrong, args...)
}

// Equal reports got if it is not want, and what it is. The test goes on, and then fails.
func Equal[T comparable](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", fmt.Sprintf(what, args...), got, want)
	}
}

// MustEqual ends the test if got is not want. Only the goroutine of the test may call it.
func MustEqual[T comparable](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	if Equal(t, got, want, what, args...); got != want {
		t.FailNow()
	}
}

// EqualSlices reports got if its elements are not those of want. The test goes on, and then fails.
func EqualSlices[T comparable](t testing.TB, got, want []T, what string, args ...any) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", fmt.Sprintf(what, args...), got, want)
	}
}

// AtMost reports got if it is more than most. The test goes on, and then fails.
func AtMost[T cmp.Ordered](t testing.TB, got, most T, what string, args ...any) {
	t.Helper()
	if got > most {
		t.Errorf("%s: got %v, want at most %v", fmt.Sprintf(what, args...), got, most)
	}
}

// AtLeast reports got if it is less than least. The test goes on, and then fails.
func AtLeast[T cmp.Ordered](t testing.TB, got, least T, what string, args ...any) {
	t.Helper()
	if got < least {
		t.Errorf("%s: got %v, want at least %v", fmt.Sprintf(what, args...), got, least)
	}
}

// More reports got if it is not more than floor. The test goes on, and then fails.
func More[T cmp.Ordered](t testing.TB, got, floor T, what string, args ...any) {
	t.Helper()
	if got <= floor {
		t.Errorf("%s: got %v, want more than %v", fmt.Sprintf(what, args...), got, floor)
	}
}

// Contains reports text if part is not in it. The test goes on, and then fails.
func Contains(t testing.TB, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("want %q in this text:\n%s", part, text)
	}
}
