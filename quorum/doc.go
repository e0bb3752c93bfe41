// Package quorum is a [store.Store] over several independent servers. The algorithm is known as
// Redlock: a client holds a lock if it holds the lock on a majority of the servers. So a lock
// survives the loss of the other servers.
//
//	a, b, c := goredis.New(rdbA), goredis.New(rdbB), goredis.New(rdbC)
//	store, err := quorum.New([]store.Store{a, b, c}, quorum.Config{})
//	…
//	defer store.Close()
//	client, err := holdfast.New(store, holdfast.Config{})
//
// The servers are primaries that know nothing of each other: not replicas of one another, and
// not a Cluster. Their number is odd, because a fourth server tolerates no more failures than
// three do. Every process names the same servers in the same order, and the same
// [Config.MaxTTL]. If a client library connects when its client is made, [Lazy] opens a node
// when it is first needed.
//
// This package adds what plain Redlock lacks. Tokens rise over majorities
// ([holdfast.Lease.Token]). Waiters wait in a queue, and a push wakes them. A lease is
// restored on servers that were away. A server that has lost its memory does not count
// for new grants until every lease that it may have forgotten is over. Permits, named
// owners, conversions, shortenings, periods, elections, watches for a free lock, acknowledgements and
// calls on the lease of another process are refused, see [ErrUnsupported].
//
// docs/quorum.md has the steps, the proofs, and the holes that remain.
package quorum
