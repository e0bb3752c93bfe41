// Package goredis is the [store.Store] for users of go-redis.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	client, err := holdfast.New(goredis.New(rdb), holdfast.Config{})
//
// The store works with a single server, with a primary behind Sentinel
// (redis.NewFailoverClient) and with a Cluster (redis.NewClusterClient).
//
// The store borrows the client: requests go through its connection pool and
// its hooks, subscriptions over one connection of their own (per node in a
// Cluster), and closing the client stays with its owner. When the last
// subscription has been stopped the store holds nothing but idle connections.
//
// Renewals never wait for a connection that the application has in use: they go
// over a few that the store makes from the client's options, when the first
// lease is renewed, and closes when they have been idle for two minutes. While the
// client's pool is full, releases and the waiters' questions go over those too.
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
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/adapter"
	"github.com/holdfast-go/holdfast/internal/slot"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Store runs actions on Redis or Valkey through a go-redis client.
type Store struct {
	single   *noRetry // one server, or the primary behind Sentinel
	cluster  *cluster // or this
	unusable error    // or neither, and why

	retry     adapter.Retry
	deadlines adapter.Deadlines
	steady    adapter.Steady
	hub       adapter.Hub
	feeds     feeds
	words     words
}

var _ store.Acker = (*Store)(nil)

// New returns a store on the server or servers of rdb: a *redis.Client, also
// one of redis.NewFailoverClient, or a *redis.ClusterClient. With any other
// client every call is refused. New does no I/O.
//
// Hooks that are added to rdb later do not see the store's requests. Those of
// a ClusterClient never do, for the store speaks to the nodes: hooks that
// ClusterClient.OnNewNode adds to them see all.
func New(rdb redis.UniversalClient) *Store {
	s := &Store{feeds: feeds{silence: maxSilence}}
	s.retry = adapter.Retry{Classify: classify, Refusal: serverError}
	s.hub.Driver.Session = s.session
	if v := reflect.ValueOf(rdb); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		s.unusable = adapter.NoClient("goredis.New", "go-redis")
		return s
	}
	switch rdb := rdb.(type) {
	case *redis.Client:
		s.single = newNoRetry(rdb)
		s.retry.Tries = rdb.Options().MaxRetries
		s.retry.Failover = behindSentinel(rdb)
	case *redis.ClusterClient:
		s.cluster = &cluster{client: rdb}
		s.retry.Failover = true
		s.hub.Driver.Nodes = s.cluster.nodesOf
	default:
		s.unusable = &store.ServerError{Code: "CLIENT", Message: fmt.Sprintf(
			"CLIENT a %T cannot carry locks: use a redis.Client or a redis.ClusterClient", rdb)}
	}
	s.hub.Driver.WaitsToConnect = s.retry.Failover
	return s
}

// behindSentinel tells a client of NewFailoverClient: it has this instead of
// an address.
func behindSentinel(rdb *redis.Client) bool { return rdb.Options().Addr == "FailoverClient" }

// Run implements [store.Store]. It sends EVALSHA, and EVAL with the whole
// text when the server does not know the script.
//
// When a connection breaks before the answer the action is sent again, as
// often as the client's MaxRetries allows. After such a break an error answer
// proves nothing about the first request, so it is not given as a
// [*store.ServerError].
//
// In a Cluster, and behind Sentinel, it is sent again until ctx's deadline:
// a primary that is gone may have a successor by then, and a slot that moves a
// home. MOVED and ASK are followed at once.
//
// When ctx ends, Run returns at once and leaves its connection to wait for
// the answer, until a second after ctx's deadline or the client's ReadTimeout:
// so a connection comes to stand that takes longer to make than one request may.
func (s *Store) Run(
	ctx context.Context, action *script.Script, keys, args []string,
) (string, error) {
	if s.unusable != nil {
		return "", s.unusable
	}
	words := s.words.of(action, keys, args)
	key, how := firstOf(keys), urgencyOf(action)
	answer, err, broke := s.retry.Do(ctx, func() (string, error) {
		cmd := redis.NewStringCmd(ctx, words...)
		err := s.process(ctx, how, key, cmd)
		if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT ") {
			words = slices.Clone(words) // a hook may still look at the first
			words[0], words[1] = "eval", action.Text
			cmd = redis.NewStringCmd(ctx, words...)
			err = s.process(ctx, how, key, cmd)
		}
		if err != nil {
			return "", err
		}
		return cmd.Val(), nil
	})
	switch {
	case err == nil:
		return answer, nil
	case errors.Is(err, redis.Nil):
		return "", fmt.Errorf("goredis: script %s answered nil", action.Name)
	}
	return "", s.explain(ctx, err, broke)
}

func firstOf(keys []string) string {
	if len(keys) == 0 {
		return ""
	}
	return keys[0]
}

// process runs cmds, one behind the other on one connection, where key lives.
// It returns the first error, or the context's as soon as that ends; then cmds
// must no longer be touched.
//
// For a deadline go-redis does: the view puts it on the socket, and heeds
// Done while it connects. But nothing wakes a read when a context is cancelled
// before its deadline. Hence the goroutine, for a context that can be; for
// a Cluster, where a redirection may cost more than one connection; and while
// the server leaves requests unanswered, see [adapter.Lingering].
func (s *Store) process(ctx context.Context, how urgency, key string, cmds ...redis.Cmder) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := s.send(ctx, how, key, cmds)
	s.steady.Note(err == nil || errors.Is(err, redis.Nil) || serverError(err) != nil)
	return err
}

func (s *Store) send(ctx context.Context, how urgency, key string, cmds []redis.Cmder) error {
	deadline := s.deadlines.Of(ctx)
	defer deadline.Leave()
	switch {
	case s.cluster != nil:
		return await(ctx, deadline, func(ctx context.Context) error { return s.cluster.process(ctx, how, key, cmds) })
	case ctx.Done() == nil && deadline == nil:
		return s.single.sendUrgent(ctx, how, cmds)
	case ctx.Done() == nil && s.steady.Reached():
		return s.single.sendUrgent(adapter.Bounded(ctx, deadline), how, cmds)
	}
	return await(ctx, deadline, func(ctx context.Context) error { return s.single.sendUrgent(ctx, how, cmds) })
}

// await runs send in a goroutine of its own and returns what it does, or the
// context's error as soon as that ends. Then send begins nothing more, but its
// connection waits for a while: what is sent late by that is what connecting
// had held up, as a slow network may at any time.
func await(ctx context.Context, deadline *adapter.Deadline, send func(context.Context) error) error {
	done, left := make(chan error, 1), make(chan struct{})
	go func() { done <- send(adapter.Lingering(ctx, left)) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	case <-deadline.Passed():
	}
	close(left)
	// What came at the same moment is better than nothing. And what waits for a
	// connection says now that it was not sent.
	last := time.NewTimer(adapter.FinalWait)
	defer last.Stop()
	end := cmp.Or(ctx.Err(), context.DeadlineExceeded)
	select {
	case err := <-done:
		if failure := classify(ctx, err); failure == adapter.NotSent && serverError(err) == nil {
			return notSentError{end}
		} else if err == nil || serverError(err) != nil {
			return err
		}
	case <-last.C:
	}
	return end
}

// Group implements [store.Store]: on one server all keys are together, in a
// Cluster those of a slot.
func (s *Store) Group(key string) string {
	if s.cluster == nil {
		return ""
	}
	return slot.Group(key)
}

// Sharded implements [store.Store].
func (s *Store) Sharded() bool { return s.cluster != nil }

// CloseIdleConnections implements [store.IdleCloser].
func (s *Store) CloseIdleConnections() {
	s.deadlines.Stop()
	switch {
	case s.unusable != nil:
	case s.cluster != nil:
		s.cluster.closeIdle()
	default:
		s.single.reserve.close()
	}
}

// Batches implements [store.Batcher]: in a Cluster few locks share a slot.
func (s *Store) Batches() bool { return !s.Sharded() }

// Listen implements [store.Store]. All channels of a node share one
// connection, which is opened for the first and closed after the last.
//
// stop returns when the server has confirmed that it no longer counts us among
// those who hear: a grant is not pushed to somebody who has stopped. A server
// that does not answer is waited for no longer than a second. stop must not be
// called by a function of l, for which it waits, too.
func (s *Store) Listen(
	ctx context.Context, channel string, l store.Listener,
) (stop func(), err error) {
	if s.unusable != nil {
		return nil, s.unusable
	}
	stop, err = s.hub.Listen(ctx, channel, l)
	if err != nil {
		return nil, s.explain(ctx, err, nil)
	}
	return stop, nil
}

// Server implements [store.Store]: in a Cluster it is one of the primaries
// that answers. Of a server that does not know HELLO only the address is told.
func (s *Store) Server(ctx context.Context) (store.ServerInfo, error) {
	if s.unusable != nil {
		return store.ServerInfo{}, s.unusable
	}
	info := store.ServerInfo{Address: s.addr()}
	var reply any
	_, err, broke := s.retry.Do(ctx, func() (string, error) {
		cmd := redis.NewCmd(ctx, "hello")
		err := s.process(ctx, ordinary, "", cmd)
		if err == nil {
			reply = cmd.Val()
		}
		return "", err
	})
	if err != nil {
		err = s.explain(ctx, err, broke)
		var refusal *store.ServerError
		if errors.As(err, &refusal) && refusal.Code == "ERR" {
			return info, nil
		}
		return store.ServerInfo{}, err
	}
	describe(&info, reply)
	if s.cluster != nil && info.Mode != "" && info.Mode != "cluster" {
		return store.ServerInfo{}, &store.ServerError{Code: "CLIENT", Message: fmt.Sprintf(
			"CLIENT a ClusterClient on servers that are no Cluster (%s): "+
				"use redis.NewClient or redis.NewFailoverClient",
			info.Mode)}
	}
	return info, nil
}

// describe fills in what HELLO answered.
func describe(info *store.ServerInfo, reply any) {
	set := func(field, value any) {
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
	switch reply := reply.(type) {
	case map[any]any: // RESP3
		for field, value := range reply {
			set(field, value)
		}
	case []any: // RESP2: the same, flat
		for pair := range slices.Chunk(reply, 2) {
			if len(pair) == 2 {
				set(pair[0], pair[1])
			}
		}
	}
}

// addr names the server, or servers.
func (s *Store) addr() string {
	switch {
	case s.cluster != nil:
		return "cluster of " + strings.Join(s.cluster.client.Options().Addrs, ", ")
	case s.retry.Failover:
		return "primary behind Sentinel"
	}
	return s.single.addr
}
