//go:build race

package contract_test

// few divides the length of random tests in virtual time. The race detector makes them
// ten times slower. So make test runs them short with it, and make quick in full without it.
const few = 10
