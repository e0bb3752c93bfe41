package rueidis

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/adapter"
	"github.com/holdfast-go/holdfast/internal/mark"
	"github.com/holdfast-go/holdfast/script"
)

// leavePause is how long after leaving a connection the next one may be left. Requests behind
// QUIT get no answer, so this must not happen all the time.
const leavePause = 100 * time.Millisecond

// address notices that another server became the primary behind the single server's address,
// and that the client's connections are still to the old one. rueidis does not.
//
// rueidis spreads requests over several connections by their keys' slots, at random, and does
// not lend them. But requests without a key all use the first. So after the first sign the
// store hides its keys from rueidis, and when a replica answers, it closes that connection.
type address struct {
	demoted chan struct{} // buffers one signal: a replica has answered
	moved   atomic.Bool   // a replica has ever answered

	mu   sync.Mutex // guards left
	left time.Time  // when a connection was left last
}

// note records that a replica has answered, and reports whether to leave a connection.
func (a *address) note() (leave bool) {
	select {
	case a.demoted <- struct{}{}:
	default:
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if first := !a.moved.Swap(true); !first && time.Since(a.left) < leavePause {
		return false
	}
	a.left = time.Now()
	return true
}

// refusedByReplica reports whether a single server refused a request as a replica.
func (s *Store) refusedByReplica(err error) bool {
	return err != nil && s.mode == rueidis.ClientModeStandalone && adapter.FromReplica(serverError(err))
}

// leave makes a replica close the connection of requests without a key. The next request makes
// another. QUIT needs no permission. rueidis notices the end by the PING. If that connection
// leads to a primary, the refusal came late, over one that is not used any more.
func (s *Store) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, replaceLimit)
	defer cancel()
	say := func(word string) rueidis.RedisResult {
		return s.client.Do(ctx, s.client.B().Arbitrary(word).Build().ToPipe())
	}
	if fromReplica(say("HELLO")) {
		_, _ = say("QUIT"), say("PING")
	}
}

// leaveIdle does so with a connection of the pool.
func (s *Store) leaveIdle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, replaceLimit)
	defer cancel()
	s.client.DoMulti(ctx, s.client.B().Arbitrary("QUIT").Blocking(), s.client.B().Arbitrary("PING").Build())
}

// eval builds the request of an action. Until the other connections are made, a renewal uses the first one, which
// stands: beside goroutines that use up the processors, making one takes longer than many a lease lasts. In a Cluster,
// rueidis needs the keys.
func (s *Store) eval(
	ctx context.Context, b rueidis.Builder, action *script.Script, withText bool, keys, args []string,
) rueidis.Completed {
	word, what := "EVALSHA", action.SHA1
	if mark.IsAwaited(ctx) {
		word = awaitedWord
	}
	if withText {
		word, what = "EVAL", action.Text
	}
	cmd := b.Arbitrary(word, what, strconv.Itoa(len(keys)))
	young := s.mode != rueidis.ClientModeCluster && !s.steady.Reached()
	if s.address.moved.Load() || young && action.Name == script.Renew.Name {
		return cmd.Args(keys...).Args(args...).Build()
	}
	return cmd.Keys(keys...).Args(args...).Build()
}
