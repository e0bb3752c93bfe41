// Package label marks goroutines of the library in profiles and stack dumps. A goroutine
// that the library starts in the background has the label "holdfast", whose value says what
// it does. It has no other label: without that it would keep those of the caller that
// happened to start it.
package label

import (
	"context"
	"runtime/pprof"
)

// Key is the key of the label.
const Key = "holdfast"

// Label is a value of the label.
type Label struct{ ctx context.Context }

// New makes a label. It is made once for each kind of work, because that allocates.
func New(what string) Label {
	return Label{pprof.WithLabels(context.Background(), pprof.Labels(Key, what))}
}

// Caller is for a goroutine that works for the call that started it. It keeps the labels of
// the caller, so a profile shows the work as the caller's.
var Caller Label

// Set marks the calling goroutine until it ends, and those that it starts.
func (l Label) Set() {
	if l.ctx != nil {
		pprof.SetGoroutineLabels(l.ctx)
	}
}
