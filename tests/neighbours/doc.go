// Package neighbours runs fleets in which two libraries share locks: another library, the original,
// and this one on its wire. It injects the faults of verify/fault, and judges whether somebody was in
// with another. The same faults, of the same seed, hit a fleet of the original alone. So a run tells
// which violations the original has by itself.
//
// # To put another neighbour in
//
// List a [Neighbour] in all.go. It names two libraries, and for each how to start one of its
// processes. A process written in Go is this program again: give its [Locker] a name in
// lockers.go, and the rest (orders, threads, reports) is [Work]. Another language writes the same
// lines itself, as Fleet.java does for Redisson:
//
//	in    a Config as JSON
//	out   {"event":"ready"}                     it is connected
//	in    begin
//	out   {"event":"enter","lock":"l1","hold":7,"holder":"…","at":123}
//	out   {"event":"in","hold":7,"at":456}      it still believed that it held the lock
//	out   {"event":"exit","hold":7,"at":789,"how":"released"}
//	out   {"event":"failed","lock":"l1","text":"…"}
//	in    stop
//	out   {"event":"done"}                      nothing is held any more
//
// A hold's number is unique in its process. Its holder is what the wire writes into the lock's key for
// it: a hash field, or a string value; it may be empty. Times are readings of the machine's monotonic
// clock, in ns. A process reads the clock after it got a lock, then before each time that it
// asks itself whether it still holds it, and before it gives it back. So what is reported is less
// than what was believed, and two that overlap were in together.
package neighbours
