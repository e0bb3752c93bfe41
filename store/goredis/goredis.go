// Package goredis is the [store.Store] for users of go-redis.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	client, err := holdfast.New(goredis.New(rdb), holdfast.Config{})
//
// The store works with a single server, with a primary behind Sentinel
// (redis.NewFailoverClient) and with a Cluster (redis.NewClusterClient).
//
// The store borrows the client, and its owner closes it. All requests use connections of the store's own,
// made with the client's options (Dialer, TLSConfig, credentials, Limiter, …) and used with its hooks; only a
// DialHook does not see them. So a lock does not depend on the client's pool, even if the application uses
// all of its connections, for example with BLPOP. Subscriptions share one connection, which the client
// makes (per node in a Cluster).
//
// The store has as few connections as it has requests at the same time, usually one or two. To one
// server it has at most as many as the client's PoolSize, four more that only renewals use, and one that
// tests silent connections. If grants wait for acknowledgements, there are also up to PipelinePoolSize for those. All
// are closed when nothing has used them for two minutes, or when a Holdfast client is closed and no
// other one uses them. The redis client's statistics do not show them. If the redis client is closed, the
// store's own connections serve on, so a holder can still release its lock; new subscriptions fail.
//
// If a request has no answer after a second, or after a quarter of its time, the store asks on another
// connection, by a script that no server knows. If the connection had rested, or if a renewal is under way, it does so
// after a quarter of a second. If the server answers there, the silent connection is dead: its requests end, and those
// that may be repeated are sent again. If the server does not answer there either, it is slow or holds writes back, and
// all requests go on waiting. So a slow server gets nothing twice. While a caller waits for a lock, the store tests the
// subscription every two seconds in the same way.
//
// Behind Sentinel, the store asks for the primary once a second. If no Sentinel answers, a connection that it has
// serves on.
//
// By itself, go-redis keeps a caller waiting on a silent server until its ReadTimeout, whatever
// the context says. It also sends a command up to four times without telling its caller. Both
// matter to a lock: the first delays the signal that a lease is lost, and the second turns a
// request that took effect into a refusal, or lets it take effect twice. So the store returns when the
// context ends, and repeats requests itself. See [Store.Run]. A context that can be cancelled costs two
// allocations, and a goroutine only while a connection is made (behind Sentinel, once a second). If it is
// cancelled while its request is under way, the connection of that request is closed.
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
	"github.com/holdfast-go/holdfast/internal/stack"
	"github.com/holdfast-go/holdfast/internal/yield"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Store runs actions on Redis or Valkey through a go-redis client.
type Store struct {
	single   *server  // one server, or the primary behind Sentinel
	cluster  *cluster // or a Cluster
	unusable error    // or neither: why

	retry     adapter.Retry
	deadlines adapter.Deadlines
	steady    adapter.Steady
	hub       adapter.Hub
	broadcast adapter.Hub // of a Cluster: its subscriptions are not sharded
	feeds     feeds
	demoted   chan struct{} // buffers one signal: the single server refused as a replica
	words     words
}

var _ interface {
	store.Acker
	store.Broadcaster
	store.Scanner
} = (*Store)(nil)

// New returns a store on the server or servers of rdb: a *redis.Client, also one of
// redis.NewFailoverClient, or a *redis.ClusterClient. With any other client every call is
// refused. New does no I/O.
//
// Hooks that are added to rdb later may not see the store's requests. Hooks of a ClusterClient
// never see them, because the store sends to the nodes; hooks that ClusterClient.OnNewNode
// adds to the nodes see all of them.
func New(rdb redis.UniversalClient) *Store {
	s := &Store{feeds: feeds{silence: maxSilence}, demoted: make(chan struct{}, 1)}
	s.retry = adapter.Retry{Classify: classify, Refusal: Refusal}
	s.hub.Driver.Session = s.session
	s.broadcast.Driver.Session = s.session
	if v := reflect.ValueOf(rdb); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		s.unusable = adapter.NoClient("goredis.New", "go-redis")
		return s
	}
	switch rdb := rdb.(type) {
	case *redis.Client:
		s.single = newServer(rdb)
		s.retry.Tries = rdb.Options().MaxRetries
		s.retry.Failover = behindSentinel(rdb)
	case *redis.ClusterClient:
		s.cluster = &cluster{client: rdb}
		s.retry.Failover = true
		s.hub.Driver.Nodes = s.cluster.nodesOf
	default:
		s.unusable = &store.ServerError{Code: "CLIENT", Message: fmt.Sprintf(
			"CLIENT the store does not support a %T: use a redis.Client or a redis.ClusterClient", rdb)}
	}
	s.hub.Driver.WaitsToConnect = s.retry.Failover
	s.broadcast.Driver.WaitsToConnect = s.retry.Failover
	return s
}

// behindSentinel reports whether NewFailoverClient made the client: it has this name instead
// of an address.
func behindSentinel(rdb *redis.Client) bool { return rdb.Options().Addr == failoverAddr }

// Run implements [store.Store]. It sends EVALSHA, and EVAL with the whole text if the server
// does not know the script.
//
// If a connection breaks before the answer, or is given up, Run sends the action again if the script
// may be repeated, as often as the client's MaxRetries allows. After such a break a refusal proves
// nothing about the first request, so Run does not return it as a [*store.ServerError].
//
// In a Cluster, and behind Sentinel, Run tries that until ctx's deadline, and what was not sent: a lost
// primary may have a successor by then, and a moving slot a node. It follows MOVED and ASK at
// once.
//
// When ctx ends, Run returns at once. A connection that is new, or that goes to a server that has left requests
// unanswered, goes on waiting for the answer, until a second after ctx's deadline or the client's ReadTimeout. So a
// new connection is completed even if that takes longer than one request may take.
func (s *Store) Run(
	ctx context.Context, action *script.Script, keys, args []string,
) (string, error) {
	if s.unusable != nil {
		return "", s.unusable
	}
	evalsha, eval := evalWords(ctx)
	words := s.words.of(evalsha, action, keys, args)
	key, how := firstOf(keys), urgencyOf(ctx, action)
	answer, err, broke := s.retry.Do(ctx, action.Repeats, func() (string, error) {
		cmd := redis.NewStringCmd(ctx, words...)
		err := s.process(ctx, how, key, commands{first: cmd})
		if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT ") {
			words = slices.Clone(words) // a hook may still read the first ones
			words[0], words[1] = eval, action.Text
			cmd = redis.NewStringCmd(ctx, words...)
			err = s.process(ctx, how, key, commands{first: cmd})
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

// process runs cmds one after the other on one connection, at the node with key. It returns
// the first error, or the context's as soon as the context ends; then cmds must no longer be
// touched.
func (s *Store) process(ctx context.Context, how urgency, key string, cmds commands) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := s.send(ctx, how, key, cmds)
	if errors.Is(err, errLeft) {
		return adapter.Unsent(ctx.Err()) // it says nothing of the server
	}
	answered := err == nil || errors.Is(err, redis.Nil)
	if !answered {
		refusal := Refusal(err)
		answered = refusal != nil
		if adapter.FromReplica(refusal) && s.cluster == nil {
			s.signalDemoted()
		}
	}
	s.steady.Note(answered)
	return err
}

func (s *Store) send(ctx context.Context, how urgency, key string, cmds commands) error {
	deadline := s.deadlines.Of(ctx)
	defer deadline.Leave()
	if s.cluster != nil {
		return s.cluster.process(ctx, deadline, s.steady.Reached(), how, key, cmds)
	}
	return s.single.send(ctx, deadline, s.steady.Reached(), how, cmds)
}

// await runs send in a goroutine of its own and returns its error, or the context's as soon as
// the context ends. Then send begins nothing more, but its connection waits a while longer:
// for a request that was delayed by connecting.
func await(ctx context.Context, deadline *adapter.Deadline, send func(context.Context) error) error {
	done, left := make(chan error, 1), make(chan struct{})
	go func() {
		stack.Grow()
		done <- send(adapter.Lingering(ctx, left))
	}()
	if err, ok := yield.Await(done, ctx.Done(), deadline.Passed()); ok {
		return err
	}
	close(left)
	// A request that waits for a connection says now that it was not sent.
	last := time.NewTimer(adapter.FinalWait)
	defer last.Stop()
	end := cmp.Or(ctx.Err(), context.DeadlineExceeded)
	select {
	case err := <-done:
		if failure := classify(ctx, err); failure == adapter.NotSent && Refusal(err) == nil {
			return adapter.Unsent(end)
		} else if err == nil || Refusal(err) != nil {
			return err
		}
	case <-last.C:
	}
	return end
}

// Group implements [store.Store]: on one server all keys are one group, in a Cluster those of
// a slot.
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
		s.single.close()
	}
}

// Batches implements [store.Batcher]: not in a Cluster, where few locks share a slot.
func (s *Store) Batches() bool { return !s.Sharded() }

// Listen implements [store.Store]. All channels of a node share one connection, which is
// opened for the first channel and closed after the last.
//
// stop returns when the server has confirmed the end of the subscription, so no grant is
// pushed to a listener that has stopped. It waits at most a second for a server that does not
// answer. A function of l must not call stop, because stop waits for it, too.
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

// ListenBroadcast implements [store.Broadcaster]. In a Cluster, all such channels share one
// connection to any node.
func (s *Store) ListenBroadcast(
	ctx context.Context, channel string, l store.Listener,
) (stop func(), err error) {
	if s.cluster == nil || s.unusable != nil {
		return s.Listen(ctx, channel, l)
	}
	stop, err = s.broadcast.Listen(ctx, channel, l)
	if err != nil {
		return nil, s.explain(ctx, err, nil)
	}
	return stop, nil
}

// Server implements [store.Store]. In a Cluster it describes one of the primaries. If the
// server does not know HELLO, only the address is set.
func (s *Store) Server(ctx context.Context) (store.ServerInfo, error) {
	if s.unusable != nil {
		return store.ServerInfo{}, s.unusable
	}
	info := store.ServerInfo{Address: s.addr()}
	var reply any
	_, err, broke := s.retry.Do(ctx, true, func() (string, error) {
		cmd := redis.NewCmd(ctx, "hello")
		err := s.process(ctx, ordinary, "", commands{first: cmd})
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
			"CLIENT the ClusterClient's servers are not a Cluster (%s): "+
				"use redis.NewClient or redis.NewFailoverClient",
			info.Mode)}
	}
	return info, nil
}

// describe reads the answer to HELLO.
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
