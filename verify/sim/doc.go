// Package sim runs the library in simulated worlds, in virtual time. In a world, several processes with several
// goroutines each lock, wait, give up, extend, step and release over memstore. Faults come alone, in twos and in
// threes:
//
//   - The network delays, loses and duplicates messages. A request may arrive again long after its answer.
//   - Processes crash and pause. Subscriptions break, and routers forget connections.
//   - The server falls silent or refuses. Its clock is fast, slow or set.
//
// A world takes a few milliseconds, and all of it follows from one number, the seed.
//
// One goroutine, the scheduler, decides what happens next. Every request, answer, push and call of a user waits at
// the scheduler's gate. The scheduler lets one pass, and then waits until every other goroutine sleeps again
// (testing/synctest). It alone draws from the seed, and no two of its events have the same instant. If several
// messages arrive at the gate at one instant, their texts decide the order. So a seed gives one history, byte for
// byte: a test runs seeds twice and compares.
//
// The server is memstore. That the scripts do the same is tested step by step, in package oracle.
//
// After every event, assertions check the invariants of the design: on the server's record (truth_test.go), on what
// clients believe (belief_test.go), and in the end on what is left.
//
// It has tests only. A failure prints the command that repeats it.
package sim
