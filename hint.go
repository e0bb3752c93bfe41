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
		return "check in the primary's INFO replication that the replicas are connected and up to date"
	case errors.Is(err, errOthersRead):
		return "release the lease and call Lock"
	case errors.Is(err, errReads):
		return "upgrade the reader's lease with Lease.Upgrade, or release it first"
	case errors.Is(err, ErrLimit):
		return "use the same limit in all processes, or change it with Semaphore.SetLimit"
	case errors.Is(err, ErrPeriod):
		return "use the same period and StartAt in all processes, or change them with Periodic.Reschedule"
	case errors.Is(err, ErrDeadlock):
		return "do not acquire a lock under the context of its own lease: pass the lease on, or use Reentrant"
	case errors.Is(err, ErrHeldByOther) && !errors.Is(err, ErrNotHeld):
		return "wait for the lock, or look up its holder with Inspect"
	case errors.Is(err, ErrNotHeld), errors.Is(err, ErrLost):
		return "check what the work wrote, and send the token with each write so that late writes are refused"
	case errors.As(err, &dial) && dial.Op == "dial", errors.Is(err, ErrUnreachable):
		return "check that the server runs and that the address is right"
	case errors.As(err, &silent) && errors.Is(err, ErrHeld):
		return "check that the server runs and that the network lets requests through to it"
	case errors.Is(err, ErrUnknownOutcome):
		return "check that the server answers; the lock is free again within its TTL"
	}
	return ""
}

// hints has one sentence for each error code of the server.
var hints = map[string]string{
	"WRONGTYPE": "the lock's key holds data of another kind; choose another name or prefix " +
		"(the key was left as it is)",
	"NOAUTH":    "the server needs a password: put it into the URL (redis://:PASSWORD@host) or the client's options",
	"WRONGPASS": "the user name or the password is wrong, or the user is disabled",
	"READONLY":  "this server is a replica: connect to the primary",
	"REPLICA":   "this server is a replica: connect to the primary",
	"MAXCLIENTS": "the server accepts no more connections: raise its maxclients, or find programs that leave " +
		"connections open",
	"OOM": "the server is out of memory: held locks continue, new ones need memory " +
		"(maxmemory, maxmemory-policy noeviction)",
	"NOREPLICAS": "too few replicas are connected for the primary to write (min-replicas-to-write): " +
		"see INFO replication",
	"TRYAGAIN":    "a slot is moving to another node: try again in a moment",
	"LOADING":     "the server is loading its data: try again in a moment",
	"BUSY":        "a script blocks the server: SCRIPT KILL ends it",
	"MISCONF":     "the server cannot write to its disk and refuses writes: see its log",
	"CLUSTERDOWN": "the cluster does not serve all slots: see CLUSTER INFO",
	"MASTERDOWN":  "the replica has lost its primary: connect to the primary",
	"TLS": "trust the server's certificate in the client (RootCAs), use an address that it names, and configure " +
		"a client certificate if the server asks for one; leave TLS out if the server has none",
	"FORMAT":  "another program uses a newer Holdfast here: update this one",
	"WAITAOF": "WaitAOF needs Redis 7.2 or Valkey 7.2, or later, with appendonly yes",
	"CLIENT":  "create the store from a client for this kind of server",
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
