// Package mark marks requests, for the store. A mark is in the context, so that whatever is around a store passes it
// on. A store may ignore it, and no outcome depends on it.
package mark

import "context"

type mark uint8

const (
	pushFirst mark = iota
	awaited
)

// PushFirst marks a request that may push to another client, such as a release of a lock for which somebody waits. The
// store brings that push to its client before the answer to the caller.
//
// Redis and Valkey write last in, first out: of all clients that are to receive something, they write first to the
// one that was noted last. A script notes the client of its push while it runs, and its caller afterwards, for the
// answer. So a store writes PING in front of the script, in the same write. The answer to PING notes the caller
// before the push. Whatever that answer is, also a refusal, nobody reads it.
func PushFirst(ctx context.Context) context.Context { return context.WithValue(ctx, pushFirst, true) }

// IsPushFirst reports whether ctx has that mark.
func IsPushFirst(ctx context.Context) bool { return ctx.Value(pushFirst) != nil }

// Awaited marks a renewal for whose answer a caller waits. The answer to every other renewal may be read a little late:
// so that it is read in time while others use up the processor, a store does not wait at the socket for it.
func Awaited(ctx context.Context) context.Context { return context.WithValue(ctx, awaited, true) }

// IsAwaited reports whether ctx has that mark.
func IsAwaited(ctx context.Context) bool { return ctx.Value(awaited) != nil }
