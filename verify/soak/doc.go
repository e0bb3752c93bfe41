// Command soak runs a mixed load with faults for a long time, and checks that goroutines, heap,
// the server's memory and its keys return to where they began. make soak runs it.
//
// The load, the clients, the proxies and the faults are in one process, so that a goroutine or
// an object that anything leaves behind is counted here. The server is a process of its own.
//
// A run has five phases: start (nothing is there yet), before (the clients are connected, after
// a minute of load, and idle), load, after (idle again) and closed. The verdict compares after
// with before, and closed with start.
package main
