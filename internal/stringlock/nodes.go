package stringlock

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/label"
	"github.com/holdfast-go/holdfast/internal/lifecycle"
	"github.com/holdfast-go/holdfast/internal/neighbour"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/slot"
	"github.com/holdfast-go/holdfast/internal/stack"
	"github.com/holdfast-go/holdfast/internal/timelimit"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// RequestTimeout bounds a request that has no other limit.
const RequestTimeout = 2 * time.Second

// Nodes are the servers of locks that are string keys: one server, or several that know nothing
// of each other. On several servers a lock belongs to the client that has its key on a majority
// of them.
type Nodes struct {
	list  []store.Store
	life  *lifecycle.Group
	until *request.Canceller // sends in the background
}

// NewNodes makes one. It does no I/O.
func NewNodes(list []store.Store) *Nodes {
	n := &Nodes{list: slices.Clone(list), life: lifecycle.New()}
	n.until = request.NewCanceller(request.New(request.Config{
		Store: list[0], Timeout: RequestTimeout, Now: clock.Now, Random: mathrand.Float64, Life: n.life,
	}))
	return n
}

// Len returns the number of servers, and Quorum how many are a majority of them.
func (n *Nodes) Len() int { return len(n.list) }

// Quorum is how many servers are a majority.
func (n *Nodes) Quorum() int { return len(n.list)/2 + 1 }

// Close ends the background work. Keys that it was to delete expire.
func (n *Nodes) Close() { n.life.Stop() }

// Lock is one acquisition: the key, and the value that says whose it is.
type Lock struct {
	Key, Value string
	TTL        time.Duration // in whole milliseconds
}

// Answer is what a script found.
type Answer uint8

// The answers.
const (
	None    Answer = iota // no answer
	Held                  // the key has the value; after a release: it had it until then
	Expired               // there is no such key
	Taken                 // the key has another value
)

// Reply is what one server said.
type Reply struct {
	Node   int
	Answer Answer
	Left   time.Duration // the TTL of the key that is taken; negative: unknown
	Value  string        // of the key that is taken; empty: not known
	Err    error         // no answer: a refusal, or an unknown outcome
}

// Unknown reports whether the request may have taken effect, or may do so later.
func (r Reply) Unknown() bool { return r.Err != nil && !request.Definite(r.Err) }

// Acquire asks every server for the key. limit bounds each request.
func (n *Nodes) Acquire(ctx context.Context, limit time.Duration, k Lock) []Reply {
	args := []string{k.Value, wire.Millis(k.TTL)}
	return n.ask(ctx, limit, acquireScript, k.Key, func(int) []string { return args })
}

// Release deletes the key if it has the value.
func (n *Nodes) Release(ctx context.Context, limit time.Duration, k Lock) []Reply {
	return n.ask(ctx, limit, releaseScript, k.Key, func(i int) []string {
		return []string{k.Value, n.publish(i), Channel(k.Key)}
	})
}

// publish is the command of the message that a key is free.
func (n *Nodes) publish(i int) string {
	if n.list[i].Sharded() {
		return "SPUBLISH"
	}
	return "PUBLISH"
}

// Channel is where a release says that the key is free. It is in the slot of the key. It is
// empty for the few keys that have no such channel.
func Channel(key string) string {
	if key != "" && !strings.ContainsAny(key, "{}") {
		return "holdfast:{" + key + "}:free:" + key
	}
	tag := key
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if end := strings.IndexByte(key[open+1:], '}'); end > 0 {
			tag = key[open+1 : open+1+end]
		}
	}
	channel := "holdfast:{" + tag + "}:free:" + key
	if slot.Of(channel) != slot.Of(key) {
		return ""
	}
	return channel
}

// Extend gives the key its TTL from now on, if it has the value. With longer, it never makes the TTL
// shorter.
func (n *Nodes) Extend(ctx context.Context, limit time.Duration, k Lock, longer bool) []Reply {
	args := []string{k.Value, wire.Millis(k.TTL), "0"}
	if longer {
		args[2] = "1"
	}
	return n.ask(ctx, limit, extendScript, k.Key, func(int) []string { return args })
}

// Read asks which client has a key. Expired: nobody. Taken: the reply has the value.
func (n *Nodes) Read(ctx context.Context, limit time.Duration, key string) []Reply {
	return n.ask(ctx, limit, readScript, key, func(int) []string { return nil })
}

// Evict deletes a key, whichever client has it.
func (n *Nodes) Evict(ctx context.Context, limit time.Duration, key string) []Reply {
	message := rand.Text()
	return n.ask(ctx, limit, evictScript, key, func(i int) []string {
		return []string{n.publish(i), Channel(key), message}
	})
}

// query is a script for every server.
type query struct {
	n      *Nodes
	limit  time.Duration
	action *script.Script
	key    string
	args   func(i int) []string
}

// ask sends a script to all servers at once. The replies are in the order of the servers.
func (n *Nodes) ask(ctx context.Context, limit time.Duration, action *script.Script, key string,
	args func(i int) []string,
) []Reply {
	q := query{n, limit, action, key, args}
	if len(n.list) == 1 {
		return []Reply{q.send(ctx, 0)}
	}
	return q.sendAll(ctx)
}

// send asks one server.
func (q query) send(ctx context.Context, i int) Reply {
	answer, err := q.n.list[i].Run(timelimit.Within(ctx, q.limit), q.action, []string{q.key}, q.args(i))
	if err != nil {
		return Reply{Node: i, Err: err}
	}
	return parse(i, answer)
}

// sendAll asks several servers. When ctx ends, the outcome at a server that has not answered is
// unknown. The request to it goes on: a store needs no goroutine for one that nobody cancels.
func (q query) sendAll(ctx context.Context) []Reply {
	replies, done := make([]Reply, q.n.Len()), make(chan Reply, q.n.Len())
	asking := ctx
	if ctx.Err() == nil {
		asking = timelimit.Lasting(ctx)
	}
	for i := range replies {
		send := func() {
			stack.Grow()
			done <- q.send(asking, i)
		}
		if !q.n.life.Go(label.Caller, send) {
			send()
		}
	}
	for range replies {
		select {
		case r := <-done:
			replies[r.Node] = r
		case <-ctx.Done():
			for i, r := range replies {
				if r.Answer == None && r.Err == nil {
					replies[i] = Reply{Node: i, Err: ctx.Err()}
				}
			}
			return replies
		}
	}
	return replies
}

// errAnswer marks an answer that no script gives.
var errAnswer = errors.New("holdfast: the server's answer is in no known format")

func parse(node int, answer string) Reply {
	word, rest, more := strings.Cut(answer, " ")
	r := Reply{Node: node, Left: -1}
	if more {
		left, value, _ := strings.Cut(rest, " ")
		r.Value = value
		if ms, err := strconv.ParseFloat(left, 64); err == nil {
			r.Left = neighbour.Left(ms)
		}
	}
	switch word {
	case "granted", "released", "evicted", "held":
		r.Answer = Held
	case "expired", "free":
		r.Answer = Expired
	case "taken", "busy":
		r.Answer = Taken
	default:
		r.Err = errAnswer
	}
	return r
}

// Count returns how many servers gave that answer.
func Count(replies []Reply, what Answer) (count int) {
	for _, r := range replies {
		if r.Err == nil && r.Answer == what {
			count++
		}
	}
	return count
}

// GiveUp releases what an acquisition that failed may have, or may yet get. It waits for the
// servers that answer, at most for limit and until ctx ends. To the others it sends until one of
// them has released the key, or until a late grant would have expired.
func (n *Nodes) GiveUp(ctx context.Context, limit time.Duration, k Lock, replies []Reply) {
	done := make(chan struct{}, len(replies))
	waiting := 0
	for _, r := range replies {
		if !r.Unknown() && (r.Err != nil || r.Answer != Held) {
			continue // it has nothing, and never will
		}
		waiting++
		n.clear(r.Node, limit, k, r.Unknown(), sync.OnceFunc(func() { done <- struct{}{} }))
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for ; waiting > 0; waiting-- {
		select {
		case <-done:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Clear releases the key on one server in the background. If doubt is set, a request that could
// set it again may still be under way, so it sends until it has released the key, or until that
// would have expired.
func (n *Nodes) Clear(i int, k Lock, doubt bool) { n.clear(i, RequestTimeout, k, doubt, func() {}) }

// clear calls sent after each request.
func (n *Nodes) clear(i int, limit time.Duration, k Lock, doubt bool, sent func()) {
	channel := Channel(k.Key)
	if n.Len() > 1 {
		// Nobody had a majority, or its release was told already. A message would make all
		// waiters try at once, and split the servers again.
		channel = ""
	}
	until := clock.Now() + k.TTL
	n.until.Until(request.Message{Until: until, SilentUntil: until, Send: func(ctx context.Context) (bool, error) {
		defer sent()
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		args := []string{k.Value, n.publish(i), channel}
		answer, err := n.list[i].Run(limited, releaseScript, []string{k.Key}, args)
		return err == nil && (!doubt || answer == "released"), err
	}})
}
