// Package redislock moves from redislock to Holdfast.
package redislock
