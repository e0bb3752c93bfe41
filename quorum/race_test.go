//go:build race

package quorum_test

// few divides the length of searches in virtual time. The race detector makes them ten times
// as slow, so make test runs them short with it, and make test-all also in full without.
const few = 10
