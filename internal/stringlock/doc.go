// Package stringlock has locks that are one string key on a server: the value says whose the
// key is, and the TTL is the lease. redsync and bsm/redislock write their locks so, and SET NX
// PX by hand does, too. On several servers a lock belongs to the client that has its key on a
// majority of them.
//
// [Nodes] sends a script to each server, and counts their replies. [Wire] puts such locks under the
// library's engine, see package neighbour.
package stringlock
