// Package history is what happened in a run of the fault suite, event by event, as JSON
// lines: what the clients saw, what the server noted, and which faults were active. The
// checks read nothing else, so a history that was kept can be judged again.
package history

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// Kind says what an event is.
type Kind string

// The kinds of events.
const (
	Began Kind = "began" // the run; Setup
	Ready Kind = "ready" // a client is connected; Proc, Client
	Gone  Kind = "gone"  // a client process has ended; Proc, How: stopped, killed or an error
	Got   Kind = "got"   // a lease began
	End   Kind = "end"   // a lease is over for its user; How, Trusted, Asked
	Fail  Kind = "fail"  // an acquisition ended without a lease; How
	Lost  Kind = "lost"  // the loss of a lease was signalled; Trusted: by when it had to be
	Write Kind = "write" // a read-modify-write was done; Value, Plain, Stale
	Run   Kind = "run"   // a job ran in its period; Token
	Term  Kind = "term"  // a client saw a leader; Token, Value
	Stand Kind = "stand" // a client waits before a write, and holds the lock; Token
	Stats Kind = "stats" // what a client or the server has left at its end; Counts
	Drop  Kind = "drop"  // the handle of a lease was dropped without a release
	Evict Kind = "evict" // an operator is about to end the hold with Token
	Stall Kind = "stall" // nothing ran in a client process from Asked on, or only late
	Try   Kind = "try"   // the attempt Owner tried what must be refused; How, Text
	Note  Kind = "note"  // the server's account; Text
	Fault Kind = "fault" // a fault, reported when it is over; Fault
)

// How a call or a lease ended.
const (
	Released  = "released"  // by its holder, and the server said so
	NotHeld   = "not held"  // the lease was over before the release
	Unknown   = "unknown"   // the server did not answer
	Cancelled = "cancelled" // the caller's context ended
	Held      = "held"      // another attempt has the lock
	Refused   = "refused"   // the server refused
	Broken    = "broken"    // an error that a correct program never sees
	Stopped   = "stopped"   // the process was told to end
	Killed    = "killed"    // the process was killed by the suite
)

// Event is one thing that happened. Fields that do not apply are zero. Times are
// those of [Now].
type Event struct {
	At   int64 `json:"at"`
	Kind Kind  `json:"kind"`

	Proc   int    `json:"proc,omitempty"`   // number of the client process, from 1
	Client string `json:"client,omitempty"` // the library's id of it
	Work   string `json:"work,omitempty"`   // the workload
	Lock   string `json:"lock,omitempty"`   // the lock's name
	ID     uint64 `json:"id,omitempty"`     // of a hold in its process: joins Got, Lost and End
	Mode   string `json:"mode,omitempty"`   // x, s or p
	Weight int    `json:"weight,omitempty"` // permits
	Owner  string `json:"owner,omitempty"`  // the attempt
	Name   string `json:"name,omitempty"`   // of the owner in whose name it entered
	Token  uint64 `json:"token,omitempty"`

	Asked   int64  `json:"asked,omitempty"`   // when the call that ended here was made
	Trusted int64  `json:"trusted,omitempty"` // see End and Lost
	How     string `json:"how,omitempty"`
	Err     string `json:"err,omitempty"`
	Local   bool   `json:"local,omitempty"` // the request was kept inside the process
	// Least is how long the lock is locked at least after its grant, in ns.
	Least time.Duration `json:"least,omitempty"`

	Value int64  `json:"value,omitempty"` // what was written to the fenced register; of a Term, the value's sum
	Plain int64  `json:"plain,omitempty"` // what was written to the plain one
	Stale bool   `json:"stale,omitempty"` // the fenced register refused it
	Text  string `json:"text,omitempty"`

	Fault  *FaultSpan       `json:"fault,omitempty"`
	Setup  *Setup           `json:"setup,omitempty"`
	Counts map[string]int64 `json:"counts,omitempty"`
}

// FaultSpan is a fault from when it began to when it was healed.
type FaultSpan struct {
	Name  string `json:"name"`
	From  int64  `json:"from"`
	Till  int64  `json:"till"`
	Procs []int  `json:"procs,omitempty"` // the client processes that it hit; none: all
	// Servers are those of a quorum that it hit. If there are none, it hit all of them, or
	// the network.
	Servers []string `json:"servers,omitempty"`
	Loses   bool     `json:"loses,omitempty"` // records may be lost: no exclusion until the leases before are over
	Blind   bool     `json:"blind,omitempty"` // the last notes of a server may be missing: it was killed
	Aimed   bool     `json:"aimed,omitempty"` // it hit a holder between its last check and its write
	Text    string   `json:"text,omitempty"`
	Err     string   `json:"err,omitempty"` // it could not be injected
	// Refused is how many requests a server refused in the way that the fault is about.
	Refused int    `json:"refused,omitempty"`
	Steps   []Step `json:"steps,omitempty"` // of servers' clocks
}

// Step says by how much a server's clock is ahead of what it was at the beginning,
// from an instant on.
type Step struct {
	At     int64  `json:"at"`
	Server string `json:"server"`
	Ahead  int64  `json:"ahead"` // in ns; whole ms
}

// Setup is what a run was made of: what it takes to do it again.
type Setup struct {
	Topology string        `json:"topology"`
	Works    []string      `json:"works"`
	Faults   []string      `json:"faults"`
	Asked    bool          `json:"asked,omitempty"` // each of them was asked for by its name
	Seed     uint64        `json:"seed"`
	Duration time.Duration `json:"duration"`
	TTL      time.Duration `json:"ttl"`
	Clients  int           `json:"clients"`
	Prefix   string        `json:"prefix"`
	Server   string        `json:"server"`
	Command  string        `json:"command"` // runs it again
	// Skew is what the server's clock is ahead of that of the events, in ns.
	Skew int64 `json:"skew"`
	// SkewError is by how much Skew may be wrong, in ns.
	SkewError int64 `json:"skew_error"`
}

// Sleep waits for d. It reports false if ctx ends before.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Log gathers a history in memory, and writes it to a file meanwhile. It is safe
// for use by many goroutines.
type Log struct {
	mu     sync.Mutex
	events []Event
	out    *bufio.Writer
	line   []byte // that was written last; its memory is used again
	err    error
	told   func(Event)
}

// NewLog makes a log that writes to w, nil for memory only, and tells told of
// each event, if there is one.
func NewLog(w io.Writer, told func(Event)) *Log {
	l := &Log{told: told}
	if w != nil {
		l.out = bufio.NewWriterSize(w, 1<<20)
	}
	return l
}

// Add puts an event at the end. Without a time it is now.
func (l *Log) Add(e Event) {
	if e.At == 0 {
		e.At = Now()
	}
	l.mu.Lock()
	l.events = append(l.events, e)
	if l.out != nil && l.err == nil {
		l.line = AppendLine(l.line[:0], &e)
		_, l.err = l.out.Write(l.line)
	}
	l.mu.Unlock()
	if l.told != nil {
		l.told(e)
	}
}

// Events returns what there is so far. The slice must not be changed.
func (l *Log) Events() []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clip(l.events)
}

// Flush writes out what is buffered, and reports what went wrong with the
// writing so far.
func (l *Log) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out == nil || l.err != nil {
		return l.err
	}
	return l.out.Flush()
}

// Read reads a history that was kept.
func Read(r io.Reader) ([]Event, error) {
	var events []Event
	var in Reader
	for lines := bufio.NewReaderSize(r, 1<<20); ; {
		line, end := lines.ReadBytes('\n')
		if end != nil && end != io.EOF {
			return events, end
		}
		if len(line) > 0 {
			e, err := in.Line(line)
			if err != nil {
				return events, fmt.Errorf("event %d of the history: %w", len(events)+1, err)
			}
			events = append(events, e)
		}
		if end != nil {
			return events, nil //nolint:nilerr // the end of the file is the end of the history
		}
	}
}
