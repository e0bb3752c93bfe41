//go:build !race

package bench

// raced: the race detector makes pools forget what they have, now and then.
const raced = false
