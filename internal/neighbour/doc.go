// Package neighbour puts locks of other libraries, the neighbours, under the engine of this
// one. A [Store] answers the library's actions over a neighbour's own keys and messages, so that
// programs of both exclude each other. Renewal, wake-up, the local queue and the loss signal are
// those of native locks.
//
// # To write a wire
//
// A [Wire] is one kind of lock of one neighbour. It holds the store that it sends to, and has a
// method for each thing that an attempt asks for. Each method is one atomic step on the server,
// made with [NewScript] and [Store.Run] of the underlying store, and reports what it found in
// typed answers. The rest is here: names and arguments, waiters and their subscriptions,
// actions that no wire carries, and repeated requests.
//
//	func New(s store.Store, cfg Config) store.Store { return neighbour.New(s, &wire{s, cfg}) }
//
// What a wire must keep true:
//
//   - Acquire is idempotent for its attempt: if the attempt holds the lock already, Acquire
//     extends it to the TTL from now on, and counts nothing twice. A waiter's poll is an Acquire.
//   - Release and Cancel end the hold of that attempt only, and tell the neighbour's waiters in
//     the same step. Cancel also takes the attempt out of the neighbour's queue, if there is one.
//     Both may run twice. If [Attempt.Late] is set, a copy of a request to acquire may arrive later:
//     it must not hold the lock, or be in the queue, for as long as that would last.
//   - Renew extends only holds that exist. It never revives one, and never shortens one.
//   - No key is left without a TTL, unless the neighbour's own format has none there.
//   - A key of another kind is left as it is: a script's own WRONGTYPE refusal will do.
//   - An error of the store is returned as it is, because its kind says whether the request may
//     have taken effect.
//
// A neighbour that sends a message when a lock is released names its channel by
// [Wire.Channel]. Whatever the message says, it means "look again": the waiter asks at once. A
// neighbour without messages sets [Traits.PollEvery].
package neighbour
