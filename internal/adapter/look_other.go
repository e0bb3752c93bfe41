//go:build !unix

package adapter

import (
	"syscall"
	"time"
)

func look(syscall.RawConn, time.Duration, func() bool) bool { return false }

// Doze cannot look here.
func Doze(syscall.RawConn, func() bool) {}
