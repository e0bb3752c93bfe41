//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package demo

import "syscall"

// dieWithParent cannot be had here. Workers end when their standard input
// does; the server of a demo that was killed by SIGKILL stays.
func dieWithParent(*syscall.SysProcAttr) {}
