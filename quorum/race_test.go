//go:build race

package quorum_test

// few divides the length of searches in virtual time. The race detector makes them ten
// times as slow: make test has them short with it, and in full without.
const few = 10
