//go:build !unix

package goredis

import (
	"syscall"
	"time"
)

func look(syscall.RawConn, time.Duration) {}
