//go:build !race

package sim

// usual is how many worlds a test run lives through.
const usual = 2000
