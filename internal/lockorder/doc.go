// Package lockorder has the mutex of this module. A program gets a plain [sync.Mutex]. With the build tag lockorder,
// the mutex also records which others its goroutine held when it locked it, and [Differences] compares that with the
// table of docs/architecture.md. So the table is the real order, and two mutexes that are locked in both orders fail
// a test before they meet in a deadlock.
//
// The type parameter is the type that the mutex belongs to, and names it:
//
//	type hold struct {
//		mu lockorder.Mutex[hold]
//	}
//
// It is a tag of its own and not the race detector's: the record is one for all goroutines, and would order what the
// race detector has to see unordered.
package lockorder
