// Package rueidis is the [store.Store] for users of rueidis.
//
//	rdb, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"localhost:6379"}})
//	client, err := holdfast.New(holdfastrueidis.New(rdb), holdfast.Config{})
//
// The store works with a single server, with a primary behind Sentinel (ClientOption.Sentinel)
// and with a Cluster.
//
// The store borrows the client, and its owner closes it. Requests share the client's pipelined
// connection, even with DisableAutoPipelining. Subscriptions share one connection of their own from its
// pool (per node in a Cluster; for a moment two, when one of several subscriptions ends). When the last
// subscription has been stopped, the store holds nothing. The store needs no client-side
// cache: DisableCache may be on or off.
//
// Without Sentinel, another server may become the primary behind the client's address. If the old
// one answers as a replica (READONLY, MASTERDOWN), the store makes the connections that it uses
// lead to the new one. From then on its requests share one pipelined connection.
//
// A rueidis client gives up a connection that is silent for its ConnWriteTimeout, 10 s by
// default. Until then, requests on that connection fail one by one as their contexts end. So a connection
// that a router has forgotten costs 10 s, and perhaps a lease. With [Watch] it costs a quarter of a second.
// Without Watch, a lease must be longer than ConnWriteTimeout and the time to reconnect. For leases under half
// a minute, set ConnWriteTimeout to a few seconds.
//
// rueidis reads in a goroutine of its own. If other goroutines use up the processors, Go wakes that one when all of
// them have had their turn: with 200 of them on one processor, after 2 s or more. With Watch, a renewal does not wait
// for that, unless its own turn ends just then. A lease counts on answers only, so it should be longer than two such
// waits, and without Watch longer than three. For a loop that sends PEXPIRE over the same client one is enough, because
// it counts on no answer.
package rueidis

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/adapter"
	"github.com/holdfast-go/holdfast/internal/mark"
	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/internal/slot"
	"github.com/holdfast-go/holdfast/internal/yield"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Store runs actions on Redis or Valkey through a rueidis client.
type Store struct {
	client rueidis.Client
	mode   rueidis.ClientMode
	// unusable is why no request can be made; nil if requests can.
	unusable error

	retry     adapter.Retry
	deadlines adapter.Deadlines
	steady    adapter.Steady // of requests with a key; in a Cluster each node has its own
	first     adapter.Steady // of requests without a key
	piped     atomic.Int32   // requests whose contexts rueidis watches
	// foundClosed: a request has found the client closed.
	foundClosed atomic.Bool
	noPing      atomic.Bool // the server refuses PING
	hub         adapter.Hub
	slots       slotMap
	address     address
}

var _ interface {
	store.Acker
	store.Scanner
} = (*Store)(nil)

// New returns a store on the server or servers of client. It does no I/O.
func New(client rueidis.Client) *Store {
	if v := reflect.ValueOf(client); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return &Store{mode: rueidis.ClientModeStandalone, unusable: adapter.NoClient("rueidis.New", "rueidis")}
	}
	s := &Store{client: client, mode: client.Mode(), address: address{demoted: make(chan struct{}, 1)}}
	s.retry = adapter.Retry{
		Tries: retries, Failover: s.mode != rueidis.ClientModeStandalone, Classify: classify, Refusal: serverError,
	}
	s.hub.Driver = adapter.Driver{Session: s.session, WaitsToConnect: s.retry.Failover, KeepsChannels: true}
	if s.mode == rueidis.ClientModeCluster {
		s.hub.Driver.Nodes = s.nodesOf
	}
	return s
}

// retries is how often an action is sent again after its connection broke.
const retries = 3

// Run implements [store.Store]. It sends EVALSHA, and EVAL with the whole text if the server
// does not know the script.
//
// If a connection breaks before the answer, Run sends the action again if the script may be repeated, a
// few times. The store
// does that itself, because rueidis (ToRetryable) would not report it: after such a break a
// refusal proves nothing about the first request, so Run does not return it as a
// [*store.ServerError].
//
// In a Cluster, and behind Sentinel, Run repeats the action until ctx's deadline: a lost
// primary may have a successor by then, and a moving slot a node. rueidis follows MOVED and
// ASK.
//
// When ctx ends, Run returns at once; the client goes on waiting for the answer.
func (s *Store) Run(
	ctx context.Context, action *script.Script, keys, args []string,
) (string, error) {
	if s.unusable != nil {
		return "", s.unusable
	}
	text, err, broke := s.retry.Do(ctx, action.Repeats, func() (string, error) {
		text, err := s.do(ctx, s.eval(ctx, s.client.B(), action, false, keys, args)).text()
		if refusal := serverError(err); refusal != nil && refusal.Code == "NOSCRIPT" {
			text, err = s.do(ctx, s.eval(ctx, s.client.B(), action, true, keys, args)).text()
		}
		return text, err
	})
	switch {
	case err == nil:
		return text, nil
	case rueidis.IsRedisNil(err):
		return "", fmt.Errorf("rueidis: script %s answered nil", action.Name)
	}
	return "", s.explain(ctx, err, broke)
}

// maxPiped is how many requests may wait in rueidis' pipelines without a goroutine. While a pipeline is full, rueidis
// watches no context. By default each has 1,024 places, and the program's own commands take some.
const maxPiped = 128

// answer is the outcome of a command.
type answer struct {
	result rueidis.RedisResult
	err    error // the context's, if the context ended first
}

func (a answer) text() (string, error) {
	if a.err != nil {
		return "", a.err
	}
	text, err := a.result.ToString()
	if _, refused := rueidis.IsRedisErr(err); refused && text != "" {
		return "", refusal(text) // the whole message, which err lacks
	}
	return text, err
}

func (a answer) fields() (map[string]rueidis.RedisMessage, error) {
	if a.err != nil {
		return nil, a.err
	}
	return a.result.AsMap()
}

// do runs cmd and returns its answer, or the context's error as soon as the context ends.
//
// rueidis watches a context while a command is in its pipeline. It does not while it connects for another command, nor
// while its pipeline is full. If a context has a deadline and the connection is idle, it reads on the caller's
// goroutine, and nothing wakes that before the deadline. So a context that can be cancelled shows rueidis no deadline,
// see [adapter.Ending]. Until all connections are made, there is one more goroutine instead. rueidis makes them when
// they are first needed, four by default. In a Cluster that is so for each node, because some answer while another one
// does not. (A connection that broke by itself since, or the first one to a node to which a slot has moved, may still
// delay a caller for Dialer.Timeout.)
func (s *Store) do(ctx context.Context, cmd rueidis.Completed) answer {
	if err := ctx.Err(); err != nil {
		return answer{err: err}
	}
	deadline := s.deadlines.Of(ctx)
	defer deadline.Leave()
	server := s.serverOf(cmd)
	steady := server.Reached()
	switch {
	case ctx.Done() == nil && deadline == nil:
		return answer{result: s.sendTo(ctx, server, cmd)}
	case ctx.Done() == nil && steady:
		return answer{result: s.sendTo(adapter.Bounded(ctx, deadline), server, cmd)}
	case steady:
		defer s.piped.Add(-1)
		if s.piped.Add(1) <= maxPiped {
			ctx := s.deadlines.Until(ctx, deadline)
			defer ctx.Stop()
			return answer{result: s.sendTo(ctx, server, cmd)}
		}
	}
	a := await(ctx, deadline, func(ctx context.Context) rueidis.RedisResult { return s.sendTo(ctx, server, cmd) })
	if a.err != nil {
		s.note(server, false)
	}
	return a
}

// sendTo sends cmd, records whether the server answers, and leaves it if it answers as a replica.
func (s *Store) sendTo(ctx context.Context, server *adapter.Steady, cmd rueidis.Completed) rueidis.RedisResult {
	result := s.send(ctx, cmd)
	s.note(server, result.NonRedisError() == nil)
	if s.refusedByReplica(result.Error()) && s.address.note() {
		s.leave(ctx)
	}
	return result
}

// clientCode is what has panicked, if that was the program's own rueidis.Client around rueidis.
const clientCode = "the rueidis client"

// send sends cmd. If its pushes are to come first, it sends PING in front, in the same write and over the same
// connection, see package mark. A server that refuses notes each refusal in its log, so it gets no PING again.
//
// It takes the pipelined connection also with DisableAutoPipelining: there, rueidis watches the context. Over one of
// the pool, a renewal would read its own answer, without a turn of rueidis' two goroutines. But the program may
// have taken the whole pool, and then the lease would be lost.
func (s *Store) send(ctx context.Context, cmd rueidis.Completed) (result rueidis.RedisResult) {
	var failed error
	defer func() {
		if failed != nil {
			result = rueidis.NewErrorResult(failed)
		}
	}()
	defer panics.Fail(clientCode, &failed)
	cmd = cmd.ToPipe()
	if !mark.IsPushFirst(ctx) || s.noPing.Load() {
		return s.client.Do(ctx, cmd)
	}
	results := s.client.DoMulti(ctx, s.client.B().Arbitrary("PING").Build(), cmd)
	if refusal := serverError(results[0].Error()); refusal != nil && refusal.Code == "NOPERM" {
		s.noPing.Store(true)
	}
	return results[1]
}

// await runs send in a goroutine of its own and returns its result, or the context's error as
// soon as the context ends.
func await(ctx context.Context, deadline *adapter.Deadline, send func(context.Context) rueidis.RedisResult) answer {
	result, err := awaitAny(ctx, deadline, send)
	return answer{result, err}
}

// awaitAny gives send a context that ends later: rueidis prefers the end of a context to an answer that it has read.
// At the deadline alone it goes on: it may be connecting, and that may take longer than one request may.
func awaitAny[T any](
	ctx context.Context, deadline *adapter.Deadline, send func(context.Context) T,
) (result T, err error) {
	done, left := make(chan T, 1), make(chan struct{})
	go func() { done <- send(adapter.Left(ctx, left)) }()
	result, ok := yield.Await(done, ctx.Done(), deadline.Passed())
	if !ok {
		err = cmp.Or(ctx.Err(), context.DeadlineExceeded)
		go func() {
			select {
			case <-ctx.Done():
			case <-done:
			}
			close(left)
		}()
	}
	return result, err
}

// Group implements [store.Store]: on one server all keys are one group, in a Cluster those of
// a slot.
func (s *Store) Group(key string) string {
	if s.mode != rueidis.ClientModeCluster {
		return ""
	}
	return slot.Group(key)
}

// Sharded implements [store.Store].
func (s *Store) Sharded() bool { return s.mode == rueidis.ClientModeCluster }

// CloseIdleConnections implements [store.IdleCloser]: all connections are the client's, and
// only a timer ends here.
func (s *Store) CloseIdleConnections() { s.deadlines.Stop() }

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

// Server implements [store.Store]. In a Cluster it describes one of the primaries. If the
// server does not know HELLO, only the address is set.
func (s *Store) Server(ctx context.Context) (store.ServerInfo, error) {
	if s.unusable != nil {
		return store.ServerInfo{}, s.unusable
	}
	info := store.ServerInfo{Address: s.addr()}
	var fields map[string]rueidis.RedisMessage
	try := -1
	_, err, broke := s.retry.Do(ctx, true, func() (string, error) {
		try++
		hello := s.client.B().Arbitrary("HELLO")
		if s.mode == rueidis.ClientModeCluster {
			// Ask a primary that serves slots: any other node may be a replica.
			fields = nil
			node, err := s.primary(ctx, try)
			if err != nil {
				return "", err
			}
			info.Address = node.addr
			deadline := s.deadlines.Of(ctx)
			defer deadline.Leave()
			a := await(ctx, deadline, func(ctx context.Context) rueidis.RedisResult {
				return node.client.Do(ctx, hello.Build())
			})
			fields, err = a.fields()
			return "", err
		}
		var err error
		fields, err = s.do(ctx, hello.Build()).fields() // a map in RESP3, flat in RESP2
		return "", err
	})
	if refusal := serverError(err); refusal != nil && refusal.Code == "ERR" {
		return info, nil
	}
	if err != nil {
		return store.ServerInfo{}, s.explain(ctx, err, broke)
	}
	text := func(name string) string {
		field := fields[name]
		value, _ := field.ToString()
		return value
	}
	info.Product, info.Version = text("server"), text("version")
	info.Role, info.Mode = text("role"), text("mode")
	return info, nil
}

// addr names the server, or servers.
func (s *Store) addr() string {
	var addrs []string
	for addr := range s.client.Nodes() {
		addrs = append(addrs, addr)
	}
	slices.Sort(addrs)
	return strings.Join(addrs, ", ")
}
