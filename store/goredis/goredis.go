// Package goredis is the [holdfast.Store] for users of go-redis.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	client, err := holdfast.New(goredis.New(rdb), holdfast.Config{})
//
// The store borrows the client: requests go through its connection pool and
// its hooks, subscriptions over one connection of their own, and closing the
// client stays with its owner. When the last subscription has been stopped
// the store holds nothing.
//
// go-redis by itself keeps a caller waiting on a silent server until its
// ReadTimeout, whatever the context says, and sends a command up to four
// times without telling. Both matter to a lock: the first delays the news
// that a lease is lost, the second makes a refusal out of a request that took
// effect when it was sent first. So the store returns when the context ends
// and does the repeating itself, see [Store.Run].
package goredis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/script"
)

// Store runs actions on one Redis or Valkey server through a go-redis client.
type Store struct {
	client *redis.Client // the user's own
	single *redis.Conn   // its hooks, in front of requests that are sent once
	alarm  alarm
	hub    hub
}

var _ holdfast.Store = (*Store)(nil)

// New returns a store on the server of rdb. It does no I/O. Hooks that are
// added to rdb later do not see the store's requests.
func New(rdb *redis.Client) *Store {
	return &Store{
		client: rdb,
		single: once(rdb),
		hub:    hub{client: rdb, silence: silence},
	}
}

// once returns a view of rdb that sends each command once and gives up at the
// context's deadline. The view has the connection pool and the hooks of rdb,
// and rdb itself stays as it is.
//
// go-redis has no public way to ask for such a view. WithTimeout returns a
// client with options of its own on the same pool, but drops the hooks: users
// would lose the traces and counts of their requests. Conn has the hooks, but
// shares the options. So Conn's hooks are put in front of WithTimeout's
// client, and the Conn itself never takes a connection.
func once(rdb *redis.Client) *redis.Conn {
	opts := rdb.Options()
	view := rdb.WithTimeout(opts.ReadTimeout)
	own := view.Options()
	if own == opts {
		panic("BUG: goredis: in this version of go-redis WithTimeout shares the client's options")
	}
	own.WriteTimeout = opts.WriteTimeout // WithTimeout set both
	own.ContextTimeoutEnabled = true
	own.MaxRetries = 0
	conn := rdb.Conn()
	conn.AddHook(redirect{view})
	return conn
}

// redirect is a hook that hands each command to another client, instead of to
// the one that it is a hook of.
type redirect struct{ to *redis.Client }

func (r redirect) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r redirect) ProcessHook(redis.ProcessHook) redis.ProcessHook { return r.to.Process }

func (r redirect) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// Run implements [holdfast.Store]. It sends EVALSHA, and EVAL with the whole
// text when the server does not know the script.
//
// When a connection breaks before the answer the action is sent again, as
// often as the client's MaxRetries allows. After such a break an error answer
// proves nothing about the first request, so it is not given as a
// [*holdfast.ServerError].
//
// When ctx ends, Run returns at once and leaves its connection to wait for
// the answer, until ctx's deadline or the client's ReadTimeout.
func (s *Store) Run(
	ctx context.Context, action *script.Script, keys, args []string,
) (string, error) {
	words := make([]any, 0, 3+len(keys)+len(args))
	words = append(words, "evalsha", action.SHA1, len(keys))
	for _, key := range keys {
		words = append(words, key)
	}
	for _, arg := range args {
		words = append(words, arg)
	}

	var broke error // why an earlier request got no answer
	for attempt := 0; ; attempt++ {
		cmd := redis.NewStringCmd(ctx, words...)
		err := s.process(ctx, cmd)
		if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT ") {
			words = slices.Clone(words) // a hook may still look at the first
			words[0], words[1] = "eval", action.Text
			cmd = redis.NewStringCmd(ctx, words...)
			err = s.process(ctx, cmd)
		}
		switch {
		case err == nil:
			return cmd.Val(), nil
		case errors.Is(err, redis.Nil):
			return "", fmt.Errorf("goredis: script %s answered nil", action.Name)
		case !broken(err) || attempt >= s.client.Options().MaxRetries:
			return "", s.explain(ctx, err, broke)
		}
		broke = err
		if err := pause(ctx, attempt); err != nil {
			return "", s.explain(ctx, err, broke)
		}
	}
}

// process runs cmd and returns its error, or the context's as soon as that
// ends; then cmd must no longer be touched.
//
// For a deadline go-redis does: the view puts it on the socket, and heeds
// Done while it connects. But nothing wakes a read when a context is cancelled
// before its deadline. Hence the goroutine, for a context that can be.
func (s *Store) process(ctx context.Context, cmd redis.Cmder) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var late <-chan struct{}
	if deadline, ok := ctx.Deadline(); ok {
		late = s.alarm.after(deadline)
	}
	switch {
	case ctx.Done() == nil && late == nil:
		return s.single.Process(ctx, cmd)
	case ctx.Done() == nil:
		return s.single.Process(bounded{ctx, late}, cmd)
	}
	done := make(chan error, 1)
	go func() { done <- s.single.Process(ctx, cmd) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	case <-late:
	}
	select {
	case err := <-done:
		return err // it came at the same moment: an answer is better than none
	default:
		return cmp.Or(ctx.Err(), context.DeadlineExceeded)
	}
}

// Group implements [holdfast.Store]: on one server all keys are together.
func (s *Store) Group(string) string { return "" }

// Sharded implements [holdfast.Store].
func (s *Store) Sharded() bool { return false }

// Gathers implements [holdfast.Gatherer].
func (s *Store) Gathers() bool { return true }

// Server implements [holdfast.Store]. Of a server that does not know HELLO
// only the address is told.
func (s *Store) Server(ctx context.Context) (holdfast.ServerInfo, error) {
	info := holdfast.ServerInfo{Address: s.client.Options().Addr}
	cmd := redis.NewCmd(ctx, "hello")
	if err := s.process(ctx, cmd); err != nil {
		err = s.explain(ctx, err, nil)
		var refused *holdfast.ServerError
		if errors.As(err, &refused) && refused.Code == "ERR" {
			return info, nil
		}
		return holdfast.ServerInfo{}, err
	}
	describe := func(field, value any) {
		text, _ := value.(string)
		switch field {
		case "server":
			info.Product = text
		case "version":
			info.Version = text
		case "role":
			info.Role = text
		case "mode":
			info.Mode = text
		}
	}
	switch reply := cmd.Val().(type) {
	case map[any]any: // RESP3
		for field, value := range reply {
			describe(field, value)
		}
	case []any: // RESP2: the same, flat
		for pair := range slices.Chunk(reply, 2) {
			if len(pair) == 2 {
				describe(pair[0], pair[1])
			}
		}
	}
	return info, nil
}
