// Package redisson moves from Redisson to Holdfast.
package redisson
