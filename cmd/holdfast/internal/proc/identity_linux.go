package proc

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// Identity names the file for as long as this machine runs: the machine's boot, and the file
// in it. A copy of the file, or the same disk at another machine, has another identity.
func Identity(f *os.File) string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	file, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s:%x:%d", strings.TrimSpace(string(boot)), file.Dev, file.Ino)
}
