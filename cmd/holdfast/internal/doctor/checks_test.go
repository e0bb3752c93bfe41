package doctor

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// healthy are the facts of a server on which there is nothing to find.
func healthy() Facts {
	return Facts{
		Address: "redis://a", Prefix: "holdfast", Local: true, Password: true, User: "default",
		Info: map[string]string{
			"redis_version": "7.2.11", "role": "master", "run_id": "a", "loading": "0", "maxmemory": "104857600",
			"maxmemory_policy": "noeviction", "used_memory": "1048576", "mem_not_counted_for_evict": "0",
			"total_system_memory": "8589934592", "used_memory_rss": "2097152", "aof_enabled": "1",
			"aof_last_write_status": "ok", "aof_last_bgrewrite_status": "ok", "rdb_last_bgsave_status": "ok",
			"connected_slaves": "0", "connected_clients": "3", "maxclients": "10000", "cluster_enabled": "0",
		},
		Config: map[string]string{
			"save": "", "appendfsync": "always", "stop-writes-on-bgsave-error": "yes", "min-replicas-to-write": "0",
			"min-replicas-max-lag": "10", "timeout": "0", "tcp-keepalive": "300", "busy-reply-threshold": "5000",
			"slowlog-log-slower-than": "10000", "bind": "127.0.0.1", "protected-mode": "yes",
		},
		Pings: slices.Repeat([]time.Duration{time.Millisecond}, pings),
		Clock: &Clock{At: noon, Error: time.Millisecond},
		Probe: &Probe{Prefix: "holdfast"},
	}
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// set changes fields of INFO and settings: a name with a colon is a setting.
func set(f *Facts, changes string) {
	for change := range strings.SplitSeq(changes, ", ") {
		name, value, _ := strings.Cut(change, "=")
		if setting, ok := strings.CutPrefix(name, ":"); ok {
			f.Config[setting] = value
		} else {
			f.Info[name] = value
		}
	}
}

// with is set, for a table.
func with(changes string) func(*Facts) { return func(f *Facts) { set(f, changes) } }

// inCluster makes the server a node of a Cluster.
func inCluster(info, settings string) func(*Facts) {
	return func(f *Facts) {
		f.Cluster = fields("cluster_state:ok\ncluster_slots_assigned:16384\n" + strings.ReplaceAll(info, " ", "\n"))
		set(f, "cluster_enabled=1, "+settings)
	}
}

var cases = []struct {
	name   string
	change func(*Facts)
	want   string // CHECK SEVERITY, one after the other
	words  string // in a fact or in how to fix it
}{
	{"loading", with("loading=1"), "state problem", "still loading"},
	{
		"loading, said by a refusal", func(f *Facts) { f.Refusal = "LOADING Redis is loading" },
		"state problem", "wait until",
	},
	{"a script hangs", func(f *Facts) { f.Refusal = "BUSY Redis is busy" }, "state problem", "SCRIPT KILL"},
	{"no primary", func(f *Facts) { f.Refusal = "MASTERDOWN Link" }, "state problem", "primary"},
	{"full", func(f *Facts) { f.Refusal = "ERR max number of clients reached" }, "state problem", "maxclients"},
	{"busy, and silent else", func(f *Facts) {
		f.Refusal = "BUSY Redis is busy"
		f.Info, f.Config, f.Clock, f.Probe = nil, nil, nil, nil
	}, "state problem", "SCRIPT KILL"},
	{"strange", func(f *Facts) { f.Refusal = "UNKILLABLE" }, "state problem", "UNKILLABLE"},

	{"a replica", with("role=slave, master_host=10.0.0.1, master_port=6379"), "role problem", "10.0.0.1:6379"},
	{"a replica, by HELLO", func(f *Facts) { f.Info["role"] = ""; f.Hello = map[string]string{"role": "replica"} },
		"role problem", "Sentinels"},

	{"too old", with("redis_version=6.2.14"), "version problem", "redis 7.0 or later"},
	{"the oldest", with("redis_version=7.0.0"), "patches info", "ask the distribution"},
	{"valkey", with("valkey_version=7.2.11, redis_version=7.2.4"), "", ""},
	{"flaws of Lua", with("redis_version=7.2.10"), "patches warning", "upgrade to redis 7.2.11 or later"},
	{"flaws of Lua, the last series", with("redis_version=8.2.1"), "patches warning", "CVE-2025-49844"},
	{"flaws of Lua in valkey", with("valkey_version=8.0.5"), "patches warning", "valkey 8.0.6"},
	{"a series between", with("redis_version=8.1.9"), "patches info", "ask the distribution"},
	{"a fixed series", with("redis_version=7.4.6"), "", ""},
	{"a fixed valkey", with("valkey_version=8.1.4"), "", ""},
	{"a later series", with("redis_version=8.4.0"), "", ""},
	{"a later valkey", with("valkey_version=9.0.0"), "", ""},
	{"too old a valkey", with("valkey_version=7.1.0"), "version problem", "valkey 7.2"},
	{"no version", with("redis_version="), "version info", "does not report"},
	{"another product", with("server_name=other, redis_version=1.0"), "version info", "other 1.0"},

	{"a command is missing", func(f *Facts) { f.User = "ann"; f.Probe.Missing = []string{"hset", "pttl"} },
		"permissions problem", "ACL SETUSER ann +hset +pttl"},
	{"the keys", func(f *Facts) { f.Probe.Key = "NOPERM No permissions to access a key" },
		"permissions problem", "ACL SETUSER default ~holdfast:*"},
	{"no Lua", func(f *Facts) { f.Probe.Scripts = "ERR no scripts" }, "permissions problem", "Lua"},
	{"a command is renamed", func(f *Facts) { f.Probe.Unknown = []string{"hset"} },
		"permissions problem", "does not know hset"},
	{"a command of pushes is renamed", func(f *Facts) { f.Probe.UnknownPushes = []string{"publish"} },
		"pushes warning", "does not know publish"},
	{"no publish", func(f *Facts) { f.Probe.Pushes = []string{"publish"} }, "pushes warning", "+publish"},
	{"the channels", func(f *Facts) { f.Probe.Channel = "NOPERM a channel" }, "pushes warning", "&holdfast:*"},
	{"no subscription", func(f *Facts) { f.Probe.Unheard = "broken pipe" }, "pushes warning", "proxy"},
	{"no connection for a subscription", func(f *Facts) {
		set(f, "connected_clients=99, maxclients=100")
		f.Probe.Unheard = "broken pipe"
	}, "clients problem", "CONFIG SET maxclients 200"},
	{"no probe", func(f *Facts) { f.Probe = nil }, "", ""},
	{"no memory left", func(f *Facts) { f.Probe.Writes = "OOM command not allowed" }, "writes problem", "free memory"},
	{"no disk left", func(f *Facts) { f.Probe.Writes = "MISCONF Redis is" }, "writes problem", "fix the disk"},
	{"try again", func(f *Facts) { f.Probe.Writes = "TRYAGAIN" }, "writes problem", "what the answer reports"},

	{"evicts all", with("maxmemory_policy=allkeys-lru, evicted_keys=7"), "eviction problem", "deleted 7 keys"},
	{"evicts what has a TTL", with("maxmemory_policy=volatile-ttl"), "eviction problem",
		"CONFIG SET maxmemory-policy noeviction"},
	{"may evict one day", with("maxmemory=0, maxmemory_policy=allkeys-lru"), "eviction info", "as soon as"},

	{"nearly full", with("used_memory=95000000"), "memory warning", "90%"},
	{"nearly full, but for replicas", with("used_memory=95000000, mem_not_counted_for_evict=20000000"), "", ""},
	{"full of keys", with("used_memory=104857600"), "memory problem", "OOM"},
	{
		"evicting", with("used_memory=104857600, maxmemory_policy=volatile-lru"),
		"eviction problem memory warning", "see the finding on eviction",
	},
	{"the machine is full", with("maxmemory=0, used_memory_rss=8589934000"), "memory warning", "99%"},
	{"no limit", with("maxmemory=0"), "", ""},

	{"saves nothing", with("aof_enabled=0"), "persistence problem", "every lock"},
	{"snapshots", with("aof_enabled=0, :save=3600 1"), "persistence warning", "3600 1"},
	{"every second", with(":appendfsync=everysec"), "persistence warning", "last second"},
	{"whenever", with(":appendfsync=no"), "persistence warning", "the last half minute"},
	{"a default user who cannot load the log", func(f *Facts) {
		f.Default, f.Unloaded = &DefaultUser{AllKeys: true}, []string{"+hset", "+hdel", "+pexpireat"}
	}, "persistence problem", "ACL SETUSER default off ~* &* +@all, then ACL SAVE or CONFIG REWRITE; " +
		"or in the configuration or ACL file: user default off ~* &* +@all"},
	{"a default user without keys, with a password", func(f *Facts) {
		f.Default, f.Unloaded = &DefaultUser{On: true}, []string{"~holdfast:*"}
	}, "persistence problem", "ACL SETUSER default ~holdfast:* +hset +hdel +pexpireat, then"},
	{"a default user who may not delete", func(f *Facts) {
		f.Default, f.Unloaded = &DefaultUser{On: true, AllKeys: true}, []string{"+hdel", "+pexpireat"}
	}, "persistence warning", "ACL SETUSER default +hset +hdel +pexpireat, then"},
	{"a default user about whom nothing is known", func(f *Facts) { f.Unloaded = []string{"+pexpireat"} },
		"persistence warning", "(holdfast doctor --acl), then ACL SETUSER default off ~* &* +@all, then"},
	{"both a log that is late and a user who cannot load it", func(f *Facts) {
		set(f, ":appendfsync=everysec")
		f.Unloaded = []string{"+hset"}
	}, "persistence problem persistence warning", "everysec"},
	{"the log is loaded by another user", func(f *Facts) {
		set(f, "redis_version=8.6.2")
		f.Unloaded = []string{"+hset"}
	}, "", ""},
	{"ACL DRYRUN is forbidden", func(f *Facts) { f.Unread = []Unread{{sourceRights, "NOPERM no"}} },
		"unread info", "partly checked: persistence Fix:ACL SETUSER default +acl|dryrun"},
	{"no log, and CONFIG is forbidden", func(f *Facts) { set(f, "aof_enabled=0"); f.Config = nil },
		"persistence warning", "no append-only file"},

	{"the log fails", with("aof_last_write_status=err"), "saves problem", "MISCONF"},
	{"the rewrite fails", with("aof_last_bgrewrite_status=err"), "saves warning", "BGREWRITEAOF"},
	{"the save fails", with("rdb_last_bgsave_status=err, :save=3600 1"), "saves problem", "MISCONF"},
	{"a save by hand failed", with("rdb_last_bgsave_status=err"), "", ""},
	{"writes go on", with("rdb_last_bgsave_status=err, :save=3600 1, :stop-writes-on-bgsave-error=no"),
		"saves warning", "old snapshot"},

	{"replicas", with("connected_slaves=2"), "replicas warning", "CONFIG SET min-replicas-to-write 1"},
	{"switched off", with("connected_slaves=2, :min-replicas-to-write=1, :min-replicas-max-lag=0"), "replicas warning",
		"is 0"},
	{"enough replicas", with("connected_slaves=2, min_slaves_good_slaves=2, :min-replicas-to-write=1"), "replicas info",
		"holdfast.WaitReplicas(N, timeout)"},
	{"too few replicas", with(":min-replicas-to-write=2, connected_slaves=1"), "replicas problem", "connect 1 more"},
	{"replicas that lag", with(":min-replicas-to-write=1, connected_slaves=1, min_slaves_good_slaves=0"),
		"replicas problem", "NOREPLICAS"},
	{"the only replica copies", with("connected_slaves=1, slave0=ip=x,port=1,state=wait_bgsave,lag=0"),
		"replicas warning replicas warning", "when a replica has caught up, CONFIG SET min-replicas-to-write 1"},
	{"a replica copies", with(":min-replicas-to-write=1, connected_slaves=2, min_slaves_good_slaves=1, " +
		"slave0=ip=x,port=1,state=online,lag=1, " +
		"slave1=ip=10.0.0.2,port=6379,state=wait_bgsave,lag=0"), "replicas warning replicas info", "10.0.0.2:6379"},

	{"a whole Cluster", inCluster("", ":x=y"), "", ""},
	{"slots are free", inCluster("cluster_slots_assigned:10000", ":x=y"), "cluster problem", "10000 of 16384"},
	{"a Cluster without slots", inCluster("cluster_state:fail cluster_slots_assigned:0", ":x=y"), "cluster problem",
		"it cannot serve locks"},
	{"a node failed", inCluster("cluster_state:fail cluster_slots_fail:5461", ":x=y"), "cluster problem", "5461 slots"},
	{"a node is silent", inCluster("cluster_slots_pfail:5461", ":x=y"), "cluster warning", "5461 slots"},
	{"full coverage", inCluster("", ":cluster-require-full-coverage=yes"), "cluster info", "one shard"},
	{"no pushes when down", inCluster("", ":cluster-allow-pubsubshard-when-down=no"), "cluster info", "pushes"},
	{"a slow failover", inCluster("", ":cluster-node-timeout=30000"), "cluster warning", "1m30s"},

	{"ahead", func(f *Facts) { f.Clock.Offset = 3 * time.Second }, "clock warning", "3s ahead of ours"},
	{"behind", func(f *Facts) { f.Clock.Offset = -3 * time.Second }, "clock warning", "3s behind ours"},
	{
		"within the error", func(f *Facts) { f.Clock = &Clock{Offset: 3 * time.Second, Error: 5 * time.Second / 2} },
		"", "",
	},

	{"far away", func(f *Facts) { f.Pings = slices.Repeat([]time.Duration{150 * time.Millisecond}, pings) },
		"latency warning", "a TTL of 3s or longer"},
	{"one was slow", func(f *Facts) { f.Pings[pings-1] = 80 * time.Millisecond }, "latency info", "a TTL of 2s"},
	{"no answers", func(f *Facts) { f.Pings = nil }, "", ""},

	{"slow scripts", func(f *Facts) {
		f.Slow = []SlowScript{
			{noon.Add(-time.Hour), 20 * time.Millisecond, "eval x", false},
			{noon.Add(-time.Hour), 90 * time.Millisecond, "evalsha 123", true},
			{noon.Add(-time.Hour), 9 * time.Millisecond, "eval y", false},
			{noon.Add(-48 * time.Hour), time.Second, "eval z", false},
		}
	}, "scripts warning", "2 scripts took 10ms or longer in the last day, 1 by Holdfast; " +
		"the longest took 90ms (evalsha 123)"},
	{"only ours", func(f *Facts) { f.Slow = []SlowScript{{noon, 20 * time.Millisecond, "evalsha 1", true}} },
		"scripts warning", "swapping"},
	{"never busy", with(":busy-reply-threshold=0"), "scripts warning", "cannot be killed"},
	{"busy late", with(":busy-reply-threshold=20000"), "scripts warning", "20s"},
	{"busy late, by the old name", func(f *Facts) {
		delete(f.Config, "busy-reply-threshold")
		set(f, ":lua-time-limit=20000")
	}, "scripts warning", "20s"},
	{"no slow log", with(":slowlog-log-slower-than=-1"), "scripts info", "slowlog-log-slower-than 10000"},

	{"many clients", with("connected_clients=8500"), "clients warning", "8500 of 10000"},
	{"too many clients", with("connected_clients=9600"), "clients problem", "maxclients"},
	{"idle connections", with(":timeout=60"), "connections info", "idle for 1m0s"},
	{"no keepalive", with(":tcp-keepalive=0"), "connections info", "tcp-keepalive 300"},

	{
		"open to others", func(f *Facts) { f.Local, f.TLS, f.Password = false, true, false },
		"login problem", "default off",
	},
	{
		"open to others, as ACL says", func(f *Facts) {
			f.Local, f.TLS, f.Default = false, true, &DefaultUser{On: true, NoPass: true}
		}, "login problem", "",
	},
	{"open, as nothing is protected", func(f *Facts) { f.Password = false; set(f, ":bind=* -::*, :protected-mode=no") },
		"login problem", "protected-mode"},
	{
		"open here only", func(f *Facts) { f.Password = false; set(f, ":protected-mode=no, :bind=::1 127.0.0.1") },
		"", "",
	},
	{
		"a certificate is the login", func(f *Facts) { f.Local, f.TLS, f.Password, f.User = false, true, false, "ann" },
		"", "",
	},
	{"refused by a server of its quorum", func(f *Facts) { f.Out = "refuses our requests: NOAUTH" }, "counts warning",
		"the password"},
	{"a Sentinel", with("redis_mode=sentinel"), "role problem", "redis+sentinel://"},
	{"a client that stood still", func(f *Facts) { f.Pause = Pause{1200 * time.Millisecond, "report@db:7"} },
		"pauses info", "the longest pause"},
	{"a client that stood still, and a search that was cut", func(f *Facts) {
		f.Pause, f.Unread = Pause{time.Second, "report@db:7"}, []Unread{{sourceScan, "too many keys"}}
	}, "pauses info unread info", "Fact:a pause that"},
	{"SCAN is forbidden", func(f *Facts) { f.Unread = []Unread{{sourceScan, "NOPERM no"}} },
		"unread info", "partly checked: pauses Fix:ACL SETUSER default +scan"},
	{"out of its quorum", func(f *Facts) { f.Out = "has lost its memory" }, "counts warning", "has lost its memory"},
	{"no TLS", func(f *Facts) { f.Local = false }, "tls warning", "rediss://"},

	{"no answer", func(f *Facts) { f.Unreachable = errors.New("refused") }, "reachable problem", "refused"},
	{"a wrong authority", func(f *Facts) {
		f.Unreachable, f.Secure, f.Fix = errors.New("unknown authority"), true, "name it"
	}, "reachable problem", "TLS fails: unknown authority"},
	{"a wrong password", func(f *Facts) { f.Unreachable = errors.New("WRONGPASS x") }, "reachable problem", "password"},
	{"CONFIG is forbidden", func(f *Facts) {
		f.Config, f.Unread = nil, []Unread{{sourceConfig, "NOPERM no"}}
	}, "unread info", "not checked: connections; partly checked: persistence"},
	{"CONFIG does not exist", func(f *Facts) {
		f.Config, f.Unread = nil, []Unread{{sourceConfig, "ERR unknown command"}}
	}, "unread info", "ERR unknown command"},
}

// named are the checks and severities of findings.
func named(found []Finding) string {
	var words []string
	for _, f := range found {
		words = append(words, f.Check+" "+f.Severity.String())
	}
	return strings.Join(words, " ")
}

func TestEachCheckFindsWhatItIsFor(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range cases {
		f := healthy()
		c.change(&f)
		found := Examine(Fleet{Nodes: []Facts{f}}).Findings
		got := named(found)
		assert.True(t, got == c.want, "%s: found %q, want %q: %+v", c.name, got, c.want, found)
		text := fmt.Sprintf("%+v", found)
		assert.True(t, strings.Contains(text, c.words), "%s: %q is not in %s", c.name, c.words, text)
		for _, one := range found {
			seen[one.Check] = true
			assert.False(t, one.Server != "redis://a" || one.Fact == "" || one.Severity != Info && one.Fix == "",
				"%s: %+v", c.name, one)
		}
	}
	for _, name := range Names() {
		assert.True(t, seen[name], "no case is for %s", name)
	}
}

func TestAHealthyServerHasNoFindings(t *testing.T) {
	r := Examine(Fleet{Nodes: []Facts{healthy()}})
	assert.False(t, len(r.Findings) > 0 || len(r.Checks) != 1 || len(r.Checks[0]) != len(Names()), "%+v", r)
	for name, result := range r.Checks[0] {
		assert.Equal(t, result, "ok", "%s", name)
	}
}

// Nobody may take a check that was not made for one that found nothing.
func TestAnUnreadSourceIsNotHealth(t *testing.T) {
	f := healthy()
	f.Info, f.Unread = nil, []Unread{{sourceInfo, "NOPERM no"}}
	r := Examine(Fleet{Nodes: []Facts{f}})
	for name, want := range map[string]string{
		"eviction": "unread", "persistence": "unread", "state": "unread", "latency": "ok", "permissions": "ok",
	} {
		assert.Equal(t, r.Checks[0][name], want, "%s", name)
	}
}

func TestFindingsComeWorstFirst(t *testing.T) {
	f, g := healthy(), healthy()
	set(&f, ":timeout=60, :appendfsync=everysec")
	set(&g, "maxmemory_policy=allkeys-lru")
	g.Address = "redis://b"
	r := Examine(Fleet{Nodes: []Facts{f, g}})
	got, want := named(r.Findings), "eviction problem persistence warning connections info"
	assert.True(t, got == want, "%q, want %q", got, want)
	for severity, want := range map[Severity]int{Problem: 1, Warning: 1, Info: 1} {
		assert.Equal(t, r.Count(severity), want, "%v", severity)
	}
}

func TestServersAreComparedWithEachOther(t *testing.T) {
	for _, c := range []struct {
		name   string
		quorum bool
		change func(a, b *Facts)
		want   string
	}{
		{"alike", true, func(_, b *Facts) { b.Info["run_id"] = "b" }, ""},
		{"one server", true, func(_, _ *Facts) {}, "same-server problem"},
		{"nodes of a Cluster", false, func(_, _ *Facts) {}, ""},
		{"unknown", true, func(a, b *Facts) { a.Info["run_id"], b.Info["run_id"] = "", "" }, ""},
		{"clocks", false, func(a, b *Facts) { a.Clock.Offset, b.Clock.Offset = -time.Second, 900*time.Millisecond },
			"clocks warning"},
		{"clocks far apart", false, func(a, b *Facts) {
			a.Clock.Offset, b.Clock.Offset, a.Clock.Error = time.Second, -11*time.Second, 500*time.Millisecond
		}, "clocks problem clock warning"},
		{"one clock", false, func(a, _ *Facts) { a.Clock = nil }, ""},
		{"a log that is not loaded", true, func(a, b *Facts) {
			b.Info["run_id"] = "b"
			a.Unloaded = []string{"+hset"}
		}, "persistence info"},
		{"nothing saved", true, func(a, b *Facts) { b.Info["run_id"] = "b"; set(a, "aof_enabled=0") },
			"persistence info"},
		{"a replica in a quorum", true, func(a, b *Facts) { b.Info["run_id"] = "b"; set(a, "connected_slaves=1") },
			"replicas warning"},
		{"no INFO in a quorum", true, func(a, _ *Facts) { a.Info, a.Unread = nil, []Unread{{sourceInfo, "NOPERM no"}} },
			"permissions problem version info unread info"},
	} {
		a, b := healthy(), healthy()
		c.change(&a, &b)
		found := Examine(Fleet{Nodes: []Facts{a, b}, Quorum: c.quorum}).Findings
		assert.Equal(t, named(found), c.want, "%s: %+v", c.name, found)
	}
}

func TestAPercentileIsARoundTrip(t *testing.T) {
	f := Facts{}
	for i := range 50 {
		f.Pings = append(f.Pings, time.Duration(i+1))
	}
	half, most, longest := f.Latency()
	assert.True(t, half == 25 && most == 48 && longest == 50, "%d %d %d", half, most, longest)
	f.Pings = f.Pings[:1]
	half, most, longest = f.Latency()
	assert.True(t, half == 1 && most == 1 && longest == 1, "%d %d %d", half, most, longest)
}

// Each generation of servers has its own words, and a user may be called anything.
func TestARefusalIsSorted(t *testing.T) {
	for want, refusals := range map[refusal][]string{
		refusedCommand: {
			"NOPERM this user has no permissions to run the 'hset' command",
			"ERR The user executing the script can't run this command or subcommand",
			"ERR ACL failure in script: User access a key has no permissions to run the 'publish' command",
		},
		unknownCommand: {
			"ERR unknown command 'evalsha', with args beginning with:",
			"ERR Unknown Redis command called from script script: 0123",
		},
		refusedKey: {
			"NOPERM this user has no permissions to access one of the keys used as arguments",
			"NOPERM No permissions to access a key",
			"ERR The user executing the script can't access at least one of the keys mentioned in the command",
		},
		refusedChannel: {
			"NOPERM this user has no permissions to access one of the channels used as arguments",
			"ERR ACL failure in script: No permissions to access a channel",
			"ERR The user executing the script can't publish to the channel mentioned in the command",
		},
		refusedOther: {
			"OOM command not allowed when used memory > 'maxmemory'.",
		},
	} {
		for _, why := range refusals {
			assert.Equal(t, classify(why), want, "%s", why)
		}
	}
}

// The manual has a row for every check, and for no other.
// reply is an error of the server, as the client library gives it.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

// Only what says so is about rights: a Cluster that lacks a node says MOVED.
func TestARefusedSubscriptionIsSorted(t *testing.T) {
	const noChannel = "NOPERM this user has no permissions to access one of the channels used as arguments"
	const noRight = "NOPERM this user has no permissions to run the 'ssubscribe' command"
	const down, moved = "CLUSTERDOWN The cluster is down", "MOVED 12357 127.0.0.1:7403"
	for why, want := range map[reply]Probe{
		noChannel: {Channel: noChannel}, noRight: {Pushes: []string{"ssubscribe"}}, down: {Writes: down},
		moved: {Unheard: moved},
	} {
		var p Probe
		p.subscribed("ssubscribe", why)
		assert.Equal(t, fmt.Sprintf("%+v", p), fmt.Sprintf("%+v", want), "%s", why)
	}
}

func TestTheManualHasEveryCheck(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/server.md")
	assert.Must(t, err)
	_, section, _ := strings.Cut(string(text), "\n## What doctor checks\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []string
	for _, found := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(section, -1) {
		rows = append(rows, found[1])
	}
	names := append(Names(), nameReachable, nameClocks, nameSame, nameUnread)
	slices.Sort(rows)
	slices.Sort(names)
	assert.True(t, slices.Equal(rows, names), "docs/server.md has\n%q, doctor has\n%q", rows, names)
}
