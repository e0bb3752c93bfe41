package doctor

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
)

// The messages of the client library are not those of a test.
func TestMain(m *testing.M) {
	logging.Disable()
	os.Exit(m.Run())
}

// account is how a node is read.
type account struct {
	user, password string
	protocol, db   int
}

// node is a server as a user with all permissions reads it, or as a login says.
func node(t *testing.T, s *redistest.Server, as account) Node {
	t.Helper()
	if as.user == "" {
		as.user, as.password = s.Admin()
	}
	rdb := redis.NewClient(&redis.Options{
		Addr: s.Addr(), Username: as.user, Password: as.password, Protocol: as.protocol, DB: as.db,
		TLSConfig: redistest.TLS(), MaxRetries: -1, ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { rdb.Close() })
	return Node{
		Address: "redis://" + s.Addr(), Host: "127.0.0.1", TLS: redistest.TLS() != nil,
		Password: as.password != "", User: as.user, Client: rdb,
	}
}

// read reads a node, within a time that is longer than anything takes.
func read(t *testing.T, n Node) Facts {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), redistest.Patience)
	defer cancel()
	return Read(ctx, n, redistest.Prefix())
}

// examine reads a server, and runs the checks. How fast this machine is now, and what its server's version is,
// is left out.
func examine(t *testing.T, n Node) Report {
	t.Helper()
	r := Examine(Fleet{Nodes: []Facts{read(t, n)}})
	r.Findings = slices.DeleteFunc(r.Findings, func(f Finding) bool {
		return f.Check == "latency" || f.Check == "patches"
	})
	return r
}

// good makes a server on which there is nothing to find, but for further arguments. As it keeps a log,
// its default user may do everything.
func good(more ...string) redistest.Option {
	return func(s *redistest.Server) {
		redistest.Args("--appendonly", "yes", "--appendfsync", "always", "--maxmemory", "100mb",
			"--maxmemory-policy", "noeviction")(s)
		redistest.Args(more...)(s)
		redistest.AllowAll()(s)
	}
}

// start starts a good server with further arguments.
func start(t *testing.T, more ...string) *redistest.Server {
	t.Helper()
	return redistest.Start(t, good(more...), redistest.Harness())
}

// Guarantee: on a server that is set up well, every check is made, and none finds anything.
func TestAGoodServerHasNoFindings(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, good(), redistest.Password("s3cret"))
	for _, protocol := range []int{2, 3} {
		r := examine(t, node(t, s, account{protocol: protocol}))
		assert.Equal(t, len(r.Findings), 0, "RESP%d: %+v", protocol, r.Findings)
		for name, result := range r.Checks[0] {
			odd := result != "ok" && name != "latency" && name != "patches"
			assert.False(t, odd, "RESP%d: %s is %s", protocol, name, result)
		}
	}
	assert.Equal[any](t, s.Do(t, "DBSIZE"), int64(0), "keys are left behind")
}

// setup starts a server, and says how it is read.
type setup func(t *testing.T) (Node, *redistest.Server)

// Guarantee: what is set up badly is found by its name.
func TestAMisconfiguredServerIsFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		make setup
		want string // as named writes it; after an arrow, what is left once the fixes were pasted
	}{
		{"evicts everything", plain("--maxmemory-policy", "allkeys-lru"), "eviction problem"},
		{"evicts what has a TTL", plain("--maxmemory-policy", "volatile-ttl"), "eviction problem"},
		{
			"evicts when somebody sets a limit", plain("--maxmemory", "0", "--maxmemory-policy", "allkeys-lfu"),
			"eviction info",
		},
		{
			"has no memory left", configured("maxmemory", "1"),
			"writes problem memory problem → writes problem memory problem",
		},
		{"saves nothing", plain("--appendonly", "no"), "persistence problem"},
		{"saves snapshots", plain("--appendonly", "no", "--save", "3600 1"), "persistence warning"},
		{"writes every second", plain("--appendfsync", "everysec"), "persistence warning"},
		{"cannot save", cannotSave, "writes problem saves problem → writes problem saves problem"},
		{"lacks replicas", plain("--min-replicas-to-write", "1"), "writes problem replicas problem"},
		{"has replicas that may be promoted", withReplica, "replicas warning → replicas info"},
		{"is a replica", asReplica, "role problem → role problem"},
		{"has few connections", fewConnections, "clients problem"},
		{"closes idle connections", plain("--timeout", "600"), "connections info"},
		{"keeps dead connections", plain("--tcp-keepalive", "0"), "connections info"},
		{"never says that it is busy", plain("--busy-reply-threshold", "0"), "scripts warning"},
		{"runs slow scripts", slowScripts, "scripts warning → scripts warning"},
		{"hangs in a script", hangs, "state problem → scripts info"},
		{"is open to other machines", elsewhere(""), "login problem tls warning → tls warning"},
		{"has no TLS", elsewhere("s3cret"), "tls warning → tls warning"},
		{"has a wrong clock", wrongClock, "clock warning → clock warning"},
		{
			"is a node without slots", withoutSlots,
			"writes problem cluster problem cluster info → writes problem cluster problem",
		},
		{"lets the user write no hash", user("-hset"), "permissions problem"},
		{"lets the user run no script", user("-eval", "-evalsha"), "permissions problem"},
		{"lets the user choose no database", otherDatabase, "state problem"},
		{"lets the user not publish", user("-publish"), "pushes warning"},
		{"lets the user not subscribe", user("-subscribe"), "pushes warning"},
		{"lets the user use other keys", user("resetkeys", "~other:*"), "permissions problem"},
		{"lets the user use other channels", user("resetchannels", "&other:*"), "pushes warning"},
		{
			"has no scripts", plain("--rename-command", "EVAL", "", "--rename-command", "EVALSHA", ""),
			"permissions problem → permissions problem",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n, s := c.make(t)
			found := examine(t, n).Findings
			want, left, _ := strings.Cut(c.want, " → ")
			assert.Equal(t, named(found), want, "%+v", found)
			paste(t, s, found)
			rest := examine(t, n).Findings
			assert.Equal(t, named(rest), left, "after the fixes of %+v: %+v", found, rest)
		})
	}
}

func plain(more ...string) setup {
	return func(t *testing.T) (Node, *redistest.Server) {
		t.Helper()
		s := start(t, more...)
		return node(t, s, account{}), s
	}
}

// configured changes settings after the start.
func configured(setting, value string) setup {
	return func(t *testing.T) (Node, *redistest.Server) {
		t.Helper()
		s := start(t)
		s.Do(t, "CONFIG", "SET", setting, value)
		return node(t, s, account{}), s
	}
}

func cannotSave(t *testing.T) (Node, *redistest.Server) {
	t.Helper()
	s := start(t, "--save", "3600 1")
	assert.Must(t, s.SpoilSaves())
	s.Do(t, "BGSAVE")
	redistest.Await(t, "the save has failed", func() bool { return s.Info(t, "rdb_last_bgsave_status") == "err" })
	awaitSaved(t, s)
	t.Cleanup(func() { // the server tries again after a few seconds
		s.Do(t, "CONFIG", "SET", "save", "")
		awaitSaved(t, s)
	})
	return node(t, s, account{}), s
}

// awaitSaved waits until the server writes no file. It does so in another process, which would outlive a server
// that is killed, and write where the test has removed everything.
func awaitSaved(t *testing.T, s *redistest.Server) {
	t.Helper()
	redistest.Await(t, "the server's files are written", func() bool {
		return s.Info(t, "aof_rewrite_in_progress") == "0" && s.Info(t, "aof_rewrite_scheduled") == "0" &&
			s.Info(t, "rdb_bgsave_in_progress") == "0"
	})
}

func withReplica(t *testing.T) (Node, *redistest.Server) {
	t.Helper()
	s := start(t)
	redistest.Start(t, redistest.ReplicaOf(s), redistest.Harness())
	redistest.Await(t, "the primary knows that its replica has caught up", func() bool {
		return strings.Contains(s.Info(t, "slave0"), "state=online")
	})
	return node(t, s, account{}), s
}

func asReplica(t *testing.T) (Node, *redistest.Server) {
	t.Helper()
	s := redistest.Start(t, redistest.ReplicaOf(start(t)), good(), redistest.Harness())
	awaitSaved(t, s) // what the primary has sent
	return node(t, s, account{}), s
}

// fewConnections leaves a few for doctor and for the test. A busy server counts connections for a while that
// are closed already.
func fewConnections(t *testing.T) (Node, *redistest.Server) {
	t.Helper()
	s := start(t, "--maxclients", "100")
	for range 95 {
		s.Dial(t).Do(t, "PING")
	}
	redistest.Await(t, "no other connection is open", func() bool { return s.Info(t, "connected_clients") == "96" })
	return node(t, s, account{}), s
}

// slowScripts runs a script until one took long enough for this machine.
func slowScripts(t *testing.T) (Node, *redistest.Server) {
	t.Helper()
	s := start(t)
	loops := 1 << 18
	redistest.Await(t, "a slow script", func() bool {
		s.Do(t, "EVAL", "local x = 0 for i = 1, ARGV[1] do x = x + i end", 0, loops)
		loops *= 2
		log, _ := s.Do(t, "SLOWLOG", "LEN").(int64)
		return log > 0
	})
	return node(t, s, account{}), s
}

func hangs(t *testing.T) (Node, *redistest.Server) {
	t.Helper()
	s := start(t, "--busy-reply-threshold", "1", "--slowlog-log-slower-than", "-1")
	s.Dial(t).Send(t, "EVAL", "while true do end", 0)
	c := s.Dial(t)
	redistest.Await(t, "the server is busy", func() bool {
		e, refused := c.Do(t, "PING").(redistest.Error)
		return refused && strings.HasPrefix(e.Error(), "BUSY")
	})
	return node(t, s, account{}), s
}

// elsewhere reads a server as if it were on another machine.
func elsewhere(password string) setup {
	return func(t *testing.T) (Node, *redistest.Server) {
		t.Helper()
		s := redistest.Start(t, good(), redistest.Password(password), redistest.Harness())
		n := node(t, s, account{})
		n.Host, n.TLS = "db.example", false
		return n, s
	}
}

func wrongClock(t *testing.T) (Node, *redistest.Server) {
	t.Helper()
	s := redistest.Start(t, good(), redistest.Harness(), redistest.Clock())
	s.MoveClock(-time.Minute)
	return node(t, s, account{}), s
}

func withoutSlots(t *testing.T) (Node, *redistest.Server) {
	t.Helper()
	s := redistest.Start(t, good("--cluster-enabled", "yes"),
		redistest.Harness(), redistest.BusPort())
	return node(t, s, account{}), s
}

// user is a user with all permissions but those that rules take.
func user(rules ...string) setup {
	return func(t *testing.T) (Node, *redistest.Server) {
		t.Helper()
		s := start(t)
		makeUser(t, s, append([]string{"~*", "&*", "+@all"}, rules...))
		return node(t, s, account{user: "ann", password: "pw"}), s
	}
}

func otherDatabase(t *testing.T) (Node, *redistest.Server) {
	t.Helper()
	s := start(t)
	makeUser(t, s, []string{"~*", "&*", "+@all", "-select"})
	return node(t, s, account{user: "ann", password: "pw", db: 1}), s
}

func makeUser(t *testing.T, s *redistest.Server, rules []string) {
	t.Helper()
	words := []any{"ACL", "SETUSER", "ann", "reset", "on", ">pw"}
	for _, rule := range rules {
		words = append(words, rule)
	}
	assert.MustEqual(t, s.Do(t, words...), "OK", "%v", words)
}

// Guarantee: the user of --acl may do all that locks need, and what doctor may not read is said
// with its reason. It is no finding, and no error.
func TestTheLeastUserIsEnough(t *testing.T) {
	t.Parallel()
	s := start(t, "--maxmemory-policy", "allkeys-lru")
	makeUser(t, s, Rules(redistest.Prefix(), "server"))
	r := examine(t, node(t, s, account{user: "ann", password: "pw"}))
	sources := []string{sourceInfo, sourceConfig, sourceUsers, sourceSlow, sourceScan}
	if product, version := s.Product(t); olderThan(version, loads[product]) {
		sources = slices.Insert(sources, 3, sourceRights)
	}
	got, want := named(r.Findings), strings.TrimSpace(strings.Repeat("unread info ", len(sources)))
	assert.MustTrue(t, got == want, "%q, want %q: %+v", got, want, r.Findings)
	for i, source := range sources {
		fact := r.Findings[i].Fact
		assert.True(t, strings.HasPrefix(fact, "could not read "+source+" (NOPERM "), "%s: %s", source, fact)
	}
	if r.Checks[0]["permissions"] != "ok" || r.Checks[0]["pushes"] != "ok" || r.Checks[0]["eviction"] != nameUnread {
		t.Errorf("%v", r.Checks[0])
	}
	paste(t, s, r.Findings)
	assert.Equal(t, named(examine(t, node(t, s, account{user: "ann", password: "pw"})).Findings), "eviction problem",
		"with the rules that it names")
	// With the rules that the help names, it reads all.
	makeUser(t, s, append(Rules(redistest.Prefix(), "server"), "+info", "+config|get", "+slowlog|get", "+acl|whoami",
		"+acl|getuser", "+acl|dryrun", "+client|info", "+scan"))
	assert.Equal(t, named(examine(t, node(t, s, account{user: "ann", password: "pw"})).Findings), "eviction problem",
		"named")
}

// Each right that the manual gives is missed when it is taken, by its name.
func TestEachMissingRightIsNamed(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, one := range rights {
		makeUser(t, s, append(Rules(redistest.Prefix(), "server"), "-"+one.rule))
		p := read(t, node(t, s, account{user: "ann", password: "pw"})).Probe
		want := Probe{Prefix: redistest.Prefix(), Missing: []string{one.rule}}
		if one.push {
			want = Probe{Prefix: redistest.Prefix(), Pushes: []string{one.rule}}
		}
		assert.True(t, p != nil && fmt.Sprint(*p) == fmt.Sprint(want), "without %s: %+v", one.rule, p)
	}
	if n := s.Do(t, "DBSIZE"); n != int64(0) {
		redistest.Await(t, "the keys expire", func() bool { return s.Do(t, "DBSIZE") == int64(0) })
	}
}

// A Cluster's nodes are read one by one: each has its own users and slots.
func TestEachNodeOfAClusterIsRead(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, good(), redistest.Harness())
	var fleet Fleet
	for _, s := range cluster.Nodes[:3] {
		makeUser(t, s, append(Rules(redistest.Prefix(), "cluster"), "+info", "+cluster|info", "+config|get"))
		fleet.Nodes = append(fleet.Nodes, read(t, node(t, s, account{user: "ann", password: "pw"})))
	}
	r := Examine(fleet)
	for i, checks := range r.Checks {
		if checks["permissions"] != "ok" || checks["pushes"] != "ok" || checks["writes"] != "ok" {
			t.Errorf("node %d: %v: %+v", i, checks, fleet.Nodes[i].Probe)
		}
		p := fleet.Nodes[i].Probe
		assert.True(t, p != nil && p.Cluster, "node %d was not tried: %+v", i, p)
		assert.False(t, checks["cluster"] != "info" || checks["replicas"] != "warning", "node %d: %v", i, checks)
	}
	s := cluster.Nodes[0]
	makeUser(t, s, append(Rules(redistest.Prefix(), "cluster"), "-spublish", "-ssubscribe"))
	p := read(t, node(t, s, account{user: "ann", password: "pw"})).Probe
	assert.False(t, p == nil || !slices.Equal(p.Pushes, []string{"spublish", "ssubscribe"}), "%+v", p)
}

func TestAServerThatDoesNotAnswerIsUnreachable(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Password("s3cret"))
	wrong := node(t, s, account{user: "nobody", password: "guess"})
	if f := read(t, wrong); f.Unreachable == nil || !strings.Contains(f.Unreachable.Error(), "WRONGPASS") {
		t.Errorf("a wrong password: %+v", f)
	}
	n := node(t, s, account{})
	s.Kill()
	f := read(t, n)
	assert.Equal(t, named(Examine(Fleet{Nodes: []Facts{f}}).Findings), "reachable problem", "%+v", f)
}

func TestAQuorumNamesEachServerOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, good(), redistest.Harness())
	f := read(t, node(t, s, account{}))
	got := named(Examine(Fleet{Nodes: []Facts{f, f}, Quorum: true}).Findings)
	assert.Contains(t, got, "same-server problem")
}

// The manual's permissions are the ones that --acl prints.
func TestTheRightsAreThoseOfTheManual(t *testing.T) {
	t.Parallel()
	same := func(what string, have, manual []string) {
		t.Helper()
		assert.True(t, slices.Equal(have, manual),
			"%s: --acl prints\n%q, docs/server.md has\n%q", what, have, manual)
	}
	s := redistest.Start(t, redistest.Tenant("shop"))
	same("a server", Rules("shop", "server"), s.Rights(t))
	s = redistest.Start(t, redistest.Tenant("shop"), redistest.BusPort())
	same("a Cluster", Rules("shop", "cluster"), s.Rights(t))
	s = redistest.Start(t, redistest.Tenant("shop"), redistest.Needs("in a quorum"))
	same("a quorum", Rules("shop", "quorum"), s.Rights(t))
	s = redistest.Start(t, redistest.Tenant("shop"), redistest.Needs("with Sentinel"))
	same("Sentinel", Rules("shop", "sentinel"), s.Rights(t))
}

// What is tried is what the scripts' own check asks for, and no less.
func TestTheProbeTriesWhatTheScriptsCall(t *testing.T) {
	var tried []string
	for _, one := range slices.Concat(rights, clusterRights) {
		if one.call != "" {
			tried = append(tried, strings.Fields(one.call)[0])
		}
	}
	asked := []string{"publish", "spublish"}
	for _, found := range regexp.MustCompile(`need\('(\w+)'`).FindAllStringSubmatch(script.CheckACL.Text, -1) {
		asked = append(asked, found[1])
	}
	for _, list := range []*[]string{&tried, &asked} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	assert.True(t, slices.Equal(tried, asked), "tried are %q, the scripts ask for %q", tried, asked)
}
