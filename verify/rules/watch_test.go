package rules_test

import "sync"

// resource is what a lock protects: it refuses a token that is older than one it has
// seen.
type resource struct {
	mu      sync.Mutex
	highest uint64
}

func (r *resource) write(token uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token < r.highest {
		return false
	}
	r.highest = token
	return true
}
