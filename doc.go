// Package holdfast takes distributed locks on Redis and Valkey.
//
// # The model
//
// A lock is a name. Its state is one record on the server, and the server
// alone decides who holds it. A client that is granted the lock gets a
// [Lease]: the lock is its own for a limited time, the TTL, and is renewed for
// as long as the process works and the server answers. When the holder gives
// the lock up, the server hands it to the next in line in the same step and
// pushes the grant there: the next one neither polls nor races.
//
//	free ──acquire──▶ held ──release──▶ free, or granted to the next in line
//	                   │
//	                   └─renewal not confirmed in time──▶ lost
//
// # What is to be believed, and until when
//
// A lease is measured from before its request was sent, on a clock that counts
// the machine's sleep, and ends locally a margin before it can end on the
// server: the trust deadline. At that instant the lease's context is done with
// a [LostError] as its cause, whatever the network does. A process that was
// paused past its deadline cannot be told in time by anybody; that is what
// [Lease.Token] is for: a number that rises with every grant. Give it to the
// resource with every write, and let the resource refuse a lower number than
// the highest it has seen. Without that check this lock, like every lock with
// a lease, makes collisions rare and not impossible.
//
// # The caller's duties
//
//  1. Work under the lease's context, and stop when it is done.
//  2. Release the lease, also after an error: it wakes the next one.
//  3. Send the token along where a late write would do harm.
//  4. Treat [ErrUnknownOutcome] as what it is: the lock may or may not be held
//     for up to a TTL; the library undoes it in the background.
//
// # Outcomes
//
// [Mutex.Lock] and [Mutex.TryLock] return a lease, or an error after which
// nothing is held: [ErrHeld] if somebody else has the lock, the context's
// error if it ended first, a [*ServerError] if the server refused, an
// [ErrUnreachable] if nothing could be sent, and otherwise an error that is an
// [ErrUnknownOutcome]. [Hint] says what to do.
package holdfast

// Version is the version of the library, as clients announce it.
const Version = "0.1.0-dev"
