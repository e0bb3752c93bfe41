//go:build !linux

package childproc

import "os/exec"

// StartTied starts cmd. Only Linux can end it with this process. On other systems a test
// binary that is killed leaves its servers behind.
func StartTied(cmd *exec.Cmd) error { return cmd.Start() }
