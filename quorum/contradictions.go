package quorum

import (
	"sync"
	"time"
)

// The coordinator of a lock has no veto. Suppose that server 1 of three names the holder "c/7",
// and servers 2 and 3 do not have it. While a lock changes hands that is so for a moment. If it
// goes on for two thirds of a lease, nobody holds the lock: somebody acquired it on server 1
// alone, or the clock of server 1 was set back. The client then lets server 2 be coordinator.
//
// This file remembers what was seen, and decides when it has lasted. It sends nothing and reads
// no clock. coordinator.go compares the servers' answers and asks this table.

// nodeLock is a lock on one node.
type nodeLock struct {
	key  string
	node int
}

// contradiction is about a node whose holder of a lock a majority does not have.
type contradiction struct {
	holder   string // the client's attempt ID, so that acquisitions and polls name it alike
	since    time.Duration
	lastSeen time.Duration
	lasting  bool // it has lasted for so long that the node may not be coordinator
}

// contradictions are those that were seen within maxTTL.
type contradictions struct {
	maxTTL time.Duration

	mu    sync.Mutex // guards known; nothing else is locked under it
	known map[nodeLock]*contradiction
}

// contradictionTime is how long a majority must have contradicted a node. It is longer than an
// attempt collects the other nodes' grants. It is short enough that a free majority grants
// within two leases, though a waiter polls only every third of a lease.
func contradictionTime(ttl time.Duration) time.Duration { return ttl * 2 / 3 }

// maxContradictions bounds how many contradictions are remembered.
const maxContradictions = 1000

// note records that the node has a holder that a majority does not have, and reports whether
// that has lasted. ttl is the lease of the attempt that has seen it.
func (c *contradictions) note(now time.Duration, at nodeLock, holder string, ttl time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.known[at]
	if a == nil || a.holder != holder || now-a.lastSeen > c.maxTTL {
		if len(c.known) >= maxContradictions {
			clear(c.known) // forgetting only delays the decision
		}
		a = &contradiction{holder: holder, since: now}
		c.known[at] = a
	}
	a.lastSeen = now
	a.lasting = a.lasting || now-a.since >= contradictionTime(ttl)
	return a.lasting
}

// keep goes on contradicting a node that still has the holder of a lasting contradiction.
// Otherwise a client that finds out about a second node forgets the first one meanwhile, and
// begins with that again.
func (c *contradictions) keep(now time.Duration, at nodeLock, holder string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.known[at]
	if a != nil && a.lasting && a.holder == holder && now-a.lastSeen <= c.maxTTL {
		a.lastSeen = now
	}
}

// drop records that a majority may have what the node has.
func (c *contradictions) drop(at nodeLock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, at)
}

// lasts reports whether the node may not be the lock's coordinator.
func (c *contradictions) lasts(now time.Duration, at nodeLock) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.known[at]
	return a != nil && a.lasting && now-a.lastSeen <= c.maxTTL
}
