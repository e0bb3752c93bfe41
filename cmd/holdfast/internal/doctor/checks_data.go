package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// checkEviction finds a policy that deletes locks when memory is full. Every record has a TTL,
// so every policy but noeviction may choose it.
func checkEviction(f *Facts, _ bool) []Finding {
	policy := f.Info["maxmemory_policy"]
	if policy == "" || policy == "noeviction" {
		return nil
	}
	most, _ := number(f.Info, "maxmemory")
	if most == 0 {
		return info(fmt.Sprintf("maxmemory-policy is %s: as soon as somebody sets maxmemory, "+
			"the server may delete locks that are held", policy), "CONFIG SET maxmemory-policy noeviction")
	}
	fact := fmt.Sprintf("maxmemory-policy is %s with maxmemory %s: when memory is full, "+
		"the server deletes locks that are held", policy, megabytes(most))
	if n, _ := number(f.Info, "evicted_keys"); n > 0 {
		fact += fmt.Sprintf("; it has deleted %d keys so far", n)
	}
	return problem(fact, "CONFIG SET maxmemory-policy noeviction")
}

// checkMemory finds a server that soon refuses acquisitions, or is ended by its system.
func checkMemory(f *Facts, _ bool) []Finding {
	most, _ := number(f.Info, "maxmemory")
	used, read := number(f.Info, "used_memory")
	if !read {
		return nil
	}
	if most > 0 {
		apart, _ := number(f.Info, "mem_not_counted_for_evict")
		used -= apart
		fact := fmt.Sprintf("%d%% of maxmemory is used (%s of %s)", used*100/most, megabytes(used), megabytes(most))
		const fix = "CONFIG SET maxmemory BYTES, or give the locks a server of their own"
		switch evicts := f.Info["maxmemory_policy"] != "noeviction"; {
		case used >= most && !evicts:
			return problem(fact+": the server refuses acquisitions (OOM); renewals and releases work", fix)
		case used*10 >= most*9 && !evicts:
			return warning(fact+": when it is full, the server refuses acquisitions (OOM)", fix)
		case used*10 >= most*9:
			return warning(fact+": when it is full, the server deletes keys; see the finding on eviction", fix)
		}
		return nil
	}
	resident, _ := number(f.Info, "used_memory_rss")
	machine, _ := number(f.Info, "total_system_memory")
	if machine > 0 && resident*10 >= machine*9 {
		return warning(fmt.Sprintf("the server uses %d%% of the machine's memory: the system may kill it (OOM killer)",
			resident*100/machine), "CONFIG SET maxmemory BYTES, below what the machine has, with noeviction")
	}
	return nil
}

// checkPersistence says which locks a restart forgets. A quorum counts a server that has
// restarted out until all leases have expired, so it does not need the disk.
func checkPersistence(f *Facts, quorum bool) []Finding {
	found := append(checkLoad(f), checkSaved(f)...)
	if quorum && len(found) > 0 {
		return info("a restart of this server may lose locks: the quorum then does without it for MaxTTL", "")
	}
	return found
}

// loads are the versions from which on a server loads its append-only file with all permissions.
// Older ones run each MULTI of it, and so the writes of each script, with those of the default user,
// and drop what that user may not do (redis/redis#14541, valkey-io/valkey#3983).
var loads = map[string][]int{"redis": {8, 6, 2}, "valkey": {9, 1, 2}}

// loadsAsDefault reports whether a restart needs the permissions of the default user, as far as is
// known.
func (f *Facts) loadsAsDefault() bool {
	product, version := f.Product()
	least, known := loads[product]
	return known && (f.Info == nil || f.Info["aof_enabled"] == "1") && olderThan(version, least)
}

// checkLoad finds a default user with whom a restart does not load what scripts wrote. That the user
// is off does not matter.
func checkLoad(f *Facts) []Finding {
	if len(f.Unloaded) == 0 || !f.loadsAsDefault() {
		return nil
	}
	fact := fmt.Sprintf("the default user lacks %s, and the server loads its append-only file with "+
		"the rights of this user: a restart ", strings.Join(f.Unloaded, " "))
	switch {
	case slices.Contains(f.Unloaded, "+hset") || f.Unloaded[0] == f.keys():
		return problem(fact+"loses every lock that was granted since the file was last rewritten", giveDefault(f))
	case slices.Contains(f.Unloaded, "+hdel"):
		return warning(fact+"brings back what was deleted from the records of locks", giveDefault(f))
	}
	return warning(fact+"leaves records that never expire", giveDefault(f))
}

// giveDefault is how the default user gets the rights to load the file. If it is off, nobody can use
// them. If it needs no password, everybody can.
func giveDefault(f *Facts) string {
	const all = "default off ~* &* +@all"
	const keep = ", then ACL SAVE or CONFIG REWRITE"
	switch u := f.Default; {
	case u == nil || u.open():
		return "give the programs of the default user a user of their own (holdfast doctor --acl), then ACL SETUSER " +
			all + keep
	case u.On: // programs may use it
		rules := "+hset +hdel +pexpireat"
		if !u.AllKeys { // the server refuses a pattern after ~*
			rules = f.keys() + " " + rules
		}
		return "ACL SETUSER default " + rules + keep
	}
	return "ACL SETUSER " + all + keep + "; or in the configuration or ACL file: user " + all
}

// checkSaved says what the server writes to its disk.
func checkSaved(f *Facts) []Finding {
	log := f.Info["aof_enabled"] == "1"
	save, read := f.Config["save"]
	when := f.Config["appendfsync"]
	const fix = "CONFIG SET appendonly yes appendfsync always; with everysec, up to a second is lost"
	switch {
	case log && (when == "always" || when == ""):
		return nil
	case log && when == "everysec":
		return warning("appendfsync is everysec: a crash of the machine loses the locks of the last second or two",
			"CONFIG SET appendfsync always")
	case log:
		return warning("appendfsync is "+when+": a crash of the machine loses what the system had not written, "+
			"often the last half minute", "CONFIG SET appendfsync always")
	case read && save == "":
		return problem("the server saves nothing (appendonly no, save \"\"): a restart loses every lock, "+
			"and the server may grant a lock to others while its holder still trusts it", fix)
	case read:
		return warning(fmt.Sprintf("the server saves snapshots only (appendonly no, save %s): "+
			"a restart loses the locks granted since the last snapshot", strconv.Quote(save)), fix)
	}
	return warning("the server has no append-only file: a restart loses locks", fix)
}

// checkSaves finds a disk that fails: the server then refuses writes (MISCONF), or ends.
func checkSaves(f *Facts, _ bool) (all []Finding) {
	const fix = "fix the disk (space, permissions, the server's log), then BGSAVE"
	if f.Info["aof_enabled"] == "1" && f.Info["aof_last_write_status"] == "err" {
		all = problem("the last write to the append-only file failed: the server refuses writes (MISCONF)",
			"fix the disk: free space, or restore its permissions")
	}
	if f.Info["aof_last_bgrewrite_status"] == "err" {
		all = append(all, warning("the last rewrite of the append-only file failed: it grows until the disk is full",
			"fix the disk (the server's log says what failed), then BGREWRITEAOF")...)
	}
	save, read := f.Config["save"]
	if f.Info["rdb_last_bgsave_status"] != "err" || read && save == "" {
		return all
	}
	if f.Config["stop-writes-on-bgsave-error"] == "no" {
		return append(all, warning("the last background save failed: a restart would load an old snapshot", fix)...)
	}
	return append(all, problem("the last background save failed, and stop-writes-on-bgsave-error is yes: "+
		"the server refuses writes (MISCONF), so no lock can be acquired or renewed", fix)...)
}

// checkReplicas is about a replica that is promoted without the last grants.
func checkReplicas(f *Facts, quorum bool) []Finding {
	if f.Role() == "replica" {
		return nil // see checkRole
	}
	have, _ := number(f.Info, "connected_slaves")
	want, read := number(f.Config, "min-replicas-to-write")
	if lag, ok := number(f.Config, "min-replicas-max-lag"); ok && lag == 0 {
		want = 0 // so it is switched off
	}
	good := have
	if n, ok := number(f.Info, "min_slaves_good_slaves"); ok {
		good = n
	}
	if want > good {
		return problem(fmt.Sprintf("min-replicas-to-write is %d, and %s connected and up to date: "+
			"the server refuses writes (NOREPLICAS)", want, are(good)),
			fmt.Sprintf("connect %d more, or CONFIG SET min-replicas-to-write %d", want-good, good))
	}
	if have == 0 {
		return nil
	}
	all, replicas := lagging(f), Count(int(have), "replica")
	first := ""
	if len(all) == int(have) { // otherwise the server would refuse writes at once
		first = "when a replica has caught up, "
	}
	const ack = "in programs, use holdfast.WaitReplicas(N, timeout), where N is the number of replicas"
	switch {
	case quorum:
		all = append(all, warning(fmt.Sprintf("this server of a quorum has %s: if one is promoted, "+
			"it may lack grants that the majority counts on", replicas),
			"remove the replicas: the servers of a quorum share nothing")...)
	case read && want == 0:
		all = append(all, warning(fmt.Sprintf("%s, and min-replicas-to-write is 0: "+
			"a primary that is cut off goes on granting, and a replica is promoted without the last grants", replicas),
			first+"CONFIG SET min-replicas-to-write 1 min-replicas-max-lag 10; "+ack)...)
	default:
		all = append(all, info(fmt.Sprintf("%s: replication is asynchronous, "+
			"so a replica may be promoted without the last grants", replicas), ack)...)
	}
	return all
}

// are is a number of replicas with its verb.
func are(n int64) string {
	if n == 1 {
		return "1 replica is"
	}
	return fmt.Sprintf("%d replicas are", n)
}

// lagging finds replicas that have not caught up. INFO has lines such as
// slave0:ip=10.0.0.2,port=6379,state=online,offset=71,lag=0.
func lagging(f *Facts) (all []Finding) {
	for i := 0; ; i++ {
		line, ok := f.Info["slave"+strconv.Itoa(i)]
		if !ok {
			return all
		}
		replica := map[string]string{}
		for word := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(word, "=")
			replica[name] = value
		}
		lag, _ := number(replica, "lag")
		if replica["state"] == "online" && lag <= 10 {
			continue
		}
		all = append(all, warning(fmt.Sprintf("the replica %s:%s is in state %s, and was last heard from %ds ago: "+
			"it is not receiving the grants", replica["ip"], replica["port"], replica["state"], lag),
			"look at the replica's log, and at INFO replication there")...)
	}
}

// slots are all slots of a Cluster.
const slots = 16384

// checkCluster is about a node of a Cluster.
func checkCluster(f *Facts, _ bool) (all []Finding) {
	if f.Cluster == nil {
		return nil
	}
	down := f.Cluster["cluster_state"] != "ok"
	const fix = "redis-cli --cluster check HOST:PORT, then redis-cli --cluster fix HOST:PORT"
	if n, ok := number(f.Cluster, "cluster_slots_assigned"); ok && n < slots {
		fact := fmt.Sprintf("%d of %d slots are assigned: the locks in the others cannot be acquired", n, slots)
		if down {
			fact = fmt.Sprintf("%d of %d slots are assigned, and the Cluster is down: it cannot serve locks", n, slots)
		}
		all = problem(fact, fix)
	} else if n, _ := number(f.Cluster, "cluster_slots_fail"); n > 0 || down {
		all = problem(fmt.Sprintf("the Cluster's state is %s, with %d slots on nodes that failed",
			f.Cluster["cluster_state"], n), fix)
	} else if n, _ := number(f.Cluster, "cluster_slots_pfail"); n > 0 {
		all = warning(fmt.Sprintf("%d slots are on nodes that do not answer this node", n), fix)
	}
	if f.Config["cluster-require-full-coverage"] == "yes" {
		all = append(all, info("cluster-require-full-coverage is yes: if one shard fails, "+
			"no lock of any shard can be acquired",
			"CONFIG SET cluster-require-full-coverage no, if the other shards are to keep working")...)
	}
	if f.Config["cluster-allow-pubsubshard-when-down"] == "no" {
		all = append(all, info("cluster-allow-pubsubshard-when-down is no: while the Cluster is down, "+
			"waiters get no pushes and poll",
			"CONFIG SET cluster-allow-pubsubshard-when-down yes")...)
	}
	// A lease of 30 s survives 19 s without a server.
	if ms, ok := number(f.Config, "cluster-node-timeout"); ok && ms > 18000 {
		d := time.Duration(ms) * time.Millisecond
		all = append(all, warning(fmt.Sprintf("cluster-node-timeout is %s: a failover takes longer "+
			"than a lease of 30s can survive without a server", Brief(d)),
			fmt.Sprintf("CONFIG SET cluster-node-timeout 15000, or choose a TTL of %s or longer", Brief(3*d)))...)
	}
	return all
}

// checkClocks compares the servers' clocks with each other.
func checkClocks(nodes []Facts) []Finding {
	var first, last *Facts
	for i := range nodes {
		n := &nodes[i]
		if n.Clock == nil {
			continue
		}
		if first == nil || n.Clock.Offset < first.Clock.Offset {
			first = n
		}
		if last == nil || n.Clock.Offset > last.Clock.Offset {
			last = n
		}
	}
	if first == nil || first == last {
		return nil
	}
	apart := last.Clock.Offset - first.Clock.Offset
	unsure := last.Clock.Error + first.Clock.Error
	one := Finding{
		Check: nameClocks, Severity: Warning,
		Fact: fmt.Sprintf("the clock of %s is %s ahead of that of %s, with an error of %s: "+
			"after a failover between these servers, leases end early or late, and tokens may not rise",
			last.Address, Brief(apart), first.Address, Brief(unsure)),
		Fix: "on every server, run an NTP service that slews the clock and never steps it",
	}
	switch {
	case apart-unsure <= time.Second:
		return nil
	case apart-unsure > 10*time.Second:
		one.Severity = Problem // longer than a failover takes
	}
	return []Finding{one}
}

// checkCounts says whether a quorum counts the server for new locks.
func checkCounts(f *Facts, _ bool) []Finding {
	if f.Out == "" {
		return nil
	}
	fix := "if this is unexpected, look for a restart, a FLUSHALL, a changed clock, " +
		"or what else writes to PREFIX:quorum"
	if strings.HasPrefix(f.Out, "refuses ") {
		fix = "find out why it refuses: the password, the user's rights, or the kind of server"
	}
	return warning("the quorum does without this server: it "+f.Out, fix)
}

// checkSame finds two names of one server: it would count twice in a quorum.
func checkSame(nodes []Facts) (all []Finding) {
	seen := map[string]string{}
	for i := range nodes {
		id := nodes[i].Info["run_id"]
		if other, twice := seen[id]; twice && id != "" {
			all = append(all, Finding{
				Check: nameSame, Severity: Problem,
				Fact: fmt.Sprintf("%s and %s are the same server: a quorum counts it twice", other, nodes[i].Address),
				Fix:  "name each server of the quorum once",
			})
			continue
		}
		seen[id] = nodes[i].Address
	}
	return all
}
