package redisson

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/neighbour"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Kind is one of Redisson's kinds of locks.
type Kind uint8

// The kinds. A store is for one of them, because Redisson's keys do not say of which kind they
// are. Java's locks of one name must be of the same kind, too.
const (
	Lock      Kind = iota // RLock, of getLock: a Mutex
	Fair                  // RFairLock, of getFairLock: a Mutex whose waiters get it in order of arrival
	Fenced                // RFencedLock, of getFencedLock: a Mutex whose leases have Redisson's tokens
	ReadWrite             // RReadWriteLock, of getReadWriteLock: an RWMutex, and a Mutex that is its writer
	Semaphore             // RSemaphore, of getSemaphore: a Semaphore
)

func (k Kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k].name
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// kinds has the Java names, and the wires.
var kinds = []struct {
	name string
	wire func(*base) neighbour.Wire
}{
	Lock:      {"RLock", func(b *base) neighbour.Wire { return &lock{b} }},
	Fair:      {"RFairLock", func(b *base) neighbour.Wire { return &fair{lock{b}} }},
	Fenced:    {"RFencedLock", func(b *base) neighbour.Wire { return &fenced{lock{b}} }},
	ReadWrite: {"RReadWriteLock", func(b *base) neighbour.Wire { return &readWrite{b} }},
	Semaphore: {"RSemaphore", func(b *base) neighbour.Wire { return &semaphore{b} }},
}

// Sharded says whether messages use sharded pub/sub. It must be the same as in the Java
// programs, or neither side hears the other's releases; then waiters wait for the remaining
// time of the lease. It matters in a Cluster only.
type Sharded uint8

// The settings, as Redisson's shardedSubscriptionMode has them.
const (
	Auto Sharded = iota // as Redisson since 3.22: in a Cluster, if the server has sharded pub/sub
	On                  // always in a Cluster
	Off                 // never, as Redisson before 3.22; goredis can, and on rueidis waiters poll
)

// Config configures a store. The zero value fits a Java program with Redisson's defaults.
type Config struct {
	// Kind is the kind of lock that the client's locks are. Default: [Lock].
	Kind Kind

	// NameMapper turns the name of a lock into its key, as the Java program's NameMapper does.
	// Default: the name is the key.
	NameMapper func(name string) string

	// FairWait is for how long a waiter of a [Fair] lock counts as alive: the Java program's
	// fairLockWaitTimeout, which must be the same everywhere. Default: 5 min.
	FairWait time.Duration

	// Sharded is the Java program's shardedSubscriptionMode. Default: [Auto].
	Sharded Sharded
}

// ErrUnsupported says that Redisson's format cannot carry the option or the call. Nothing was
// sent.
var ErrUnsupported = neighbour.ErrUnsupported

// New returns a store whose locks are those of Redisson on the same server or Cluster. It does
// no I/O. s is an ordinary store, such as one of goredis.New; it must use the database of the
// Java program.
func New(s store.Store, cfg Config) store.Store {
	if int(cfg.Kind) >= len(kinds) {
		cfg.Kind = Lock
	}
	if cfg.FairWait < time.Millisecond {
		cfg.FairWait = 5 * time.Minute
	}
	b := &base{Store: s, cfg: cfg}
	return neighbour.New(b, kinds[cfg.Kind].wire(b))
}

// base has what the wires share.
type base struct {
	store.Store
	cfg   Config
	probe atomic.Int32 // how messages are published: see verb
}

// Key returns the key of a lock: the name, as the NameMapper maps it.
//
// Redisson takes a name with a brace for one that has a hash tag. For some names Redis finds
// another tag, or none. A lock and its channel would then be on different nodes of a Cluster.
func (b *base) Key(name string) (string, error) {
	key := name
	if b.cfg.NameMapper != nil {
		key = b.cfg.NameMapper(name)
	}
	if key == "" {
		return "", errors.New("the NameMapper returns an empty key")
	}
	if tag(key) != tag(prefixed("p", key)) {
		return "", errors.New("the hash tags that Redisson and Redis find in it differ: " +
			"use no braces, or one pair with text in it")
	}
	return key, nil
}

// key is Key for a name that is known to be good.
func (b *base) key(name string) string {
	key, err := b.Key(name)
	if err != nil {
		return name
	}
	return key
}

// prefixed is Redisson's prefixName.
func prefixed(prefix, key string) string {
	if strings.Contains(key, "{") {
		return prefix + ":" + key
	}
	return prefix + ":{" + key + "}"
}

// suffixed is Redisson's suffixName.
func suffixed(key, suffix string) string {
	if strings.Contains(key, "{") {
		return key + ":" + suffix
	}
	return "{" + key + "}:" + suffix
}

// tag is the part of a key that decides its slot.
func tag(key string) string {
	_, rest, open := strings.Cut(key, "{")
	inside, _, closed := strings.Cut(rest, "}")
	if !open || !closed || inside == "" {
		return key
	}
	return inside
}

// holder is the field of an attempt in Redisson's hashes. Java has the UUID of its process and
// the number of a thread there. Here the UUID has the bytes of the client's ID, and the number
// is that of the attempt. So each acquisition has a field of its own, and a request that is
// sent twice counts once.
func holder(a neighbour.Attempt) (string, error) {
	id, err := base64.RawURLEncoding.DecodeString(a.Client())
	if err != nil || len(id) != 16 {
		return "", &store.ServerError{
			Code: "ERR", Message: fmt.Sprintf("ERR the attempt %q does not belong to a client of this library", a.ID),
		}
	}
	x := hex.EncodeToString(id)
	return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:] + ":" + a.Number(), nil
}

// attemptOf reads a holder. A holder of Java remains as it is: its UUID is of version 4, which the ID of a
// client never is.
func attemptOf(field string) string {
	uuid, number, _ := strings.Cut(field, ":")
	id, err := hex.DecodeString(strings.ReplaceAll(uuid, "-", ""))
	if err != nil || len(id) != 16 || id[6]>>4 == 4 && id[8]>>6 == 2 {
		return field
	}
	return base64.RawURLEncoding.EncodeToString(id) + "/" + number
}

// latch is the key under which a release is remembered, as Redisson has it: if the request
// comes again, it finds its own result there.
func latch(key string, a neighbour.Attempt) string {
	sum := sha256.Sum256([]byte(a.ID))
	return prefixed(latchPrefix, key) + ":" + hex.EncodeToString(sum[:16])
}

// How messages are published.
const (
	unprobed = iota
	plain
	sharded
)

// probeScript asks for sharded pub/sub as Redisson does when it starts.
var probeScript = neighbour.NewScript("probe", neighbour.Repeats, `#!lua flags=no-writes
local answer = redis.pcall('PUBSUB', 'SHARDNUMSUB', '0')
if answer.err then return 'no' end
return 'yes'`)

// verb returns the command that publishes.
func (b *base) verb(ctx context.Context, key string) (string, error) {
	switch {
	case !b.Store.Sharded() || b.cfg.Sharded == Off:
		return "PUBLISH", nil
	case b.cfg.Sharded == On:
		return "SPUBLISH", nil
	}
	how := b.probe.Load()
	if how == unprobed {
		answer, err := b.Run(ctx, probeScript, []string{key}, nil)
		if err != nil {
			return "", err
		}
		if how = plain; answer == "yes" {
			how = sharded
		}
		b.probe.Store(how)
	}
	if how == sharded {
		return "SPUBLISH", nil
	}
	return "PUBLISH", nil
}

// Listen subscribes to a channel of Redisson, in the way in which its messages are published. A
// store that cannot do that returns an [ErrUnsupported]; then waiters poll.
func (b *base) Listen(ctx context.Context, channel string, l store.Listener) (stop func(), err error) {
	// The channel has the tag of its lock, so that the probe goes to the node of the lock.
	verb, err := b.verb(ctx, channel)
	if err != nil {
		return nil, err
	}
	if verb == "SPUBLISH" || !b.Store.Sharded() {
		return b.Store.Listen(ctx, channel, l)
	}
	if all, ok := store.As[store.Broadcaster](b.Store); ok {
		return all.ListenBroadcast(ctx, channel, l)
	}
	return nil, ErrUnsupported
}

// Unwrap implements [store.Wrapper].
func (b *base) Unwrap() store.Store { return b.Store }

// unexpected is the error for an answer that the script does not give.
func unexpected(s *script.Script, answer string) error {
	return fmt.Errorf("redisson: the script %s answered %q", s.Name, answer)
}
