// Package stringlock has locks that are one string key on a server: the value says whose the
// key is, and the TTL is the lease. redsync and bsm/redislock write their locks so, and SET NX
// PX by hand does, too. On several servers a lock belongs to the client that has its key on a
// majority of them.
//
// [Wire] puts such locks under the library's engine, see package neighbour. [Holds] has what the
// modules with the originals' API need: single requests to all servers, their replies one by one,
// and holds whose loss is signalled.
package stringlock
