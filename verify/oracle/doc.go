// Package oracle compares the scripts with their specification. It takes random steps on memstore and, by the Lua
// scripts, on a real server. After each step, every answer, every field of the record, its TTL and every push must be
// the same. A second model watches the answers alone. It asserts the invariants of the design: never too many attempts
// believe that they hold the lock, tokens rise, and the queue is served in order.
//
// So that answers can be compared byte for byte, the scripts run here read the
// time from a list that the test writes, instead of by TIME; that is the only
// change to them. Lives of keys still run on the server's own clock: the test
// compares them with a tolerance and sets them anew after each step.
//
// It has tests only. A failure names the seed that repeats it.
package oracle
