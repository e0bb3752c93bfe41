//go:build !lockorder || !amd64

package lockorder

import "sync"

// Mutex is a [sync.Mutex].
type Mutex[Of any] = sync.Mutex
