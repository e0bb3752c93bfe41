//go:build unix

package kit

import "syscall"

// Stop stops the child in the middle of what it does, as a machine does that
// is suspended.
func (c *Child) Stop() error { return c.cmd.Process.Signal(syscall.SIGSTOP) }

// Continue lets a stopped child go on.
func (c *Child) Continue() error { return c.cmd.Process.Signal(syscall.SIGCONT) }
