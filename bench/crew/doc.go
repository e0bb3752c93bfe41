// Package crew is the harness of the benchmarks. It lets crowds of goroutines, in one
// process or several, take turns at a lock, and reports what each of them got. It knows
// no particular lock. A program that can enter a kind of lock serves jobs with [Serve]; a
// [Fleet] of such programs works at the same time.
package crew
