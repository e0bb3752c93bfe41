//go:build !unix

package filecounter

import (
	"errors"
	"os"
)

func lock(*os.File) error { return errors.New("this system cannot lock files") }
