//go:build !linux

package redistest

import "os/exec"

// startTied starts cmd. Only Linux can tie its life to ours: elsewhere a test
// binary that is killed leaves its server behind.
func startTied(cmd *exec.Cmd) error { return cmd.Start() }
