// Package pushfirst marks a request that may push to another client, such as a release of a lock for which somebody
// waits. The store brings that push to its client before the answer to the caller.
//
// Redis and Valkey write last in, first out: of all clients that are to receive something, they write first to the
// one that was noted last. A script notes the client of its push while it runs, and its caller afterwards, for the
// answer. So a store writes PING in front of the script, in the same write. The answer to PING notes the caller
// before the push. Whatever that answer is, also a refusal, nobody reads it.
//
// The mark is in the context, so that whatever is around a store passes it on. A store may ignore it, and no outcome
// depends on it.
package pushfirst

import "context"

// Mark returns the context of such a request.
func Mark(ctx context.Context) context.Context { return context.WithValue(ctx, mark{}, true) }

// Marked reports whether ctx has the mark.
func Marked(ctx context.Context) bool { return ctx.Value(mark{}) != nil }

type mark struct{}
