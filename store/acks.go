package store

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/script"
)

// Acker is a [Store] whose servers may have replicas, or an append-only file, and that can
// wait for them. It is optional.
type Acker interface {
	Store

	// RunAcked is Run. Then, on the same connection and right behind the script, it waits for
	// acknowledgements of all earlier writes: until there are as many as need says, or until
	// timeout has passed. got is the servers' count. Fewer than needed is not an error.
	//
	// A [*ServerError] may be the refusal of the wait, so it says nothing about the script.
	RunAcked(
		ctx context.Context, s *script.Script, keys, args []string, need Acks, timeout time.Duration,
	) (answer string, got Acks, err error)
}

// Acks counts where a write has arrived.
type Acks struct {
	Replicas   int // replicas that have it in memory
	LocalAOF   int // 1 if it is in the primary's append-only file, synced to disk
	ReplicaAOF int // replicas whose append-only file has it, synced to disk
}

// Covers reports whether a is at least what is needed.
func (a Acks) Covers(need Acks) bool {
	return a.Replicas >= need.Replicas && a.LocalAOF >= need.LocalAOF && a.ReplicaAOF >= need.ReplicaAOF
}

func (a Acks) String() string {
	var parts []string
	add := func(n int, one, several string) {
		switch {
		case n == 1:
			parts = append(parts, one)
		case n > 1:
			parts = append(parts, strconv.Itoa(n)+" "+several)
		}
	}
	add(a.Replicas, "1 replica", "replicas")
	add(a.LocalAOF, "the primary's disk", "")
	add(a.ReplicaAOF, "1 replica's disk", "disks of replicas")
	if len(parts) == 0 {
		return "nobody"
	}
	return strings.Join(parts, ", ")
}
