//go:build !race

package oracle

const sequences = "300"
