// Package store is the seam between the library and a server: what a connection to one Redis,
// a Cluster, a quorum or a fake must be able to do. A user chooses a store and passes it to
// holdfast.New. Only the library calls it. [Store] is what every store can do; [Acker], [Batcher], [IdleCloser]
// and [Simulated] are what only some can.
//
// Packages goredis and rueidis make stores from a Redis client library, package memstore is a
// fake in memory, and package quorum unites several stores. A store of your own should pass
// the suite in package storetest.
package store
