//go:build unix

package kit

import "syscall"

// Stop stops the child in the middle of its work, as if its machine were suspended.
func (c *Child) Stop() error { return c.cmd.Process.Signal(syscall.SIGSTOP) }

// Continue lets a stopped child go on.
func (c *Child) Continue() error { return c.cmd.Process.Signal(syscall.SIGCONT) }
