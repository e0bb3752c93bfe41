//go:build !race

package contract_test

// few divides the length of random tests in virtual time, see race_test.go.
const few = 1
