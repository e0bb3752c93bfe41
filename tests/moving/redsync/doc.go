// Package redsync moves from redsync to Holdfast.
package redsync
