//go:build race

package oracle

// sequences are few with the race detector, which has little to find where all
// is done one after the other: make test runs all of them, without it.
const sequences = "75"
