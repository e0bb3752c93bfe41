package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// HideEnvironment overwrites the values of variables in the memory that /proc/PID/environ shows: every process of
// this user can read that, a command of ours too. The program has copies, so that os.Getenv goes on.
func HideEnvironment(secret func(name, value string) bool) error {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return err
	}
	// The name of the program may have blanks. Behind it is the third field; env_start and env_end are the
	// 50th and the 51st.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const start, end = 50 - 3, 51 - 3
	if len(fields) <= end {
		return fmt.Errorf("/proc/self/stat has %d fields", len(fields)+2)
	}
	from, err := strconv.ParseInt(fields[start], 10, 64)
	if err != nil {
		return err
	}
	to, err := strconv.ParseInt(fields[end], 10, 64)
	if err != nil || to < from {
		return fmt.Errorf("the environment ends at %s: %w", fields[end], err)
	}
	mem, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer mem.Close() //nolint:errcheck // what was written is there
	all := make([]byte, to-from)
	if _, err := mem.ReadAt(all, from); err != nil {
		return err
	}
	at := from
	for entry := range bytes.SplitSeq(all, []byte{0}) {
		name, value, found := strings.Cut(string(entry), "=")
		if found && secret(name, value) {
			if _, err := mem.WriteAt(make([]byte, len(value)), at+int64(len(name)+1)); err != nil {
				return err
			}
		}
		at += int64(len(entry) + 1)
	}
	return nil
}
