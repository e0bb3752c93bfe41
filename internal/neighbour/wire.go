package neighbour

import (
	"context"
	"crypto/sha1" // EVALSHA addresses scripts by SHA-1; nothing here relies on it for security.
	"encoding/hex"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/script"
)

// Wire is one kind of lock of a neighbour, as its own clients write it. Many goroutines use a
// Wire at the same time.
type Wire interface {
	// Traits says what the wire can do. The answer never changes.
	Traits() Traits

	// Key returns the neighbour's key of a lock. The error says what is wrong with the name.
	Key(name string) (key string, err error)

	// Channel is where the neighbour tells a waiter that it should try again; empty: nowhere.
	// For a caller that only watches the lock, the attempt has no ID.
	Channel(a Attempt) string

	// Acquire takes the lock for the attempt, or says why not. With wait, the attempt also joins
	// the neighbour's wait queue, if there is one, or keeps its position there.
	Acquire(ctx context.Context, a Attempt, wait bool) (Outcome, error)

	// Release gives the attempt's hold up. held is false if the attempt holds nothing.
	Release(ctx context.Context, a Attempt) (held bool, err error)

	// Renew extends holds, each to its TTL from now on. All keys are of one group. It returns one
	// answer for each.
	Renew(ctx context.Context, holds []Attempt) ([]Renewal, error)

	// Cancel ends an acquisition: it releases what the attempt holds, and takes it out of the
	// queue. found is false if there was neither.
	Cancel(ctx context.Context, a Attempt) (found bool, err error)

	// Keep makes the attempt's hold end so long from now, sooner or later than before.
	Keep(ctx context.Context, a Attempt, left time.Duration) (held bool, err error)

	// Inspect reads the lock and changes nothing.
	Inspect(ctx context.Context, name string) (State, error)

	// Evict ends the holds of the lock, or only the one with the token, if that is not 0. It
	// returns how many have ended.
	Evict(ctx context.Context, name string, token uint64) (ended int, err error)
}

// Traits say what a wire can do.
type Traits struct {
	// Neighbour names the kind of lock, for errors: "Redisson's RLock".
	Neighbour string
	// Modes are the modes that the wire carries.
	Modes []Mode
	// Hint says what to use instead of a mode or an action that is refused.
	Hint string
	// PollEvery bounds the time between two looks of a waiter, besides the remaining time of the
	// holder. A wire without messages sets it. 0: no further bound.
	PollEvery time.Duration
	// Commands are what the scripts run, each with its first arguments. KEY stands for the
	// lock's key, and CHANNEL for its channel.
	Commands []string
}

// Mode is how an attempt wants the lock.
type Mode uint8

// The modes.
const (
	Exclusive Mode = iota + 1
	Shared
	Permits
)

func (m Mode) String() string {
	return [...]string{"unknown", "exclusive", "shared", "permits"}[m]
}

// Attempt is one acquisition, and the hold that it may have.
type Attempt struct {
	Name   string        // of the lock, as its user writes it
	ID     string        // CLIENT/NUMBER, never used for another acquisition
	Mode   Mode          // 0: not known here, because another process or store acquired it
	Count  int           // the permits that it wants; 1 for other modes
	Limit  int           // the permits that there are, as the caller sees it; 0 for other modes
	TTL    time.Duration // in whole milliseconds
	Record time.Duration // how long what is kept about the attempt outlives its last renewal
	Late   bool          // a request to acquire got no answer, and may still arrive: for Release and Cancel
}

// Client is the part of the ID that names the client.
func (a Attempt) Client() string {
	client, _, _ := strings.Cut(a.ID, "/")
	return client
}

// Number is the part of the ID that the client counts.
func (a Attempt) Number() string {
	_, number, _ := strings.Cut(a.ID, "/")
	return number
}

// Outcome is the answer to Acquire.
type Outcome struct {
	Granted bool
	Token   uint64 // of a grant; 0: the neighbour has no fencing tokens
	Waiting int    // how many others wait, as far as the wire can tell

	// If the lock is not granted:

	Left   time.Duration // until the present holders may have expired; Unknown: nobody can tell
	Holder string        // the exclusive holder, if it is known
	Gone   bool          // the attempt has left, so this request is a late one
	Limit  int           // not 0: the limit in force, which is not the attempt's
	Place  int           // the position in the neighbour's queue; 0: it has none
}

// Unknown is a time that nobody can tell, such as that of a key without a TTL.
const Unknown time.Duration = -1

// Left reads a remaining time as Redis tells it, in milliseconds. A key without a TTL never expires by itself. What
// lasts for centuries lasts for one here, as in the library's own answers.
func Left(ms float64) time.Duration {
	if ms < 0 {
		return Unknown
	}
	return time.Duration(min(ms, float64(maxMillis))) * time.Millisecond
}

// Renewal is the answer to Renew for one hold.
type Renewal uint8

// The answers to Renew.
const (
	Gone    Renewal = iota // the attempt does not hold the lock
	Renewed                // it holds the lock for its TTL from now on
	Unsure                 // too few servers have answered for this one
)

// State is what is known of a lock.
type State struct {
	Absent  bool // there is no key
	Fence   uint64
	Waiting int
	Limit   int
	Holders []Holder
	Waiters []Waiter
}

// Holder is one holder.
type Holder struct {
	ID      string // the attempt, or what the neighbour calls its holder
	Mode    Mode
	Permits int
	Entries int
	Token   uint64
	Left    time.Duration
}

// Waiter is one waiter in the neighbour's queue.
type Waiter struct {
	ID   string
	Mode Mode
	Left time.Duration // until its position ends
}

// Verdict says whether a store may send a script again after a connection broke, see
// [script.Script]. On a wire only a script that cannot write is repeated: what a late copy of
// another one does depends on what the neighbour's own clients have done meanwhile.
type Verdict bool

// The verdicts.
const (
	Repeats Verdict = true
	Once    Verdict = false
)

// NewScript makes a script of a wire. Its answer must be a string. The name says which action
// it is part of: no other request delays a "renew".
func NewScript(name string, verdict Verdict, text string) *script.Script {
	text = strings.TrimSpace(text) + "\n"
	if declared, _, _ := strings.Cut(text, "\n"); verdict == Repeats && declared != "#!lua flags=no-writes" {
		panic("BUG: the script " + name + " may write, and so must not be repeated")
	}
	sum := sha1.Sum([]byte(text))
	return &script.Script{Name: name, Text: text, SHA1: hex.EncodeToString(sum[:]), Repeats: bool(verdict)}
}
