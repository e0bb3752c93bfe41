package goredis

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/adapter"
)

// maxRedirects bounds the redirections of one request. A slot that moves costs two.
const maxRedirects = 5

// cluster sends requests to the nodes of a Cluster.
//
// ClusterClient.Process would do that too, but it silently sends a command again when a
// connection broke: a refusal of the second request would pass for one of the first. So the
// store only asks it which node has a key.
type cluster struct {
	client *redis.ClusterClient

	mu      sync.Mutex // guards clients; no I/O while it is held
	clients map[string]*server
}

// once is a command that go-redis does not send again by itself.
type once struct{ redis.Cmder }

// NoRetry implements a method that [redis.Cmder] may have.
func (once) NoRetry() bool { return true }

var errUnknownNode = errors.New("the node that the slot has moved to is not known yet")

// clientFor returns the client for requests to a node.
func (c *cluster) clientFor(node *redis.Client) *server {
	addr := node.Options().Addr
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.clients[addr]; v != nil && v.client == node {
		return v
	}
	if c.clients == nil {
		c.clients = make(map[string]*server)
	}
	if v := c.clients[addr]; v != nil {
		v.close() // its client was closed, too
	}
	v := newServer(node)
	c.clients[addr] = v
	return v
}

// closeIdle closes the store's own connections that nothing uses.
func (c *cluster) closeIdle() {
	c.mu.Lock()
	views := slices.Collect(maps.Values(c.clients))
	c.mu.Unlock()
	for _, v := range views {
		v.close()
	}
}

// serverAt returns the node of a subscription, nil if it is not known.
func (c *cluster) serverAt(f *adapter.Feed) *server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clients[f.Node]
}

// forget is called when the client of a node was closed, because the node has left the Cluster.
func (c *cluster) forget(addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.clients[addr]; v != nil {
		v.close()
		delete(c.clients, addr)
	}
}

// known returns the node at addr if it has been used, without I/O.
func (c *cluster) known(_ context.Context, addr string) *redis.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.clients[addr]; known != nil {
		return known.client
	}
	return nil
}

// node returns the node at addr, nil if the client does not know it. go-redis may read the slots again for
// that, over a connection that may be dead.
func (c *cluster) node(ctx context.Context, addr string) *redis.Client {
	if known := c.known(ctx, addr); known != nil {
		return known
	}
	var mu sync.Mutex
	var found *redis.Client
	_ = c.client.ForEachShard(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		if node.Options().Addr == addr {
			found = node
		}
		return nil
	})
	return found
}

// process runs cmds on the node that owns key, and follows redirections. It returns when ctx ends or deadline passes.
//
// If the Cluster is steady and the nodes are known, finding one needs no I/O, so only [own.send] may need a goroutine.
// Otherwise all of it has one.
func (c *cluster) process(
	ctx context.Context, deadline *adapter.Deadline, steady bool, how urgency, key string, cmds commands,
) error {
	if steady {
		err := c.follow(ctx, key, c.known, func(v *server, asking bool) error {
			return v.send(ctx, deadline, steady, how, cmds.behind(ctx, asking))
		})
		if !errors.Is(err, errUnknownNode) {
			return err
		}
	}
	return await(ctx, deadline, func(ctx context.Context) error { return c.search(ctx, how, key, cmds) })
}

// search is process that finds nodes that are not known yet.
func (c *cluster) search(ctx context.Context, how urgency, key string, cmds commands) error {
	err := c.follow(ctx, key, c.node, func(v *server, asking bool) error {
		return v.sendHere(ctx, how, cmds.behind(ctx, asking))
	})
	if !errors.Is(err, errUnknownNode) || len(cmds.more) > 0 {
		return err
	}
	// The slot moves to a node that had none, which only ClusterClient itself finds. It may
	// follow several redirections, so a refusal is not a definite answer.
	err = c.client.Process(ctx, once{cmds.first})
	if Refusal(err) != nil && !redis.HasErrorPrefix(err, "NOSCRIPT ") {
		return errors.New(err.Error())
	}
	return err
}

// behind puts ASKING in front of the commands, for a node that a slot moves to.
func (cmds commands) behind(ctx context.Context, asking bool) commands {
	if !asking {
		return cmds
	}
	return commands{redis.NewStatusCmd(ctx, "asking"), append([]redis.Cmder{cmds.first}, cmds.more...)}
}

// follow calls send with the node that owns key, and with each node that it is redirected to. find returns the node
// at an address, nil if it finds none.
func (c *cluster) follow(
	ctx context.Context, key string, find func(ctx context.Context, addr string) *redis.Client,
	send func(v *server, asking bool) error,
) error {
	node, err := c.client.MasterForKey(ctx, key)
	switch {
	case errors.Is(err, redis.ErrClosed):
		return adapter.ClosedClient("go-redis")
	case err != nil:
		return adapter.Unsent(err)
	}
	asking := false
	for hop := 0; ; hop++ {
		err := send(c.clientFor(node), asking)
		if err == nil {
			return nil
		}
		refusal := Refusal(err)
		if refusal == nil || adapter.Transient(refusal) {
			// The node may be gone, or a replica by now. go-redis asks in the background, and
			// limits how often.
			c.client.ReloadState(ctx)
		}
		if refusal != nil && refusal.Code == "CLIENT" || errors.Is(err, redis.ErrClosed) {
			c.forget(node.Options().Addr)
			return adapter.Unsent(redis.ErrClosed) // the node has left the Cluster
		}
		_, to, ask, redirected := adapter.Redirection(refusal)
		if !redirected || hop == maxRedirects {
			return err
		}
		if node = find(ctx, to); node == nil {
			return adapter.Unsent(errUnknownNode)
		}
		asking = ask
	}
}

// nodesOf implements [adapter.Driver].
func (c *cluster) nodesOf(ctx context.Context, channels []string, stale bool) ([]string, error) {
	if stale {
		c.client.ReloadState(ctx)
	}
	nodes := make([]string, len(channels))
	for i, channel := range channels {
		node, err := c.client.MasterForKey(ctx, channel)
		if err != nil {
			return nil, err
		}
		nodes[i] = node.Options().Addr
	}
	return nodes, nil
}

// misplaced reports whether the client knows another node for a channel that f listens to. The
// client refreshes its view of the Cluster from time to time.
func (c *cluster) misplaced(f *adapter.Feed, channel string) bool {
	node, err := c.client.MasterForKey(f.Context, channel)
	return err == nil && node.Options().Addr != f.Node
}
