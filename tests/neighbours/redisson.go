package neighbours

import (
	"context"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/redisson"
	"github.com/holdfast-go/holdfast/store/goredis"
	"github.com/holdfast-go/holdfast/tests/redisson/crossing"
)

func openCompatRedisson(cfg Config) (Locker, error) {
	client, err := holdfast.New(redisson.New(goredis.New(cfg.rdb(cfg.Address)), redisson.Config{}), holdfast.Config{
		TTL: cfg.TTL(), RequestTimeout: time.Duration(cfg.TimeoutMs) * time.Millisecond,
		// Every acquisition goes to the server: the local queue is not what a fleet tries.
		MaxLocalHandOvers: -1,
	})
	if err != nil {
		return nil, err
	}
	return lockerFunc(func(ctx context.Context, name string) (Hold, error) {
		lease, err := client.Mutex(name).Lock(ctx)
		if err != nil {
			return nil, err
		}
		return javaHold{leaseHold{lease, 1}}, nil
	}), nil
}

// javaHold is a hold on Redisson's wire.
type javaHold struct{ leaseHold }

// Holder implements [Hold]. It is a UUID with the bytes of the client's ID, and the number of the attempt.
func (h javaHold) Holder() string {
	client, number, _ := strings.Cut(h.lease.HolderID(), "/")
	return crossing.UUID(client) + ":" + number
}
