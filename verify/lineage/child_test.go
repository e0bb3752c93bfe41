package lineage_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store/goredis"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// The environment that turns the test binary into a process that wants the
// lock.
const (
	envRole = "HOLDFAST_LINEAGE_CHILD" // in which way
	envAddr = "HOLDFAST_LINEAGE_ADDR"
	envTTL  = "HOLDFAST_LINEAGE_TTL"
)

// holder is a way to hold the lock, as a child uses it.
type holder interface {
	lock(ctx context.Context) (bool, error)
	unlock(ctx context.Context) error
	// write changes the resource that the lock protects.
	write(ctx context.Context, value string) error
}

func holderOf(role string, rdb *redis.Client, ttl time.Duration) holder {
	switch role {
	case "SETNX EXPIRE":
		return &setnxExpire{rdb: rdb, ttl: ttl}
	case "SET NX PX, DEL":
		return &setDel{rdb: rdb, ttl: ttl}
	case "compare and delete":
		return &compareAndDelete{rdb: rdb, ttl: ttl}
	case "Holdfast":
		return &ours{rdb: rdb, ttl: ttl}
	}
	panic("unknown role " + role)
}

// ours is the way of a program that uses Holdfast.
type ours struct {
	rdb   *redis.Client
	ttl   time.Duration
	lease *holdfast.Lease
}

func (o *ours) lock(ctx context.Context) (bool, error) {
	c, err := holdfast.New(goredis.New(o.rdb), holdfast.Config{TTL: o.ttl})
	if err != nil {
		return false, err
	}
	o.lease, err = c.Mutex(lockName).Lock(ctx)
	return err == nil, err
}

func (o *ours) unlock(ctx context.Context) error { return o.lease.Release(ctx) }

// fencedWrite is a resource that remembers the highest token it has seen.
var fencedWrite = redis.NewScript(`
	if tonumber(ARGV[1]) < tonumber(redis.call('HGET', KEYS[1], 'token') or 0) then
		return redis.error_reply('STALE token')
	end
	return redis.call('HSET', KEYS[1], 'token', ARGV[1], 'value', ARGV[2])`)

func (o *ours) write(ctx context.Context, value string) error {
	return writeFenced(ctx, o.rdb, o.lease, value)
}

func writeFenced(ctx context.Context, rdb *redis.Client, l *holdfast.Lease, value string) error {
	// Lua counts in doubles: the last ten bits count passes inside a process,
	// of which there are none here.
	return fencedWrite.Run(ctx, rdb, []string{"resource"}, l.Token()>>10, value).Err()
}

// obey is the child: it acquires the lock, says "held", and obeys its standard input. It
// answers "write VALUE" with "wrote ERROR", and "release" with "released ERROR".
func obey() error {
	ttl, err := time.ParseDuration(os.Getenv(envTTL))
	if err != nil {
		return err
	}
	ctx, h := context.Background(), holderOf(os.Getenv(envRole), redis.NewClient(plain(os.Getenv(envAddr))), ttl)
	if ok, err := h.lock(ctx); !ok || err != nil {
		return fmt.Errorf("the child did not get the lock: %w", err)
	}
	fmt.Println("held")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch word, rest, _ := strings.Cut(in.Text(), " "); word {
		case "write":
			fmt.Println("wrote", h.write(ctx, rest))
		case "release":
			fmt.Println("released", h.unlock(ctx))
		}
	}
	return nil
}

// start runs a child.
func start(t *testing.T, role, addr string, ttl time.Duration) *harness.Child {
	t.Helper()
	return harness.StartChild(t, envRole+"="+role, envAddr+"="+addr, envTTL+"="+ttl.String())
}
