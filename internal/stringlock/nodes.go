package stringlock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/label"
	"github.com/holdfast-go/holdfast/internal/lifecycle"
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

	mu       sync.Mutex // guards the field below
	clearing map[clearing]int
}

// clearing is a release that is being sent in the background.
type clearing struct {
	node       int
	key, value string
}

// NewNodes makes one. It does no I/O.
func NewNodes(list []store.Store) *Nodes {
	n := &Nodes{list: slices.Clone(list), life: lifecycle.New(), clearing: make(map[clearing]int)}
	n.until = request.NewCanceller(request.New(request.Config{
		Store: list[0], Timeout: RequestTimeout, Now: clock.Now, Random: mathrand.Float64, Life: n.life,
	}))
	return n
}

// Len returns the number of servers, and Quorum how many are a majority of them.
func (n *Nodes) Len() int { return len(n.list) }

// Quorum is how many servers are a majority.
func (n *Nodes) Quorum() int { return len(n.list)/2 + 1 }

// Pending returns how many requests are being repeated in the background.
func (n *Nodes) Pending() int { return n.until.Pending() }

// Close ends the background work. Keys that it was to delete expire.
func (n *Nodes) Close() { n.life.Stop() }

// Lock is one acquisition: the keys, and the value that says whose they are.
type Lock struct {
	Keys  []string
	Value string
	TTL   time.Duration // in whole milliseconds
	Own   []string      // other values of the keys that are the caller's own
}

// Answer is what a script found.
type Answer uint8

// The answers.
const (
	None    Answer = iota // no answer
	Held                  // the keys have the value; after a release: they had it until then
	Expired               // a key is missing
	Taken                 // a key has another value
)

// Reply is what one server said.
type Reply struct {
	Node   int
	Answer Answer
	Left   time.Duration // the TTL of the keys, or of the key that is taken; negative: unknown
	Value  string        // of the key that is taken; empty: not known
	Err    error         // no answer: a refusal, or an unknown outcome
}

// Unknown reports whether the request may have taken effect, or may do so later. A server for
// whose answer nobody waited is another matter, see Silent.
func (r Reply) Unknown() bool { return r.Err != nil && !request.Definite(r.Err) && !r.Silent() }

// Silent reports whether nobody waited for the answer.
func (r Reply) Silent() bool { return errors.Is(r.Err, errSilent) }

// Wait says how long to wait for replies. The zero value waits for all.
type Wait struct {
	Early func(heard []Reply) bool // ends the wait before all have answered
	Late  func(r Reply)            // receives the others, one at a time; it may block
}

// Acquire asks every server for the keys. limit bounds each request.
//
// A server to which a release of the same value is still being sent is not asked, because that
// release could end the new acquisition.
func (n *Nodes) Acquire(ctx context.Context, limit time.Duration, k Lock, w Wait) []Reply {
	args := append([]string{k.Value, wire.Millis(k.TTL)}, k.Own...)
	return n.ask(ctx, limit, acquireScript, k.Keys, func(i int) []string {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, key := range k.Keys {
			if n.clearing[clearing{i, key, k.Value}] > 0 {
				return nil
			}
		}
		return args
	}, w)
}

// errClearing says that a server was not asked.
var errClearing = fmt.Errorf("%w: the release of an earlier acquisition with this value is still under way",
	store.ErrNotSent)

// Release deletes the keys that have the value.
func (n *Nodes) Release(ctx context.Context, limit time.Duration, k Lock, w Wait) []Reply {
	return n.ask(ctx, limit, releaseScript, k.Keys, func(i int) []string { return n.releaseArgs(i, k) }, w)
}

func (n *Nodes) releaseArgs(i int, k Lock) []string {
	return n.publish(append(make([]string, 0, 2+len(k.Keys)), k.Value), i, k.Keys...)
}

// publish adds the command and the channels of the messages that keys are free.
func (n *Nodes) publish(args []string, i int, keys ...string) []string {
	command := "PUBLISH"
	if n.list[i].Sharded() {
		command = "SPUBLISH"
	}
	args = append(args, command)
	for _, key := range keys {
		args = append(args, Channel(key))
	}
	return args
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

// How says how to extend.
type How struct {
	Again  bool // set keys that are missing
	Longer bool // never make a TTL shorter
}

// Extend gives the keys that have the value their TTL from now on.
func (n *Nodes) Extend(
	ctx context.Context, limit time.Duration, k Lock, how How, w Wait,
) []Reply {
	args := []string{k.Value, wire.Millis(k.TTL), bit(how.Again), bit(how.Longer)}
	return n.ask(ctx, limit, extendScript, k.Keys, func(int) []string { return args }, w)
}

func bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// Left asks how long the keys have the value.
func (n *Nodes) Left(ctx context.Context, limit time.Duration, k Lock) []Reply {
	return n.ask(ctx, limit, leftScript, k.Keys, func(int) []string { return []string{k.Value} }, Wait{})
}

// Read asks which client has a key. Expired: nobody. Taken: the reply has the value.
func (n *Nodes) Read(ctx context.Context, limit time.Duration, key string) []Reply {
	return n.ask(ctx, limit, readScript, []string{key}, func(int) []string { return nil }, Wait{})
}

// Evict deletes a key, whichever client has it.
func (n *Nodes) Evict(ctx context.Context, limit time.Duration, key string) []Reply {
	message := rand.Text()
	return n.ask(ctx, limit, evictScript, []string{key}, func(i int) []string {
		return append(n.publish(nil, i, key), message)
	}, Wait{})
}

var lateLabel = label.New("string lock: late replies")

// errSilent is the error of a server that has not answered when the wait ended.
var errSilent = errors.New("no answer yet")

// ask sends a script to all servers at once. The replies are in the order of the servers.
func (n *Nodes) ask(ctx context.Context, limit time.Duration, action *script.Script, keys []string,
	args func(i int) []string, w Wait,
) []Reply {
	q := query{n: n, limit: limit, action: action, keys: keys, args: args}
	if len(n.list) == 1 {
		return []Reply{q.send(ctx, 0)}
	}
	return n.askAll(ctx, q, w)
}

// query is a script for every server.
type query struct {
	n      *Nodes
	limit  time.Duration
	action *script.Script
	keys   []string
	args   func(i int) []string
}

// send asks one server.
func (q query) send(ctx context.Context, i int) Reply {
	args := q.args(i)
	if args == nil && q.action == acquireScript {
		return Reply{Node: i, Err: errClearing}
	}
	answer, err := q.n.list[i].Run(timelimit.Within(ctx, q.limit), q.action, q.keys, args)
	if err != nil {
		return Reply{Node: i, Err: err}
	}
	return parse(i, answer)
}

// askAll asks several servers. When ctx ends, the outcome at a server that has not answered is
// unknown. A short request to it goes on: a store needs no goroutine for one that nobody cancels.
func (n *Nodes) askAll(ctx context.Context, q query, w Wait) []Reply {
	replies, done := make([]Reply, len(n.list)), make(chan Reply, len(n.list))
	asking := ctx
	if ctx.Err() == nil && q.limit <= RequestTimeout { // so Close never waits for long
		asking = timelimit.Lasting(ctx)
	}
	for i := range n.list {
		replies[i] = Reply{Node: i, Err: errSilent}
		send := func() {
			stack.Grow()
			done <- q.send(asking, i)
		}
		if !n.life.Go(label.Caller, send) {
			send()
		}
	}
	heard := make([]Reply, 0, len(n.list))
	for len(heard) < len(n.list) && (w.Early == nil || !w.Early(heard)) {
		select {
		case r := <-done:
			replies[r.Node] = r
			heard = append(heard, r)
		case <-ctx.Done():
			for i := range replies {
				if replies[i].Silent() {
					replies[i].Err = ctx.Err()
				}
			}
			return replies
		}
	}
	if rest := len(n.list) - len(heard); rest > 0 && w.Late != nil {
		n.life.Go(lateLabel, func() {
			for range rest {
				w.Late(<-done)
			}
		})
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
		if ms, err := strconv.ParseInt(left, 10, 64); err == nil && ms >= 0 {
			r.Left = time.Duration(ms) * time.Millisecond
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
			continue // it has nothing, and never will, or its late reply says
		}
		waiting++
		doubt, first := r.Unknown(), true
		n.send(r.Node, limit, k, doubt, func() {
			if first {
				first = false
				done <- struct{}{}
			}
		})
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

// Clear releases the keys on one server in the background. If doubt is set, a request that could
// set them again may still be under way, so it sends until it has released them, or until they
// would have expired.
func (n *Nodes) Clear(i int, k Lock, doubt bool) { n.send(i, RequestTimeout, k, doubt, func() {}) }

func (n *Nodes) send(i int, limit time.Duration, k Lock, doubt bool, sent func()) {
	until, over := clock.Now()+k.TTL, false
	n.clear(i, k, 1)
	n.until.Until(request.Message{Known: until, Silent: until, Send: func(ctx context.Context) (bool, error) {
		defer sent()
		if over {
			return true, nil
		}
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		args := n.releaseArgs(i, k)
		if len(n.list) > 1 {
			// Nobody had a majority, or its release was told already. A message would make all
			// waiters try at once, and split the servers again.
			for channel := range args[2:] {
				args[2+channel] = ""
			}
		}
		answer, err := n.list[i].Run(limited, releaseScript, k.Keys, args)
		known := err == nil && (!doubt || answer == "released")
		if over = known || err != nil && !request.Transient(err) || clock.Now() >= until; over {
			n.clear(i, k, -1)
		}
		return known, err
	}})
}

// clear counts one more or one less release of these keys in the background.
func (n *Nodes) clear(i int, k Lock, more int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, key := range k.Keys {
		id := clearing{i, key, k.Value}
		if n.clearing[id] += more; n.clearing[id] == 0 {
			delete(n.clearing, id)
		}
	}
}

// refusedForGood reports whether sending again is of no use.
func refusedForGood(err error) bool { return request.Refusal(err) != nil && !request.Transient(err) }
