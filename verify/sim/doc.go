// Package sim runs the library in worlds that never were. Several processes, each with
// several goroutines, lock, wait, give up, extend, step and release over memstore, on a
// network that delays, loses and doubles what it is given; they crash and pause,
// subscriptions break, routers forget connections, requests arrive once more long after
// their answers, the server falls silent or refuses, its clock is fast, slow or set;
// faults come alone, in twos and in threes. All of it happens in virtual time, a
// few milliseconds a world, and all of it follows from one number, the seed.
//
// One goroutine, the scheduler, decides what happens next. Every request, answer,
// push and call of a user waits at a gate of the scheduler's, which lets one pass
// and then waits until every other goroutine sleeps again (testing/synctest). It
// alone draws from the seed, no two of its events have the same instant, and what
// arrives at the gate at one instant is taken in the order of what it says, not in
// which goroutines happened to run. So a seed gives one history, byte for byte: a
// test runs seeds twice and compares.
//
// The server is memstore. So that this says something of the scripts, which servers
// run, in some of the worlds each request also goes to them, in miniredis and in the
// same virtual time: answers, pushes and records must be the same byte for byte.
//
// After every event the invariants of the design are asserted, on what the server
// did (truth_test.go), on what clients believe (belief_test.go), and in the end on
// what is left.
//
// It has tests only. A failure prints the command that repeats it.
package sim
