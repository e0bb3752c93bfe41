package goredis

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/adapter"
)

// noRetry is a view of a client that sends each command once and gives up at the context's
// deadline. It has the client's connection pool and hooks. The client itself is not changed.
type noRetry struct {
	*redis.Conn
	client  *redis.Client
	addr    string
	reserve reserve
}

// failoverAddr is the address in the options of a client that asks Sentinels for it.
const failoverAddr = "FailoverClient"

// newNoRetry returns a view of rdb.
//
// go-redis has no public function for such a view. WithTimeout returns a client with options
// of its own on the same pool, but drops the hooks: users would lose the traces and counts of
// their requests. Conn has the hooks, but shares the options. So Conn's hooks are put in front
// of WithTimeout's client, and the Conn itself never takes a connection.
func newNoRetry(rdb *redis.Client) *noRetry {
	opts := rdb.Options()
	view := rdb.WithTimeout(opts.ReadTimeout)
	own := view.Options()
	if own == opts {
		panic("BUG: goredis: in this version of go-redis WithTimeout shares the client's options")
	}
	own.WriteTimeout = opts.WriteTimeout // WithTimeout has changed it too
	own.ContextTimeoutEnabled = true
	own.MaxRetries = 0
	conn := rdb.Conn()
	conn.AddHook(forward{view})
	return &noRetry{Conn: conn, client: rdb, addr: opts.Addr, reserve: reserve{
		client:         rdb,
		followsPrimary: opts.Addr == failoverAddr,
		made:           time.Now(),
	}}
}

// commands are what is sent together. It is not a slice, which would cost each request an
// allocation.
type commands struct {
	first redis.Cmder
	more  []redis.Cmder
}

// send sends commands over one connection, and returns the first error.
func send(ctx context.Context, conn *redis.Conn, cmds commands) error {
	if len(cmds.more) == 0 {
		return conn.Process(ctx, cmds.first)
	}
	pipe := conn.Pipeline()
	_ = pipe.Process(ctx, cmds.first) // it only notes the command
	for _, cmd := range cmds.more {
		_ = pipe.Process(ctx, cmd)
	}
	_, err := pipe.Exec(ctx)
	return err
}

// forward is a hook that hands each command to another client.
type forward struct{ to *redis.Client }

func (f forward) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f forward) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		w := watchedPool.Get().(*watched)
		*w = watched{Cmder: cmd}
		err := f.to.Process(ctx, w)
		switch {
		case err == nil:
			*w = watched{}
			watchedPool.Put(w)
		case !w.written:
			return notWritten(err)
		}
		return err
	}
}

func (f forward) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		pipe := f.to.Pipeline()
		watched := make([]watched, len(cmds))
		for i, cmd := range cmds {
			watched[i].Cmder = cmd
			_ = pipe.Process(ctx, &watched[i]) // it only notes the command
		}
		_, err := pipe.Exec(ctx)
		for i := range watched {
			if watched[i].written {
				return err
			}
		}
		return notWritten(err)
	}
}

// watched is a command that knows whether go-redis has begun to write it. go-redis asks for
// the words only then, once its connection is made and logged in.
type watched struct {
	redis.Cmder
	written bool
}

func (w *watched) Args() []any {
	w.written = true
	return w.Cmder.Args()
}

// watchedPool takes a command back when it has been answered: go-redis may still use one that
// has failed.
var watchedPool = sync.Pool{New: func() any { return new(watched) }}

// notWritten is the error of a command of which nothing was written.
func notWritten(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, redis.ErrClosed):
		return adapter.ClosedClient("go-redis")
	}
	return notSentError{err}
}
