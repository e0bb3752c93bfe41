package bench

import (
	"context"
	"net"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// kit is one Redis client library under test.
type kit struct {
	name    string
	connect func(addr string, wrap wrapper) (*party, error)
}

// A wrapper is put around each connection of a client, if it is not nil.
type wrapper func(net.Conn) net.Conn

// kits are all client libraries that are measured.
var kits = []kit{{"goredis", openGoredis}, {"rueidis", openRueidis}}

// open connects a client.
func (k kit) open(addr string) (*party, error) { return k.connect(addr, nil) }

// party is one connected client: a store for Holdfast, and the raw commands over the same
// client.
type party struct {
	store store.Store
	raw   raw
	close func()
}

// raw has the bare commands of a lock.
type raw interface {
	// Set sets key for ttl: SET NX PX. It returns false if key exists.
	Set(ctx context.Context, key, value string, ttl time.Duration) (bool, error)
	// Extend lets key live for ttl from now: PEXPIRE. It returns false if there is no key.
	Extend(ctx context.Context, key string, ttl time.Duration) (bool, error)
	// Unset deletes key if it has value: EVALSHA of compare-and-delete.
	Unset(ctx context.Context, key, value string) error
	// Push gives a token to the client that pops first: RPUSH.
	Push(ctx context.Context, list, token string) error
	// Pop waits for the token: BLPOP.
	Pop(ctx context.Context, list string) (string, error)
	// Load stores a script on the server and returns its hash.
	Load(ctx context.Context, text string) (sha string, err error)
	// Eval runs a stored script about one key: EVALSHA.
	Eval(ctx context.Context, sha, key string, args ...string) (string, error)
}

const (
	compareAndDelete    = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`
	compareAndDeleteSHA = "6fbe84d1140fd2047394924af9d845b83c070bec"
)

func kitNamed(name string) kit {
	for _, k := range kits {
		if k.name == name {
			return k
		}
	}
	panic("BUG: no kit " + name)
}
