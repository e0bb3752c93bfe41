package bench

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// kit is one Redis client library under test.
type kit struct {
	name string
	open func(addr string) (*party, error)
}

// kits are all client libraries that are measured.
var kits = []kit{{"goredis", openGoredis}, {"rueidis", openRueidis}}

// party is one connected client: a store for Holdfast, and the raw commands,
// which set the limit, over the same client.
type party struct {
	store store.Store
	raw   raw
	close func()
}

// raw is what a lock would cost if it were nothing but its commands.
type raw interface {
	// Set takes key for ttl: SET NX PX. It reports false if key is taken.
	Set(ctx context.Context, key, value string, ttl time.Duration) (bool, error)
	// Unset gives key up if it has value: EVALSHA of compare-and-delete.
	Unset(ctx context.Context, key, value string) error
	// Push hands a token to whoever pops first: RPUSH.
	Push(ctx context.Context, list, token string) error
	// Pop waits for the token: BLPOP.
	Pop(ctx context.Context, list string) (string, error)
	// Renew makes keys live for ttl: PEXPIRE for each, in one pipeline.
	Renew(ctx context.Context, keys []string, ttl time.Duration) error
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
