package goredis

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/adapter"
	"github.com/holdfast-go/holdfast/internal/panics"
)

// server is one server, with the store's own connections to it. Each command is sent once, and given
// up at the context's deadline. The client itself is not changed.
type server struct {
	*own
	addr string
}

// failoverAddr is the address in the options of a client that asks Sentinels for it.
const failoverAddr = "FailoverClient"

func newServer(rdb *redis.Client) *server { return &server{newOwn(rdb), rdb.Options().Addr} }

// hooked is a pool of connections with a client's hooks in front.
//
// go-redis has no public function for that. Conn has the hooks, and shares the options. So Conn's hooks
// are put in front of the pool's client, and the Conn itself never takes a connection.
type hooked struct {
	conn *redis.Conn // has the hooks, and takes no connection itself
	pool *redis.Client
}

func newHooked(client, pool *redis.Client) hooked {
	conn := client.Conn()
	conn.AddHook(forward{pool})
	return hooked{conn, pool}
}

// commands are what is sent together. It is not a slice, which would cost each request an
// allocation.
type commands struct {
	first redis.Cmder
	more  []redis.Cmder
}

// send sends commands over one connection, and returns the first error.
//
// go-redis closes a connection on which a replica refuses with READONLY, because the address may
// lead to another server by now. If the replica has lost its primary, send does that.
func (h hooked) send(ctx context.Context, cmds commands) error {
	err := h.sendOver(ctx, cmds)
	if refusal := Refusal(err); refusal != nil && refusal.Code == "MASTERDOWN" {
		h.leave(ctx, len(cmds.more) > 0)
	}
	return err
}

// leaveLimit bounds leaving a connection.
const leaveLimit = time.Second

// leave makes the server close one idle connection: as a rule the one that was used last. go-redis
// has another pool for pipelines. QUIT needs no permission. go-redis notices the end by the PING.
func (h hooked) leave(ctx context.Context, pipelined bool) {
	ctx, cancel := context.WithTimeout(ctx, leaveLimit)
	defer cancel()
	pipe := h.pool.Pipeline()
	if !pipelined {
		one := h.pool.Conn()
		defer one.Close() //nolint:errcheck // it is over either way
		pipe = one.Pipeline()
	}
	pipe.Do(ctx, "quit")
	pipe.Ping(ctx)
	_, _ = pipe.Exec(ctx)
}

func (h hooked) sendOver(ctx context.Context, cmds commands) (err error) {
	defer panics.Fail("a hook of go-redis", &err)
	if len(cmds.more) == 0 {
		return h.conn.Process(ctx, cmds.first)
	}
	pipe := h.conn.Pipeline()
	_ = pipe.Process(ctx, cmds.first) // it only notes the command
	for _, cmd := range cmds.more {
		_ = pipe.Process(ctx, cmd)
	}
	_, err = pipe.Exec(ctx)
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
	case errors.Is(err, redis.Nil): // of Sentinels that know no primary: no answer to the command
		err = errors.New(err.Error())
	}
	return adapter.Unsent(err)
}
