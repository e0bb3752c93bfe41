//go:build race

package sim

// usual is how many worlds a test run lives through. The race detector makes them seven
// times as slow: make test lives through a thousand, without it.
const usual = 200
