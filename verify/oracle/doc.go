// Package oracle holds the scripts against their specification. Random steps
// are taken on memstore and, by the Lua scripts, on a real server, and after
// each of them every answer, every field of the record, its life and every
// push must be the same. Beside that a model that knows nothing of records
// watches the answers alone and asserts the invariants of the design: which
// attempts may believe at one time to hold the lock, that tokens rise, and that the
// queue is served in order.
//
// So that answers can be compared byte for byte, the scripts run here read the
// time from a list that the test writes, instead of by TIME; that is the only
// change to them. Lives of keys still run on the server's own clock: the test
// compares them with a tolerance and sets them anew after each step.
//
// It has tests only. A failure names the seed that repeats it.
package oracle
