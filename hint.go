package holdfast

import (
	"errors"
	"net"
	"strings"
)

// Hint says what to do about err, in one sentence; it is empty when nothing
// helpful is known.
func Hint(err error) string {
	var refused *ServerError
	var dial *net.OpError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &refused):
		return refused.hint()
	case errors.Is(err, ErrNotAcked):
		return "see in the primary's INFO replication whether the replicas are connected and in step"
	case errors.Is(err, errReads):
		return "let the reader's lease step up (Lease.StepUp), or release it first"
	case errors.Is(err, ErrLimit):
		return "give all processes the same limit, or change the one in use with Semaphore.SetLimit"
	case errors.Is(err, ErrDeadlock):
		return "do not lock a name again under the context of its own lease; pass the lease on instead"
	case errors.Is(err, ErrNotHeld), errors.Is(err, ErrLost):
		return "check what the work wrote, and send the lease's token along with writes so that late ones are refused"
	case errors.As(err, &dial) && dial.Op == "dial":
		return "check that the server runs and that the address is right"
	case errors.Is(err, ErrUnknownOutcome):
		return "the server did not answer in time; the lock frees itself within its TTL"
	}
	return ""
}

// hints says what to do about the server's code words.
var hints = map[string]string{ //nolint:gosec // it speaks of passwords and has none
	"WRONGTYPE": "the lock's key holds data of another kind; choose another name or prefix " +
		"(the key was left as it is)",
	"NOAUTH":    "the server wants a password: put it into the URL (redis://:PASSWORD@host) or the client's options",
	"WRONGPASS": "user name or password are wrong, or the user is disabled",
	"READONLY":  "this server is a replica: connect to the primary",
	"REPLICA":   "this server is a replica: connect to the primary",
	"OOM": "the server is out of memory: held locks go on, new ones need room " +
		"(maxmemory, maxmemory-policy noeviction)",
	"LOADING":     "the server is loading its data: try again in a moment",
	"BUSY":        "a script blocks the server: SCRIPT KILL ends it",
	"MISCONF":     "the server cannot write to its disk and refuses writes: see its log",
	"CLUSTERDOWN": "the cluster does not serve all slots: see CLUSTER INFO",
	"MASTERDOWN":  "the replica has lost its primary: connect to the primary",
	"FORMAT":      "another program uses a newer Holdfast here: update this one",
	"WAITAOF":     "Durable needs Redis 7.2 or Valkey 7.2, or later, with appendonly yes",
	"CLIENT":      "make the store of a client for this kind of server",
	"VERSION":     "Holdfast needs Redis 7.0 or Valkey 7.2, or later",
}

func (e *ServerError) hint() string {
	if e.Code == "NOPERM" {
		what := "the commands +evalsha +eval +time +hello +hget +hset +hdel +hmget +hgetall +hexists +pexpire +pttl " +
			"+publish +subscribe"
		switch {
		case strings.Contains(e.Message, "channel"):
			what = "the channels, for example &holdfast:*"
		case strings.Contains(e.Message, "keys"), strings.Contains(e.Message, "a key"),
			strings.Contains(e.Message, "' key"):
			what = "the keys, for example ~holdfast:*"
		}
		return "give the server's user " + what + " (ACL SETUSER)"
	}
	return hints[e.Code]
}
