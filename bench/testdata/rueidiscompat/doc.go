// Package rueidiscompat is empty: see go.mod.
package rueidiscompat
