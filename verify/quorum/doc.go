// Package quorum asks whether locks over five real servers keep their promises
// while servers die, stop, forget and disagree on the time. Its tests start the
// servers themselves; the same faults in virtual time, and more of them, are in
// the tests of package quorum.
package quorum
