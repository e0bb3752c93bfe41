//go:build !unix

package kit

import "errors"

// Stop reports that this system cannot stop a process.
func (c *Child) Stop() error { return errors.ErrUnsupported }

// Continue reports that this system cannot stop a process.
func (c *Child) Continue() error { return errors.ErrUnsupported }
