// Package store is the seam between the library and a server: what a connection
// to one Redis, a Cluster, a quorum or a fake must be able to do. A user chooses a
// store, passes it to holdfast.New, and does not call it.
//
// Package goredis and package rueidis make stores over a Redis client library,
// package memstore is a fake in memory, and package quorum unites several stores.
// A store of your own passes the suite in package storetest.
package store
