// Package crew has crowds of goroutines, in one process or in several, take
// turns at a lock, and tells who got what: the harness of the benchmarks, which
// knows no lock. A program that can enter one kind of lock serves jobs with
// [Serve]; a [Fleet] of such programs works them at the same time.
package crew
