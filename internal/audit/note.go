package audit

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Note is one change of one record.
type Note struct {
	At            int64 // the server's clock in µs, after the script
	Ahead         int64 // by how much that clock was moved before, in µs: checks take it from At, once they know
	Action, Key   string
	Caller        string // the attempt that the action was sent for, or several with commas; - if it was none
	Before, After Record
	Server        string // its name, see [Who]; empty if it does not know that
	Told          int    // how many messages the script has published
	Failed        string // the error of a script that failed half-way; else empty
}

// Clock is what the server's clock said, in µs, moved or not.
func (n Note) Clock() int64 { return n.At + n.Ahead }

// For reports whether the action was sent for an attempt.
func (n Note) For(attempt string) bool { return slices.Contains(strings.Split(n.Caller, ","), attempt) }

// Record is what a lock's record said at one moment. The zero Record is that of
// a lock that has none.
type Record struct {
	Fence  uint64 // the last token granted, or higher after an eviction
	Holder string // the attempt that holds exclusively, or the name of its owner
	Named  bool   // Holder is an owner's name, or [Kept]
	Expiry int64  // of its lease, in ms of the server's clock
	Shares []Share
	// Entries are the attempts that hold under the owner's name; beside [Kept] it is the
	// attempt that released the lock.
	Entries []string
	Queue   Queue
	// Heard is the first waiter that a grant has left in the queue although its client
	// subscribes. Only the record after a grant has it.
	Heard Waiter
	Next  int64  // of a job: when the next period begins, in ms; 0 if none is marked
	Run   string // of a job: the attempt that has had the present period
}

// Kept is the holder of a lock that was released, but is locked until a minimum time is
// over.
const Kept = "%kept"

// Queue is a summary of the wait queue; the zero Queue is that of a lock without waiters.
type Queue struct {
	Waiting, Head int64
	Last          Waiter // the waiter that joined last, unless it has left
}

// Waiter is an attempt in the wait queue.
type Waiter struct {
	Position int64
	Attempt  string
}

// Share is one shared holder, or one holder of permits.
type Share struct {
	Attempt string
	Mode    string // s or p
	Expiry  int64  // ms
	Weight  int
	Token   uint64
}

// Parse reads a note as it was published.
func Parse(text string) (Note, error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 6 && len(lines) != 7 { // older histories have no last line
		return Note{}, fmt.Errorf("a note of %d lines: %q", len(lines), text)
	}
	at, err := strconv.ParseInt(lines[0], 10, 64)
	n := Note{At: at, Action: lines[1], Key: lines[2], Caller: lines[3]}
	if err == nil {
		n.Before, err = parseRecord(lines[4])
	}
	if err == nil {
		n.After, err = parseRecord(lines[5])
	}
	if err == nil && len(lines) == 7 {
		err = parseEnd(&n, lines[6])
	}
	if err != nil {
		return n, fmt.Errorf("note %q: %w", text, err)
	}
	return n, nil
}

// parseEnd reads the last line.
func parseEnd(n *Note, text string) (err error) {
	who, rest, _ := strings.Cut(text, " ")
	told, failed, _ := strings.Cut(rest, " ")
	n.Failed = failed
	if who != "-" {
		n.Server = who
	}
	n.Told, err = strconv.Atoi(told)
	return err
}

func parseRecord(text string) (r Record, err error) {
	if text == "-" {
		return r, nil
	}
	fields := strings.Split(text, "\t")
	lock := strings.Fields(fields[0])
	if len(lock) == 0 {
		return r, fmt.Errorf("no field lock in %q", text)
	}
	if r.Fence, err = strconv.ParseUint(lock[0], 10, 64); err != nil {
		return r, err
	}
	if len(lock) > 2 && lock[2] != "-" {
		lease, err := strconv.ParseInt(lock[1], 10, 64)
		if err != nil {
			return r, err
		}
		if r.Fence > math.MaxInt64 {
			return r, fmt.Errorf("%d is not a token", r.Fence)
		}
		r.Holder, r.Named = strings.CutPrefix(lock[2], "@")
		r.Expiry = int64(r.Fence/1000) + lease
	}
	for _, field := range fields[1:] {
		if err := r.parse(strings.Fields(field)); err != nil {
			return r, fmt.Errorf("%q: %w", field, err)
		}
	}
	return r, nil
}

// parse reads a field that is not the lock's.
func (r *Record) parse(words []string) (err error) {
	number := func(word string) (n int64) {
		if err == nil {
			n, err = strconv.ParseInt(word, 10, 64)
		}
		return n
	}
	switch {
	case len(words) == 5 && words[0] == "period":
		r.Next = number(words[1])
		if words[2] != "-" {
			r.Run = words[2]
		}
	case len(words) >= 2 && words[0] == "entries":
		r.Entries = words[1:]
	case len(words) == 5 && words[0] == "queue":
		r.Queue = Queue{number(words[1]), number(words[2]), Waiter{number(words[3]), words[4]}}
	case len(words) == 3 && words[0] == "next":
		r.Heard = Waiter{number(words[1]), words[2]}
	case len(words) >= 6 && strings.HasPrefix(words[0], "h:"):
		r.Shares = append(r.Shares, Share{
			Attempt: words[0][2:], Mode: words[1], Expiry: number(words[2]),
			Weight: int(number(words[3])), Token: uint64(max(number(words[4]), 0)),
		})
	default:
		return fmt.Errorf("unknown field")
	}
	return err
}
