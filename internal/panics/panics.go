// Package panics ends the panics of a program's code that the library calls while it does something else. Such a
// panic would interrupt the library in the middle: a program that recovers, as net/http does, would go on with a lock
// that nobody releases.
//
// Example: an observer panics in a call of Lock, when the lock is granted already. If the panic went on, the caller
// would have no lease, and the lock would be renewed for as long as the process lives.
//
// A function that a call runs for its caller, as Do does, needs nothing of this: its panic reaches the caller, and the
// lock is released on the way.
package panics

import (
	"fmt"
	"os"
	"runtime/debug"
)

// Ignore is deferred around code that only looks on: what it interrupts goes on without it.
func Ignore(code string) {
	if p := recover(); p != nil {
		tell(code, p)
	}
}

// Fail is deferred around code of which a request needs the result. The request has failed, and its outcome is unknown.
func Fail(code string, err *error) {
	if p := recover(); p != nil {
		tell(code, p)
		*err = fmt.Errorf("panic in %s: %v", code, p)
	}
}

// tell writes the panic with its stack to standard error, as the runtime does. The handler of a log may be what has
// panicked.
func tell(code string, p any) {
	fmt.Fprintf(os.Stderr, "holdfast: panic in %s: %v\n%s", code, p, debug.Stack())
}
