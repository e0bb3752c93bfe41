// Package setnx moves from locks that programs write by hand to Holdfast. Each file has one way, before and after.
package setnx
