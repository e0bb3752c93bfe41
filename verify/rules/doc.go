// Package rules tests the promises of Holdfast that a real server, link, process or clock may break. The faults are
// real, too: a link goes silent, an answer is lost after the action took effect, a process is stopped or killed, a
// server forgets everything, is paused, or has no memory left. What the library decides by itself is tested in
// virtual time, in package contract.
//
// Every test runs against a real server, and with both client libraries if they can make a difference. Each rule is
// here because a lock library in use broke it.
//
// Nothing sleeps: a test waits for an event of the library's observer, of the
// proxy or of the server, and fails after redistest.Patience. What a test says
// about time is an order of events (the old holder knew before the next was
// granted), or a bound far from what a slow machine does.
package rules
