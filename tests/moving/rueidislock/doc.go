// Package rueidislock moves from rueidislock to Holdfast.
package rueidislock
