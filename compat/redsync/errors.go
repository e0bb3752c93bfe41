package redsync

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/stringlock"
)

// The errors to compare with. Their texts are those of redsync.
var (
	// ErrFailed says that all tries have failed, or that the context ended between two tries.
	ErrFailed = errors.New("redsync: failed to acquire lock")
	// ErrExtendFailed says that the answer to an extension came after the new expiry.
	ErrExtendFailed = errors.New("redsync: failed to extend lock")
	// ErrLockAlreadyExpired says that the lock to unlock was not there any more.
	ErrLockAlreadyExpired = errors.New("redsync: failed to unlock, lock was already expired")
	// ErrUnlocked is the cause of [Mutex.Context] after an Unlock.
	ErrUnlocked = errors.New("redsync: unlocked")
	// ErrClosed is the cause of [Mutex.Context] after [Redsync.Close].
	ErrClosed = errors.New("redsync: closed")
)

// ErrTaken says that others have the lock on a majority of the servers.
type ErrTaken struct { //nolint:errname // the name of the original
	Nodes []int // the servers on which others have it
}

func (err ErrTaken) Error() string {
	return fmt.Sprintf("lock already taken, locked nodes: %v", err.Nodes)
}

// ErrNodeTaken says that others have the lock on one server.
type ErrNodeTaken struct { //nolint:errname // the name of the original
	Node int
}

func (err ErrNodeTaken) Error() string {
	return fmt.Sprintf("node #%d: lock already taken", err.Node)
}

// RedisError is the error of a request to one server.
type RedisError struct {
	Node int
	Err  error
}

func (e RedisError) Error() string { return fmt.Sprintf("node #%d: %s", e.Node, e.Err) }

// Unwrap returns the error of the store.
func (e RedisError) Unwrap() error { return e.Err }

// verdict counts the servers on which a request succeeded. The error says what the others said.
// missing makes the error of a server that has no such key; nil: that counts as taken.
func verdict(replies []stringlock.Reply, quorum int, missing error) (count int, err error) {
	var taken []int
	var all []error
	for _, r := range replies {
		switch {
		case r.Silent(): // the wait ended early
		case r.Err != nil:
			all = append(all, &RedisError{Node: r.Node, Err: r.Err})
		case r.Answer == stringlock.Held:
			count++
		case r.Answer == stringlock.Expired && missing != nil:
			all = append(all, missing)
		default:
			taken = append(taken, r.Node)
			all = append(all, &ErrNodeTaken{Node: r.Node})
		}
	}
	if len(taken) >= quorum {
		return count, &ErrTaken{Nodes: taken}
	}
	return count, errors.Join(all...)
}
