// Package quorum is a [store.Store] over several independent servers, the
// algorithm that is known as Redlock: a lock is held by whoever holds it on a
// majority of them, so that it outlives the loss of the others.
//
//	a, b, c := goredis.New(rdbA), goredis.New(rdbB), goredis.New(rdbC)
//	store, err := quorum.New([]store.Store{a, b, c}, quorum.Config{})
//	…
//	defer store.Close()
//	client, err := holdfast.New(store, holdfast.Config{})
//
// The servers are primaries that know nothing of each other: no replicas of one
// another, no Cluster. Their number is odd, for a fourth server tolerates no
// failure more than three do. Every process names the same servers in the same
// order, and the same [Config.MaxTTL]. Where a client library connects when its
// client is made, [Lazy] opens a node when it is first needed.
//
// What the plain algorithm lacks is here: tokens that rise over majorities
// ([holdfast.Lease.Token]), waiters that are woken by a push and stand in a
// line, leases that are brought back to servers that had been away, and servers
// that have lost their memory kept out of new grants until all that they may
// have forgotten is over. Permits, owners by name, steps between reading and
// writing, periods and elections are refused, see [ErrUnsupported].
//
// docs/quorum.md has the steps, the arguments, and the holes that remain.
package quorum
