// Package compat holds locks on the wires of compat/redsync and compat/redislock beside the original
// libraries, on real servers.
package compat
