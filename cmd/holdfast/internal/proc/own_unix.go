//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package proc

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// noFollow opens no symbolic link, and does not wait for the other end of a pipe.
const noFollow = unix.O_NOFOLLOW | unix.O_NONBLOCK

// isLink reports whether an open failed because the name is a symbolic link (some systems say EMLINK), or a
// socket.
func isLink(err error) bool {
	return errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EMLINK) || errors.Is(err, unix.ENXIO) ||
		errors.Is(err, unix.EOPNOTSUPP)
}

// linked reports whether a file has other names.
func linked(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink > 1
}
