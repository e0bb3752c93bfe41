package waitsfor

import "context"

// Outer is a hold of another process, under which the code of this one runs: holdfast run
// inside holdfast run.
type Outer struct{ Lock, Client string }

type outerKey struct{}

// WithOuter returns a context for code that runs under holds of other processes.
func WithOuter(ctx context.Context, holds []Outer) context.Context {
	return context.WithValue(ctx, outerKey{}, holds)
}

// OuterOf returns the holds of other processes that code with this context runs under.
func OuterOf(ctx context.Context) []Outer {
	holds, _ := ctx.Value(outerKey{}).([]Outer)
	return holds
}
