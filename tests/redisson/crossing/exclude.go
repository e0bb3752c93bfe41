package crossing

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
)

// NewFile makes the file with which Cross checks exclusion: see Crossing.java.
func NewFile(path string) error { return os.WriteFile(path, make([]byte, 16), 0o600) }

// Count reads from the file how often somebody was in.
func Count(path string) (int64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	if len(data) != 16 {
		return 0, fmt.Errorf("%s has %d bytes", path, len(data))
	}
	return int64(binary.BigEndian.Uint64(data[8:])), nil
}

// cross takes a lock many times, and each time checks in a file that nobody else is in. It returns
// how often another was. A reader only looks that no writer is in.
func cross(
	ctx context.Context, path string, times int, reader bool, locked func(context.Context, func() error) error,
) (met int, err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }() // it is not written through a buffer
	step := pass
	if reader {
		step = look
	}
	for range times {
		err := locked(ctx, func() error {
			other, err := step(file)
			if other {
				met++
			}
			return err
		})
		if err != nil {
			return met, err
		}
	}
	return met, nil
}

func look(file *os.File) (other bool, err error) {
	before, count, err := both(file)
	if err != nil {
		return false, err
	}
	runtime.Gosched()
	after, now, err := both(file)
	return before != 0 || after != 0 || now != count, err
}

func pass(file *os.File) (other bool, err error) {
	mark := rand.Uint64()>>1 | 1 //nolint:gosec // it need only be another than all the others
	before, count, err := both(file)
	if err != nil {
		return false, err
	}
	if err := put(file, 0, mark); err != nil {
		return false, err
	}
	runtime.Gosched()
	now, _, err := both(file)
	if err != nil {
		return false, err
	}
	if err := put(file, 8, count+1); err != nil {
		return false, err
	}
	return before != 0 || now != mark, put(file, 0, 0)
}

// both reads the mark of whoever is in, and how often somebody was.
func both(file *os.File) (mark, count uint64, err error) {
	var data [16]byte
	if _, err := file.ReadAt(data[:], 0); err != nil {
		return 0, 0, err
	}
	return binary.BigEndian.Uint64(data[:8]), binary.BigEndian.Uint64(data[8:]), nil
}

func put(file *os.File, at int64, value uint64) error {
	_, err := file.WriteAt(binary.BigEndian.AppendUint64(nil, value), at)
	return err
}
