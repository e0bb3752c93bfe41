// Package holdfast provides distributed locks on Redis and Valkey.
//
// # The model
//
// A lock is a name. The state of the lock is one record on the server, and only the server
// decides which client holds the lock. A client that acquires the lock gets a [Lease]. The
// lease lasts for a limited time, the TTL. The client renews the lease while the process runs
// and the server answers. When the holder releases the lock, the server grants it to the next
// waiter in the same step. The server also pushes the grant to that waiter, so the waiter does
// not have to poll.
//
//	free ──acquire──▶ held ──release──▶ free, or granted to the next waiter
//	                   │
//	                   └─renewal not confirmed in time──▶ lost
//
// # Where to look
//
// Most programs need no more than [New], [Client.Mutex], [Mutex.Do] and [Mutex.TryDo]. A program
// that does not release the lock in the function that acquires it uses [Mutex.Lock] and the
// methods of the [Lease]. Everything else is for one need:
//
//   - other kinds of locks: [RWMutex], [Semaphore], [MultiMutex], [Election], [Periodic]
//   - how a lock is acquired, held and released: [Option] lists the options of every kind
//   - a resource or a service that refuses late writers: [Lease.Token], [Client.Check]
//   - what the server knows of locks, and an operator's end of a hold: [Client.Inspect], [Client.List],
//     [Client.Evict]
//   - a lock that passes from one process to another: [LeaseOf], [Client.ExtendLease],
//     [Client.ReleaseLease], [Election.Resume], [Owner]
//   - metrics, traces and a health check: [Config.Observer], [Client.Stats]
//
// # The trust deadline
//
// The client measures the lease from just before it sends the request, on a clock that also
// runs while the machine is suspended. The client stops trusting the lease early: one safety
// margin before the lease can end on the server. That moment is the trust deadline. At the
// trust deadline the lease's context ends, with a [LostError] as its cause. This does not
// depend on the network.
//
// If the process is paused past the deadline, no signal can reach it in time. For that case
// there is [Lease.Token], a number that rises with every grant. Send the token to the
// resource with every write. The resource must refuse a token that is lower than the
// highest it has seen. Without that check, collisions are rare but possible, as with every
// lock that has a lease. If the resource cannot check a token, [LockDelay] makes them rarer.
//
// # The caller's duties
//
//  1. Work under the lease's context, and stop when it ends.
//  2. Release the lease, even after an error: the release grants the lock to the next
//     waiter.
//  3. Send the token with each write that would do harm if it came late.
//  4. After an [ErrUnknownOutcome], assume that your own attempt may hold the lock, for up to one
//     TTL. The library cancels the attempt in the background.
//
// # Outcomes
//
// [Mutex.Lock] and [Mutex.TryLock] return a lease or an error. After an error the caller
// has no lease. The error is:
//
//   - an [ErrHeld] if another caller holds the lock
//   - the context's error if the context ended first
//   - a [*ServerError] if the server refused
//   - an [ErrUnreachable] if nothing could be sent
//   - an [ErrUnknownOutcome] if the server may have acted, and no usable answer came
//
// Some options add errors. [Mutex.Lock] lists them all.
//
// [Hint] says what to do about an error.
package holdfast

// Version is the version of the library. Clients report it when they register.
const Version = "0.1.0-dev"
