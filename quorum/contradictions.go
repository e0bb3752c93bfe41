package quorum

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/lockorder"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// The coordinator of a lock has no veto. Suppose that server 1 of three names the holder "c/7",
// and servers 2 and 3 do not have it. While a lock changes hands that is so for a moment. If it
// goes on for two thirds of a lease, nobody holds the lock: somebody acquired it on server 1
// alone, or the clock of server 1 was set back. The client then lets server 2 be coordinator.
//
// An example with times, for a lease of 9 s. At 10 s a waiter polls server 1 and reads all records:
// only server 1 has "c/7". That is noted. At 13 s it is the same, and it has lasted for 3 s. At
// 16 s it has lasted for two thirds of a lease. The waiter begins a new round, in which server 2
// comes first. From then on each round of this process puts server 1 last, until nobody has seen
// "c/7" there for MaxTTL.
//
// This file compares the answers of the servers, remembers what was seen, and decides when it has
// lasted. It sends nothing and reads no clock. coordinator.go and acquire.go ask it.

// nodeLock is a lock on one node.
type nodeLock struct {
	key  string
	node int
}

// contradiction is about a node whose holder of a lock a majority does not have.
type contradiction struct {
	holder   string        // the client's attempt ID, so that acquisitions and polls name it alike
	since    time.Duration // when it was first seen
	lastSeen time.Duration // when it was last seen; older than MaxTTL, it is as good as forgotten
	lasting  bool          // it has lasted for so long that the node may not be coordinator
}

// contradictions are those that were seen within maxTTL, by all acquisitions of this process. Each
// process finds out for itself.
type contradictions struct {
	maxTTL time.Duration

	mu    lockorder.Mutex[contradictions] // guards known; nothing else is locked under it
	known map[nodeLock]*contradiction
}

// contradictionTime is how long a majority must have contradicted a node. It is longer than an
// attempt collects the other nodes' grants. It is short enough that a free majority grants
// within two leases, though a waiter polls only every third of a lease.
func contradictionTime(ttl time.Duration) time.Duration { return ttl * 2 / 3 }

// maxContradictions bounds how many contradictions are remembered.
const maxContradictions = 1000

// note records that the node has a holder that a majority does not have, and reports whether that
// has lasted. ttl is the lease of the attempt that has seen it. If the node names another holder
// than before, the time begins anew: the lock changes hands there.
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

// supported reports whether a majority may have a holder that the coordinator names. For each of
// them it counts the nodes that may have the same one: those that say so, and those that did not
// answer. Readers are several holders, and one of them on a majority is enough. own has the
// records of the nodes that have answered.
//
// Example: server 1 of five names "c/7". 2 has it, too, 3 and 4 have nobody, and 5 is silent. So
// three may have it: 1, 2 and 5. If 5 answers that it has nobody, "c/7" is not supported.
func supported(coordinator wire.Record, own map[int]wire.Record, nodes int) bool {
	for _, h := range coordinator.Holders {
		may := nodes - len(own)
		for _, other := range own {
			for _, holder := range other.Holders {
				if holder.Attempt == h.Attempt {
					may++
				}
			}
		}
		if may >= majority.Of(nodes) {
			return true
		}
	}
	return false
}

// comparison is how the other nodes' answers fit the coordinator's.
type comparison uint8

const (
	undecided    comparison = iota
	plausible               // a majority may have what the coordinator has
	heldByOthers            // the coordinator granted, and somebody else holds on a majority
	heldThere               // a majority does not have the coordinator's holder
)

// compare compares the coordinator's answer with those of the others. all says that no more
// answers are expected. The acquisition's mu is held.
//
// If the coordinator has granted to us, it is contradicted by a majority of busy nodes that name
// one other holder. If the coordinator is busy, it is contradicted by a majority of nodes that
// name another holder, or have granted to us. While open answers may still make such a
// majority, the comparison is undecided.
//
// Example of the first: server 1 restarted empty and grants to us, while 2, 3 and 4 name "c/7".
// That holder has the lock, so a waiter belongs in the queue of server 2 at once. Of the second:
// server 1 names "c/7", and 2, 3 and 4 grant to us. That may be a release that has not reached
// server 1 yet. So it must last, see note.
func compare(attempts []*nodeAttempt, coordinator *nodeAttempt, all bool) (a comparison, holder string) {
	m := majority.Of(len(attempts))
	open, same, by := 0, 0, make(map[string]int)
	for _, na := range attempts {
		switch na.reply {
		case majority.Open:
			open++
		case majority.Granted:
			by[""]++
		case majority.Busy:
			by[clientAttempt(na.lastAnswer.Holder)]++
		default: // it names no holder
		}
	}
	switch coordinator.reply {
	case majority.Granted:
		delete(by, "") // readers cannot be told apart
		most := 0
		for _, n := range by {
			most = max(most, n)
		}
		if most >= m {
			return heldByOthers, ""
		} else if most > 0 && most+open >= m && !all {
			return undecided, ""
		}
	case majority.Busy:
		named := clientAttempt(coordinator.lastAnswer.Holder)
		for _, na := range attempts { // a node that failed may have the same
			differs := na.reply == majority.Busy && clientAttempt(na.lastAnswer.Holder) != named
			if !differs && na.reply != majority.Open && na.reply != majority.Granted {
				same++
			}
		}
		if others := len(attempts) - same - open; others >= m {
			return heldThere, named
		} else if others+open >= m && !all {
			return undecided, ""
		}
	default: // it names no holder
	}
	return plausible, ""
}
