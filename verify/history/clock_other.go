//go:build !unix

package history

import "time"

// Now reads the wall clock, in ns: here is no other that processes share.
func Now() int64 { return time.Now().UnixNano() }
