//go:build !race

package quorum_test

// few divides the length of searches in virtual time, see race_test.go.
const few = 1
