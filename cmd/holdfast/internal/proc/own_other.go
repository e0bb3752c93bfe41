//go:build !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd

package proc

import "os"

const noFollow = 0

func isLink(error) bool       { return false }
func linked(os.FileInfo) bool { return false }
