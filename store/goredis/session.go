package goredis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/adapter"
	"github.com/holdfast-go/holdfast/store"
)

// maxSilence is how long a connection may be silent while somebody waits for a push, before it gets a
// PING. If it has no answer after half as long again, and the server answers elsewhere, it is given up.
// So a waiter whose connection a router has forgotten is served within 5 s. While nobody waits, nothing is
// sent.
const maxSilence = 2 * time.Second

// serverDoubts is how often the server may not answer elsewhere either, before the subscription is given up all
// the same. At a server that is silent, this takes 30 s.
const serverDoubts = 20

// A server that was replaced and lives on keeps its subscriptions, but receives no pushes. So
// a subscription checks that it is where pushes come from. In a Cluster it compares with what
// the client knows. Behind Sentinel it asks the primary whether it counts the subscription,
// which costs a request every few seconds. Without Sentinel, another server may take over the
// address, and the old one refuses as a replica. Then the subscription is checked, too,
// until a primary counts it.
const (
	checkClientEvery  = time.Second
	checkPrimaryEvery = 3 * time.Second
)

var (
	errSilent   = errors.New("the server does not answer")
	errReplaced = errors.New("another server is the primary now")
)

// feeds configures subscriptions.
type feeds struct{ silence time.Duration }

// openPubSub makes a PubSub for a node. It connects with its first command.
func (s *Store) openPubSub(f *adapter.Feed) (*redis.PubSub, error) {
	if s.cluster == nil {
		return s.single.client.Subscribe(f.Context), nil
	}
	if f.Node == "" { // messages that go to all nodes
		return s.cluster.client.Subscribe(f.Context), nil
	}
	node := s.cluster.node(f.Context, f.Node)
	if node == nil {
		s.cluster.client.ReloadState(f.Context)
		return nil, fmt.Errorf("%s: %w", f.Node, errUnknownNode)
	}
	return node.Subscribe(f.Context), nil
}

// session opens a connection, subscribes and receives until the connection breaks. It reports
// whether the server has said anything.
//
// Each connection gets a PubSub of its own. go-redis would reconnect and subscribe again under
// the same PubSub, but it has lost channels in doing so, and does not report it.
func (s *Store) session(f *adapter.Feed) (worked bool, err error) {
	ps, err := s.openPubSub(f)
	if err != nil {
		return false, err
	}
	var closing sync.Once
	var reason error
	end := func(err error) {
		closing.Do(func() {
			reason = err
			ps.Close() //nolint:errcheck // it is over either way
		})
	}
	unhook := context.AfterFunc(f.Context, func() { end(context.Canceled) })
	defer unhook()

	if err := s.sendChanges(f, ps); err != nil {
		if s.cluster != nil && errors.Is(err, redis.ErrClosed) {
			s.cluster.forget(f.Node)
		}
		end(err)
		return false, err
	}
	var heard atomic.Int64 // when the server has said something last, in ns since began
	began := time.Now()
	var writing sync.WaitGroup
	ended := make(chan struct{})
	writing.Go(func() { s.writeChanges(f, ps, began, &heard, ended, end) })
	for {
		var msg any
		if msg, err = ps.Receive(f.Context); err != nil && Refusal(err) == nil {
			break
		}
		worked = true
		heard.Store(int64(time.Since(began)))
		if err != nil && endsSession(f, err) {
			break
		}
		switch msg := msg.(type) {
		case *redis.Subscription:
			switch msg.Kind {
			case "subscribe", "ssubscribe":
				f.Confirmed(msg.Channel)
			case "unsubscribe", "sunsubscribe":
				f.Unsubscribed(msg.Channel)
			}
		case *redis.Message:
			f.Deliver(msg.Channel, msg.Payload)
		}
	}
	close(ended)
	end(err)
	writing.Wait()
	return worked, reason
}

// endsSession reports whether a refusal ends the session. The answer does not say which
// channel it is about, but a redirection names the slot.
func endsSession(f *adapter.Feed, err error) bool {
	refusal := Refusal(err)
	if slot, to, _, ok := adapter.Redirection(refusal); ok {
		f.Moved("", slot, to)
		return false
	}
	if adapter.IsUnsubscribeRefusal(refusal) {
		f.UnsubscribeRefused()
		return false
	}
	return adapter.Transient(refusal) || f.SubscribeRefused("", err)
}

// quiet decides what to do about a subscription that says nothing. Its times are since the session began.
// They are times, not ticks: a session that was busy with something else has lost none.
type quiet struct {
	longest time.Duration // see maxSilence
	asked   time.Duration // when it was sent a PING; 0: it has spoken since, or was never asked
	doubts  int           // since that PING
}

// sign is what to do about a silent subscription.
type sign uint8

const (
	goOn   sign = iota
	ask         // with a PING
	doubt       // it has no answer: find out whether the server answers elsewhere
	giveUp      // it did not, for long
)

// next says what to do now, and when to look again. heard is when the server has said something last, and awaited
// whether somebody waits for a push.
//
// If the subscription has rested when a wait begins, it is asked at once: it may have been dead for long.
func (q *quiet) next(now, heard time.Duration, awaited bool) (do sign, again time.Duration) {
	if heard >= q.asked {
		q.asked, q.doubts = 0, 0
	}
	switch {
	case !awaited:
		return goOn, q.longest / 2
	case q.asked == 0 && now-heard < q.longest:
		return goOn, heard + q.longest - now
	case q.asked == 0:
		q.asked = now
		return ask, q.longest / 2
	case now-q.asked < q.longest/2:
		return goOn, q.asked + q.longest/2 - now
	case q.doubts == serverDoubts:
		return giveUp, 0
	}
	q.doubts++
	return doubt, q.longest / 4
}

// writeChanges sends the server the changed subscriptions, and a PING when it is silent, until
// the session has ended.
func (s *Store) writeChanges(
	f *adapter.Feed, ps *redis.PubSub, began time.Time, heard *atomic.Int64, ended <-chan struct{}, end func(error),
) {
	silence := quiet{longest: s.feeds.silence}
	look := time.NewTimer(s.feeds.silence / 2)
	defer look.Stop()
	var check <-chan time.Time
	if s.retry.Failover {
		tick := time.NewTicker(checkPrimaryEvery)
		if s.cluster != nil {
			tick.Reset(checkClientEvery)
		}
		defer tick.Stop()
		check = tick.C
	}
	var again <-chan time.Time
	defer func() {
		if again != nil {
			s.signalDemoted() // for the next session
		}
	}()
	for {
		var err error
		select {
		case <-ended:
			return
		case <-f.Wake:
			err = s.sendChanges(f, ps)
		case <-check:
			err = s.check(f)
		case <-s.demoted:
			again, err = s.checkDemotion(f)
		case <-again:
			again, err = s.checkDemotion(f)
		case <-look.C:
			spoke := heard.Load()
			do, next := silence.next(time.Since(began), time.Duration(spoke), f.Awaited())
			if do == ask {
				err = ps.Ping(f.Context)
			}
			if do == giveUp || do == doubt && s.answersElsewhere(f) && heard.Load() == spoke {
				err = errSilent
			}
			look.Reset(next)
		}
		if err != nil {
			end(err)
			return
		}
	}
}

// answersElsewhere reports whether f's server answers on another connection. If not, a new subscription
// would only add to its load.
func (s *Store) answersElsewhere(f *adapter.Feed) bool {
	at := s.single
	if s.cluster != nil {
		if at = s.cluster.serverAt(f); at == nil {
			return true
		}
	}
	ctx, cancel := context.WithTimeout(f.Context, s.feeds.silence/2)
	defer cancel()
	return at.answers(ctx)
}

// check returns an error if f's subscriptions are not where pushes come from.
func (s *Store) check(f *adapter.Feed) error {
	if s.misplaced(f) {
		return errReplaced
	}
	return nil
}

// checkDemotion checks after a replica has answered, and says when to check again: until a primary counts
// the subscription. The address may lead to the new primary only later, and the client's pool may
// have connections to both servers. So one connection says both, and one to a replica is left.
func (s *Store) checkDemotion(f *adapter.Feed) (again <-chan time.Time, err error) {
	channel := f.ConfirmedChannel()
	if channel == "" {
		return time.After(checkClientEvery), nil
	}
	own := s.single.get()
	defer s.single.put(own)
	both := own.pool.Pipeline()
	hello, count := both.Do(f.Context, "hello"), both.PubSubNumSub(f.Context, channel)
	_, _ = both.Exec(f.Context) // each has its own error
	var info store.ServerInfo
	describe(&info, hello.Val())
	switch {
	case info.Role == "replica":
		own.leave(f.Context, true)
		return time.After(checkClientEvery), nil
	case count.Err() != nil && Refusal(count.Err()) == nil:
		return time.After(checkClientEvery), nil
	case count.Err() == nil && count.Val()[channel] == 0 && f.HasConfirmed(channel):
		return time.After(0), errReplaced // and the next connection may lead to the old server once more
	}
	return nil, nil
}

// signalDemoted says that a replica has answered.
func (s *Store) signalDemoted() {
	select {
	case s.demoted <- struct{}{}:
	default:
	}
}

// misplaced reports whether f's subscriptions are not where pushes come from. If the server
// does not answer, that is not known.
func (s *Store) misplaced(f *adapter.Feed) bool {
	channel := f.ConfirmedChannel()
	if channel == "" {
		return false
	}
	if s.cluster != nil {
		return f.Node != "" && s.cluster.misplaced(f, channel)
	}
	ctx, cancel := context.WithTimeout(f.Context, s.feeds.silence/2) // the caller also looks for silence
	defer cancel()
	lane := s.single.get()
	defer s.single.put(lane)
	count, err := lane.pool.PubSubNumSub(ctx, channel).Result()
	return err == nil && count[channel] == 0 && f.HasConfirmed(channel)
}

// sendChanges sends the server what has changed. In a Cluster it sends one channel at a time:
// a refusal of several would not say where each of them belongs.
func (s *Store) sendChanges(f *adapter.Feed, ps *redis.PubSub) error {
	came, went := f.Changes()
	if f.Node == "" {
		if len(went) > 0 {
			if err := ps.Unsubscribe(f.Context, went...); err != nil {
				return err
			}
		}
		if len(came) > 0 {
			return ps.Subscribe(f.Context, came...)
		}
		return nil
	}
	for _, name := range went {
		if err := ps.SUnsubscribe(f.Context, name); err != nil {
			return err
		}
	}
	for _, name := range came {
		if err := ps.SSubscribe(f.Context, name); err != nil {
			return err
		}
	}
	return nil
}
