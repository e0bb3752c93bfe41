// Hint: what to do about an error, in one sentence.

package holdfast

import (
	"cmp"
	"errors"
	"net"
	"strings"

	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Hint returns one sentence that says what to do about err. It is empty if the library
// knows no useful next step.
func Hint(err error) string {
	var lacks *request.PermissionError
	var refused *ServerError
	var dial *net.OpError
	var silent *request.SilenceError
	var cycle *DeadlockError
	var stopped *endedError
	var part *lostPartError
	var held *HeldError
	var lost *LostError
	var advice interface{ Hint() string } // a store may know what to do, or the error itself
	switch {
	case errors.As(err, &stopped) && Hint(stopped.last) != "":
		return Hint(stopped.last)
	case errors.As(err, &lacks):
		return permissionHint(lacks)
	case errors.As(err, &refused) && refused.Code == "NOPERM":
		return permissionHint(&request.PermissionError{Err: refused})
	case errors.As(err, &refused):
		return refusalHint(refused)
	case errors.Is(err, ErrNotAcked):
		return "run INFO replication on the primary: the replicas must be connected and up to date"
	case errors.Is(err, errOthersRead):
		return "release the lease and call Lock"
	case errors.Is(err, errReads):
		return "upgrade the reader's lease with Lease.Upgrade, or release it first"
	case errors.Is(err, ErrLimit):
		return "use the same limit in all processes, change it with Semaphore.SetLimit, " +
			"or take the server's with ServerLimit"
	case errors.Is(err, ErrPeriod):
		return "use the same period and StartAt in all processes, or change them with Periodic.Reschedule"
	case errors.As(err, &cycle):
		return "release the leases that you hold and try again; acquire the locks in the same order everywhere"
	case errors.Is(err, ErrDeadlock):
		if errors.As(err, new(reenterableError)) {
			return ownLease + ", or use Reentrant" + ownContext
		}
		return ownLease + ownContext
	case errors.As(err, &part):
		return "nothing has run under the locks: try again"
	case errors.Is(err, errLate):
		return "try again; if it happens often, use a longer TTL"
	case errors.Is(err, ErrClosed):
		return "the program has closed this client: make another client"
	case errors.Is(err, ErrNotHeld) && errors.Is(err, ErrReleased):
		return "the program has released this lease: acquire the lock again"
	case errors.As(err, &lost):
		return hintOfLoss(lost)
	case errors.Is(err, ErrNotHeld), errors.Is(err, ErrLost):
		return hintOfEnd(err)
	case errors.As(err, &advice):
		return advice.Hint()
	case err != nil && strings.Contains(err.Error(), "connection pool"): // go-redis: its pool is full
		return "all connections of the client library's pool are in use: raise its PoolSize, or find what keeps them"
	case errors.As(err, &dial) && dial.Op == "dial", errors.Is(err, ErrUnreachable):
		return "check that the server is running and that the address is right"
	case errors.As(err, &silent) && !errors.Is(err, ErrUnknownOutcome):
		return noAnswerHint
	case errors.Is(err, wire.ErrAnswer):
		return "update this program if others use a newer Holdfast; otherwise find out what else writes to the key"
	case errors.Is(err, ErrUnknownOutcome):
		return unknownHint(err)
	case errors.As(err, &held) && held.Err != nil: // a broken connection, or a timeout of the client library
		return noAnswerHint
	case errors.Is(err, ErrHeld):
		return heldHint
	}
	return ""
}

// hintOfEnd is the hint for a lease that has ended, or whose token was checked after its end.
func hintOfEnd(err error) string {
	if errors.As(err, new(*NotHeldError)) {
		return "refuse what came with this token: its sender must acquire the lock again"
	}
	return lostHint
}

// heldHint is the hint for a lock that is held, and for a wait that ended meanwhile.
const heldHint = "wait longer, or skip this run (TryDo); holdfast status or Client.Inspect shows the holder"

// noAnswerHint is the hint for a call that could not ask the server.
const noAnswerHint = "check that the server is running and that requests can reach it over the network"

// lostHint is the hint for a lease that was lost.
const lostHint = "check what your code wrote after the loss; " +
	"if each write carries the token, the resource can refuse late writes"

// hintOfLoss is the hint for a lost lease whose loss is known.
func hintOfLoss(lost *LostError) string {
	switch {
	case lost.Reason == LossEvicted:
		return "find out why before this work runs again: holdfast inspect or Client.Inspect shows who evicted it; " +
			"after an eviction at once, check what your code wrote"
	case lost.Err != nil && Hint(lost.Err) != "":
		return Hint(lost.Err) + "; then " + lostHint
	}
	return lostHint
}

// ownLease is the hint for a call under the context of a lease of its own lock.
const ownLease = "do not acquire a lock under the context of its own lease: hand the lease to the code that needs it"

// ownContext is the rest of that hint. A goroutine that only waits until the lease is released is in no deadlock, but
// its context looks like the lease holder's.
const ownContext = "; a goroutine that goes on without the lease needs a context that is not made from it"

// hints has one sentence for each error code of the server.
var hints = map[string]string{
	"WRONGTYPE": "choose another name or prefix: the lock's key holds data that is not a lock",
	"NOAUTH":    "the server needs a password: put it into the URL (redis://:PASSWORD@host) or the client's options",
	"WRONGPASS": "check the user name and the password; the user may also be disabled",
	"READONLY":  "this server is a replica: connect to the primary",
	"REPLICA":   "this server is a replica: connect to the primary",
	"MAXCLIENTS": "the server accepts no more connections: raise its maxclients, or find programs that leave " +
		"connections open",
	"DENIED": "the server is in protected mode, because its default user needs no password: set one, or reach the " +
		"server from its own machine",
	"OOM": "free memory on the server or raise maxmemory, and keep maxmemory-policy noeviction; " +
		"locks that are held stay held",
	"NOREPLICAS": "too few replicas are connected for the primary to accept writes (min-replicas-to-write): " +
		"see INFO replication",
	"TRYAGAIN":    "a slot is moving to another node: try again in a moment",
	"LOADING":     "the server is loading its data: try again in a moment",
	"BUSY":        "a script is blocking the server: SCRIPT KILL ends it, if it has not written yet",
	"MISCONF":     "the server cannot write to its disk and refuses writes: see the server's log",
	"MOVED":       "this server is a node of a Cluster: build the store from your client library's Cluster client",
	"CLUSTERDOWN": "the cluster does not serve all slots: see CLUSTER INFO",
	"MASTERDOWN":  "the replica has lost its primary: connect to the primary",
	"TLS":         "check the client's TLS settings: RootCAs, the address in the certificate, the client certificate",
	"FORMAT":      "another program uses a newer Holdfast on this server: update this program",
	"WAITAOF":     "WaitAOF needs Redis 7.2 or Valkey 7.2, or later, with appendonly yes",
	"UNSUPPORTED": "leave out the option or the call; docs/moving/sharing.md and docs/quorum.md say what works",
	"NAME":        "choose another name for the lock",
	"VERSION":     "Holdfast needs Redis 7.0 or Valkey 7.2, or later",
}

// Hints for servers that do not run our scripts.
const (
	forbiddenHint = "Holdfast needs EVALSHA and EVAL: remove rename-command for them from the server's " +
		"configuration, or find out which proxy refuses them"
	proxyHint = "neither Redis nor Valkey is known to answer that: find out what answers in front of the server, " +
		"and why; the request may have run"
	unreadableHint = "Holdfast needs Redis 7.0 or Valkey 7.2, or later; in tests, use memstore in place of miniredis"
)

// hintsOfTexts has one sentence for each text that follows the code ERR or FORMAT.
var hintsOfTexts = map[string]string{
	"unknown command 'eval":  forbiddenHint,
	"unknown command `eval":  forbiddenHint,
	"unknown command 'EVAL":  forbiddenHint,
	"unknown command `EVAL":  forbiddenHint,
	"Error compiling script": unreadableHint,
	"is damaged: ": "find out which program wrote to the lock's key (ACL); " +
		"holdfast evict --force, or Eviction.Force, removes the record; of a job, with --job, or Eviction.Job",
	"DB index is out of range": "there is no such database on the server: choose a lower number, or none",
	"SELECT is not allowed in cluster mode": "this Cluster has no database but 0: " +
		"leave the number out; a Cluster of Valkey 9 can have more (cluster-databases)",
	"This instance has cluster support disabled": "the server is not in a Cluster: make the store from your client " +
		"library's client for a single server or for Sentinel",
}

// refusalHint says what to do about a refusal.
func refusalHint(refused *ServerError) string {
	if refused.MayHaveRun {
		return proxyHint
	}
	for text, hint := range hintsOfTexts {
		if (refused.Code == "ERR" || refused.Code == "FORMAT") && strings.Contains(refused.Message, text) {
			return hint
		}
	}
	return hints[refused.Code]
}

// unknownHint says what holds after an unknown outcome. Only an acquisition and a release free
// the lock: after others, the lease goes on.
func unknownHint(err error) string {
	var unknown *requestError
	if errors.As(err, &unknown) && unknown.what != "lock" && unknown.what != releaseText {
		return "check that the server answers"
	}
	return "check that the server answers; the lock is free again within its TTL"
}

// permissionHint names the permissions that the server's user is missing.
func permissionHint(e *request.PermissionError) string {
	var advice interface{ Hint() string } // of a store that has other keys than the library
	if errors.As(e.Err, &advice) {
		return advice.Hint()
	}
	prefix, said := cmp.Or(e.Prefix, defaultPrefix), request.Refusal(e).Message
	what := "the commands +evalsha +eval +time +hget +hset +hdel +hmget +hgetall +hscan +pexpire +pttl " +
		"+pubsub|numsub +publish +subscribe, in a Cluster also +pubsub|shardnumsub +spublish +ssubscribe"
	switch {
	case len(e.Lacking) > 0:
		what = request.Grants(e.Lacking, prefix)
	case strings.Contains(said, "channel"):
		what = "the channels &" + prefix + ":*"
	case strings.Contains(said, "keys"), strings.Contains(said, "a key"), strings.Contains(said, "' key"):
		what = "the keys ~" + prefix + ":*"
	}
	return "give the server's user " + what + " (ACL SETUSER)"
}
