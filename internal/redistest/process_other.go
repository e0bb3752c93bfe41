//go:build !linux

package redistest

import "os/exec"

// startTied starts cmd. Only Linux can end it with this process. On other systems a test
// binary that is killed leaves its servers behind.
func startTied(cmd *exec.Cmd) error { return cmd.Start() }
