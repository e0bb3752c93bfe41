//go:build race

package sim

// usual is how many worlds a test run lives through. The race detector makes them seven
// times as slow: make test runs without it too, for all of them.
const usual = 200
