// Package compat compares the packages compat/redsync and compat/redislock with the originals: the
// names at compile time, the behaviour in one table that runs against both, and the exclusion of
// both in mixed programs.
package compat
