package suite

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/fault"
	"github.com/holdfast-go/holdfast/verify/history"
	"github.com/holdfast-go/holdfast/verify/workload"
)

// deployment is the servers that have the locks: the suite's own, or the user's.
type deployment struct {
	bench    *fault.Bench
	topology string
	own      []*redistest.Server // those that serve data; none if they are the user's
	sentinel *redistest.Sentinel
	cluster  *redistest.Cluster
	servers  workload.Servers
	addrs    []string // of all servers that notes can come from
	url      string   // of a user's server
	proxied  bool     // clients go through proxies
	mute     bool     // the servers give no account
}

// start starts the topology, or uses the user's server.
func start(bench *fault.Bench, opts Options) (*deployment, error) {
	p := &deployment{bench: bench, topology: opts.Topology, proxied: true, mute: opts.Topology == fault.Quorum}
	if opts.URL != "" {
		return p, p.theirs(opts.URL)
	}
	// The account is told over ordinary pub/sub, in a Cluster too.
	how := []redistest.Option{
		redistest.Tenant(opts.Prefix), redistest.Allow("+publish", "+pubsub|channels"), redistest.Harness(),
		redistest.Args("--enable-debug-command", "local"), // what has a server load needs it
	}
	if slices.ContainsFunc(opts.Faults, func(name string) bool { return slices.Contains(fault.Clocks(), name) }) {
		how = append(how, redistest.Clock())
	}
	err := fault.Try(func() {
		switch opts.Topology {
		case fault.Standalone:
			p.own = []*redistest.Server{redistest.Start(bench, how...)}
		case fault.Durable:
			p.own = []*redistest.Server{redistest.Start(bench, append(how, logged("always"))...)}
		case fault.EverySec:
			p.own = []*redistest.Server{redistest.Start(bench, append(how, logged("everysec"))...)}
		case fault.Sentinel:
			p.sentinel = redistest.StartSentinel(bench, how...)
			p.sentinel.Forbear(bench)
			p.own = p.sentinel.Servers
			p.servers.Sentinels, p.servers.Master = p.sentinel.Addrs(), redistest.SentinelName
		case fault.Quorum:
			p.own = redistest.Primaries(bench, 5, how...)
			for _, s := range p.own {
				p.servers.Quorum = append(p.servers.Quorum, s.URL())
			}
		case fault.Cluster:
			p.cluster = redistest.StartCluster(bench, how...)
			fault.Forbear(bench, p.cluster)
			p.own = p.cluster.Nodes
			p.servers.Nodes = p.cluster.Addrs()
		default:
			bench.Fatalf("topology %q: it is one of %s", opts.Topology, strings.Join(fault.Topologies(), ", "))
		}
	})
	if err != nil {
		return nil, err
	}
	p.addrs = redistest.Addrs(p.own)
	if len(p.own) == 1 {
		p.servers.URL = p.own[0].URL()
	}
	return p, nil
}

// logged is a server that keeps a log in one file.
func logged(fsync string) redistest.Option {
	return redistest.Args("--appendonly", "yes", "--appendfsync", fsync, "--auto-aof-rewrite-percentage", "0")
}

// theirs uses a server of the user's. With TLS a proxy sees nothing.
func (p *deployment) theirs(text string) error {
	opts, err := redis.ParseURL(text)
	if err != nil {
		return err
	}
	p.url, p.servers.URL, p.addrs = text, text, []string{opts.Addr}
	p.proxied = opts.TLSConfig == nil
	return nil
}

// shown is the address of the servers for people, without a password.
func (p *deployment) shown() string {
	if p.url == "" {
		return p.topology
	}
	u, err := url.Parse(p.url)
	if err != nil {
		return p.addrs[0]
	}
	u.User = nil
	return u.String()
}

// open connects to one of the servers; to the suite's own as a user that may do everything.
func (p *deployment) open(addr, name string) (*redis.Client, error) {
	opts := &redis.Options{Addr: addr, TLSConfig: redistest.TLS()}
	if len(p.own) > 0 {
		opts.Username, opts.Password = p.own[0].Admin()
	}
	if p.url != "" {
		var err error
		if opts, err = redis.ParseURL(p.url); err != nil {
			return nil, err
		}
		if trusted := redistest.TLS(); trusted != nil {
			opts.TLSConfig = trusted
		}
		name = "" // a fault on the suite's own servers needs it, and the user may lack the permission
	}
	opts.ClientName, opts.DisableIdentity, opts.ContextTimeoutEnabled = name, true, true
	opts.ReadTimeout, opts.WriteTimeout, opts.MaxRetries = 20*time.Second, 5*time.Second, -1
	return redis.NewClient(opts), nil
}

// skew is how far the server's clock is ahead of [history.Now], in ns, and how far that
// may be wrong. The best of several tries counts.
func skew(ctx context.Context, rdb *redis.Client) (ahead, within int64, err error) {
	for i := range 20 {
		before := history.Now()
		at, err := rdb.Time(ctx).Result()
		if err != nil {
			return 0, 0, fmt.Errorf("the server's clock: %w", err)
		}
		after := history.Now()
		if half := (after - before) / 2; i == 0 || half < within {
			ahead, within = at.UnixNano()-(before+half), half
		}
	}
	return ahead, within + int64(time.Microsecond), nil
}
