// Package rules holds the tests of those promises of Holdfast that a real
// server, link, process or clock may break, with the fault really injected: a
// link that goes silent, an answer that is lost after the action took effect,
// a process that is stopped or killed, a server that forgets everything, is
// paused or has no memory left. All that the library decides by itself is
// tested in virtual time, in the root.
//
// Every test runs against a real server, and where the client under the
// library can make a difference, with both of them. The promises are the
// rules of the peers' study: each rule is there because a lock library in use
// broke it.
//
// Nothing sleeps: a test waits for an event of the library's observer, of the
// proxy or of the server, and fails after redistest.Patience. What a test says
// about time is an order of events (the old holder knew before the next was
// granted), or a bound far from what a slow machine does.
package rules
