package store

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/script"
)

// Store runs scripts on a server and subscribes to its channels. Many goroutines
// use a Store at the same time.
type Store interface {
	// Run runs one script in a single atomic step on the server that owns
	// keys, and returns its answer: a line of space-separated words, as the
	// script's header lists them.
	//
	// Run returns promptly when ctx ends, even while the server is silent.
	// ctx may have a deadline that its Done channel knows nothing of, and that
	// channel may be nil: most requests are bounded in time and cannot be
	// cancelled, and a store that bounds its sockets needs neither timer nor
	// goroutine for those.
	// If the error is a [*ServerError], the server refused and the script
	// changed nothing. If it is [ErrNotSent], no byte was sent. After any
	// other error the outcome is unknown: the script may have run, may run
	// later, or may never run. Run may send a script more than once (a lost
	// script cache, a client's own retry): every script tolerates that.
	//
	// All keys of one call have the same [Store.Group]. A store that unites
	// several servers may answer ? for a lease of which too few of them have
	// told anything, where others of the same renewal are decided.
	Run(ctx context.Context, s *script.Script, keys, args []string) (string, error)

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

// Batcher is a Store that can take the requests of several locks as one
// ([script.AcquireFree], [script.ReleaseIdle]), when many goroutines send them at
// the same time.
type Batcher interface {
	Store
	// Batches reports whether that pays: all keys are on one server.
	Batches() bool
}

// IdleCloser is a Store that has connections or timers of its own, beside those of
// the client that it was made with.
type IdleCloser interface {
	Store
	// CloseIdleConnections ends those that nothing uses. A client that closes
	// calls it; a request that needs one later makes a new one.
	CloseIdleConnections()
}

// Simulated is a Store with a time, or randomness, of its own, such as a fake in
// virtual time. A client takes them in place of the real ones.
type Simulated interface {
	Store
	// Clock returns a monotonic clock that the leases live by. nil: the real one.
	Clock() func() time.Duration
	// Random returns a source of numbers in [0, 1), which spread the client's
	// polls. nil: the real one.
	Random() func() float64
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
