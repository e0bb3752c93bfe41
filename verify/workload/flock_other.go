//go:build !unix

package workload

import (
	"errors"
	"os"
)

func lockFile(*os.File) error { return errors.New("this system cannot lock files") }
