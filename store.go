package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/script"
)

// Store is the seam between the library and a server: what a connection to
// one Redis, a Cluster or a fake must be able to do. The adapters under
// store/ and the memstore package implement it; store/storetest holds the
// suite that each of them passes. Users choose a store and hand it to [New];
// they do not call it.
//
// A Store is used by many goroutines at once.
type Store interface {
	// Run executes one action in a single atomic step on the server that
	// owns keys, and returns its answer, a line of space-separated words
	// as the script's header lists them.
	//
	// Run returns promptly when ctx ends, even while the server is silent.
	// ctx may have a deadline that its Done channel knows nothing of, and that
	// channel may be nil: most requests are bounded in time and cannot be
	// cancelled, and a store that bounds its sockets needs neither timer nor
	// goroutine for those.
	// An error that is a [*ServerError] is a definite answer: the server
	// refused, and the action changed nothing. After any other error the
	// outcome is unknown: the action may have run, may yet run, or may
	// never run. Run may send an action more than once (a lost script
	// cache, a client's own retry): every action tolerates that.
	//
	// All keys of one call have the same [Store.Group]. A store that unites
	// several servers may answer ? for a lease of which too few of them have
	// told anything, where others of the same renewal are decided.
	Run(ctx context.Context, action *script.Script, keys, args []string) (string, error)

	// Listen subscribes to channel and returns once the server has
	// confirmed the subscription: a message published after that is
	// delivered, or Resumed is called. When the connection is lost the
	// store subscribes again by itself, without limit, and calls Resumed
	// after each confirmation, since messages may have been missed.
	//
	// The functions of l are called one at a time and must not block.
	// ctx bounds only the wait for the confirmation. On error nothing is
	// subscribed. stop ends the subscription, waits until no function of
	// l runs any more, and may be called more than once.
	Listen(ctx context.Context, channel string, l Listener) (stop func(), err error)

	// Group names the set of keys that key may share one Run with: on one
	// server every key has the same group; in a Cluster a slot is a group.
	Group(key string) string

	// Sharded reports whether pushes travel over sharded pub/sub, so that
	// a channel lives in the slot of the lock that it speaks of.
	Sharded() bool

	// Server says what answers at the other end. Its errors are those of Run.
	Server(ctx context.Context) (ServerInfo, error)
}

// Gatherer is a Store that may be asked to do the same thing to several locks
// in one request ([script.AcquireFree], [script.ReleaseIdle]), where many
// goroutines want it at one time.
type Gatherer interface {
	Store
	// Gathers reports whether that pays: all keys are on one server.
	Gathers() bool
}

// IdleCloser is a Store that has connections or timers of its own, beside those of
// the client that it was made with.
type IdleCloser interface {
	Store
	// CloseIdleConnections ends those that nothing uses. A [Client] that closes
	// calls it; a request that needs one later makes a new one.
	CloseIdleConnections()
}

// Listener receives what arrives on a subscription.
type Listener struct {
	// Message is given the payload of each message.
	Message func(payload string)
	// Resumed is told that the subscription stands again after a break,
	// in which messages may have been lost.
	Resumed func()
}

// ServerInfo describes a server, as HELLO answers it. Fields that the server
// does not tell are empty.
type ServerInfo struct {
	Product string // "redis", "valkey", or what the server calls itself
	Version string // "7.0.15"
	Role    string // "master" or "replica"
	Mode    string // "standalone", "sentinel" or "cluster"
	Address string // where it was reached, without credentials
}
