//go:build !race

package sim

// usual is how many worlds a test run lives through. In the 20,000 of make test-long, all pairs
// of faults meet.
const usual = 1000
