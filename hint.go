// Hint: one sentence on what to do about an error.

package holdfast

import (
	"cmp"
	"errors"
	"net"
	"strings"

	"github.com/holdfast-go/holdfast/internal/request"
)

// Hint returns one sentence that says what to do about err. It is empty if the library
// knows no useful next step.
func Hint(err error) string {
	var lacks *request.PermissionError
	var refused *ServerError
	var dial *net.OpError
	var silent *request.SilenceError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &lacks):
		return permissionHint(lacks)
	case errors.As(err, &refused) && refused.Code == "NOPERM":
		return permissionHint(&request.PermissionError{ServerError: refused})
	case errors.As(err, &refused):
		return hints[refused.Code]
	case errors.Is(err, ErrNotAcked):
		return "see in the primary's INFO replication whether the replicas are connected and in step"
	case errors.Is(err, errReads):
		return "let the reader's lease step up (Lease.Upgrade), or release it first"
	case errors.Is(err, ErrLimit):
		return "give all processes the same limit, or change the one in use with Semaphore.SetLimit"
	case errors.Is(err, ErrPeriod):
		return "give all processes the same period and StartAt, or change those in use with Periodic.Reschedule"
	case errors.Is(err, ErrDeadlock):
		return "do not lock a name again under the context of its own lease; pass the lease on, or make it Reentrant"
	case errors.Is(err, ErrHeldByOther) && !errors.Is(err, ErrNotHeld):
		return "another owner has the lock: wait for it, or ask who it is with Inspect"
	case errors.Is(err, ErrNotHeld), errors.Is(err, ErrLost):
		return "check what the work wrote, and send the lease's token along with writes so that late ones are refused"
	case errors.As(err, &dial) && dial.Op == "dial", errors.Is(err, ErrUnreachable):
		return "check that the server runs and that the address is right"
	case errors.As(err, &silent) && errors.Is(err, ErrHeld):
		return "the server does not answer: check that it runs and that the way to it is open"
	case errors.Is(err, ErrUnknownOutcome):
		return "the server did not answer in time; the lock frees itself within its TTL"
	}
	return ""
}

// hints has one sentence for each error code of the server.
var hints = map[string]string{ //nolint:gosec // it speaks of passwords and has none
	"WRONGTYPE": "the lock's key holds data of another kind; choose another name or prefix " +
		"(the key was left as it is)",
	"NOAUTH":    "the server wants a password: put it into the URL (redis://:PASSWORD@host) or the client's options",
	"WRONGPASS": "user name or password are wrong, or the user is disabled",
	"READONLY":  "this server is a replica: connect to the primary",
	"REPLICA":   "this server is a replica: connect to the primary",
	"MAXCLIENTS": "the server takes no more connections: raise its maxclients, or look for programs that leave " +
		"connections open",
	"OOM": "the server is out of memory: held locks go on, new ones need room " +
		"(maxmemory, maxmemory-policy noeviction)",
	"NOREPLICAS": "too few replicas are connected for the primary to write (min-replicas-to-write): " +
		"see INFO replication",
	"TRYAGAIN":    "a slot is on its way to another node: try again in a moment",
	"LOADING":     "the server is loading its data: try again in a moment",
	"BUSY":        "a script blocks the server: SCRIPT KILL ends it",
	"MISCONF":     "the server cannot write to its disk and refuses writes: see its log",
	"CLUSTERDOWN": "the cluster does not serve all slots: see CLUSTER INFO",
	"MASTERDOWN":  "the replica has lost its primary: connect to the primary",
	"TLS": "let the client trust the server's certificate (RootCAs) and use an address that is named in it, " +
		"and give it the certificate that the server asks for; a server without TLS wants none",
	"FORMAT":  "another program uses a newer Holdfast here: update this one",
	"WAITAOF": "WaitAOF needs Redis 7.2 or Valkey 7.2, or later, with appendonly yes",
	"CLIENT":  "make the store of a client for this kind of server",
	"VERSION": "Holdfast needs Redis 7.0 or Valkey 7.2, or later",
}

// permissionHint names the permissions that the server's user is missing.
func permissionHint(e *request.PermissionError) string {
	prefix := cmp.Or(e.Prefix, defaultPrefix)
	what := "the commands +evalsha +eval +time +hget +hset +hdel +hmget +hgetall +pexpire +pttl " +
		"+pubsub|numsub +publish +subscribe"
	switch {
	case len(e.Lacking) > 0:
		what = request.Grants(e.Lacking, prefix)
	case strings.Contains(e.Message, "channel"):
		what = "the channels &" + prefix + ":*"
	case strings.Contains(e.Message, "keys"), strings.Contains(e.Message, "a key"),
		strings.Contains(e.Message, "' key"):
		what = "the keys ~" + prefix + ":*"
	}
	return "give the server's user " + what + " (ACL SETUSER)"
}
