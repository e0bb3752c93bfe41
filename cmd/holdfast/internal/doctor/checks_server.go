package doctor

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// problem, warning and info make a list of one finding; examineNode adds the check's name.
func problem(fact, fix string) []Finding {
	return []Finding{{Severity: Problem, Fact: fact, Fix: fix}}
}
func warning(fact, fix string) []Finding {
	return []Finding{{Severity: Warning, Fact: fact, Fix: fix}}
}
func info(fact, fix string) []Finding { return []Finding{{Severity: Info, Fact: fact, Fix: fix}} }

// checkState finds a server that refuses nearly everything for now.
func checkState(f *Facts, _ bool) []Finding {
	word, _, _ := strings.Cut(f.Refusal, " ")
	switch {
	case word == "LOADING" || f.Info["loading"] == "1":
		return problem("the server is still loading its data: it refuses every request about a lock",
			"wait until INFO says loading:0")
	case word == "BUSY":
		return problem("a script has run for too long, and the server refuses everything else: "+f.Refusal,
			"SCRIPT KILL; if the script has written already, only SHUTDOWN NOSAVE ends it")
	case word == "MASTERDOWN":
		return problem("this is a replica without its primary: "+f.Refusal, "use the address of the primary")
	case strings.HasPrefix(f.Refusal, tooMany):
		return problem("the server refuses new connections: it has as many as maxclients allows",
			"CONFIG SET maxclients N, or find the program that opens so many (CLIENT LIST)")
	case strings.Contains(f.Refusal, selectRefused):
		return problem("the user "+f.user()+" may not choose a database: "+f.Refusal,
			fmt.Sprintf("ACL SETUSER %s +select, or leave the database out of the URL", f.user()))
	case f.Refusal != "":
		return problem("the server refuses every request: "+f.Refusal, "fix what the answer reports")
	}
	return nil
}

// checkRole finds a replica: no script can write there.
func checkRole(f *Facts, quorum bool) []Finding {
	switch {
	case f.Mode() == modeSentinel:
		return problem("a Sentinel answers at this address: it has no locks",
			"write redis+sentinel://HOST:PORT/NAME; SENTINEL MASTERS lists the names")
	case quorum && f.Mode() == "cluster":
		return problem("this server belongs to a Cluster: the servers of a quorum must be independent",
			"name independent servers, or only the Cluster, by one of its nodes")
	case f.Role() != "replica":
		return nil
	}
	fix := "use the address of the primary, or give the tool the addresses of the Sentinels"
	if host := f.Info["master_host"]; host != "" {
		fix = "use the address of the primary: " + net.JoinHostPort(host, f.Info["master_port"])
	}
	return problem("this server is a replica: locks are acquired on the primary only", fix)
}

// modeSentinel is the mode of a Sentinel. It has no keys, so only checkRole has a word on it.
const modeSentinel = "sentinel"

// oldest are the versions from which on the scripts run.
var oldest = map[string][]int{"redis": {7, 0, 0}, "valkey": {7, 2, 0}}

// olderThan reports whether a version such as 7.2.4 is known, and comes before another.
func olderThan(version string, other []int) bool {
	have := make([]int, len(other))
	for i, part := range strings.SplitN(version, ".", len(other)) {
		n, err := strconv.Atoi(part)
		if err != nil && i == 0 {
			return false
		}
		have[i] = n
	}
	return slices.Compare(have, other) < 0
}

func checkVersion(f *Facts, _ bool) []Finding {
	product, version := f.Product()
	least, known := oldest[product]
	if !known {
		return info(fmt.Sprintf("the server says that it is %s %s: Holdfast is tested with Redis and Valkey only",
			product, version), "holdfast verify --redis URL shows whether locks work there")
	}
	if version == "" && f.Refusal != "" {
		return nil
	} else if version == "" {
		return info("the server does not report its version", "")
	}
	if olderThan(version, least) {
		return problem(fmt.Sprintf("the server is %s %s: the scripts need %s %d.%d or later",
			product, version, product, least[0], least[1]), "upgrade the server")
	}
	return nil
}

// patched is the first version of each series that has none of the flaws. All series after the last one have
// none from the start. Of a series before that, which is not here, no version was repaired.
var patched = map[string][][]int{
	"redis":  {{7, 2, 11}, {7, 4, 6}, {8, 0, 4}, {8, 2, 2}},
	"valkey": {{7, 2, 11}, {8, 0, 6}, {8, 1, 4}},
}

// flaws are those by which a user who may run scripts takes over a server.
const flaws = "CVE-2024-31449, CVE-2024-46981, CVE-2025-46817, CVE-2025-46818, CVE-2025-46819 and CVE-2025-49844"

// checkPatches finds a server that every user who may run scripts can take over, as its version says. A
// distribution repairs its packages without raising the version, so it is no problem for certain.
func checkPatches(f *Facts, _ bool) []Finding {
	product, version := f.Product()
	series := patched[product]
	if version == "" || series == nil || olderThan(version, oldest[product]) {
		return nil
	}
	const ask = "ask the distribution whether its package has the fixes"
	for _, first := range series {
		if olderThan(version, []int{first[0], first[1], 0}) || !olderThan(version, []int{first[0], first[1] + 1, 0}) {
			continue
		}
		if !olderThan(version, first) {
			return nil
		}
		return warning(fmt.Sprintf("a user who may run scripts can take over %s %s by flaws of its Lua (%s), "+
			"unless a distribution has fixed its package", product, version, flaws),
			fmt.Sprintf("upgrade to %s %d.%d.%d or later, or %s", product, first[0], first[1], first[2], ask))
	}
	if olderThan(version, series[len(series)-1]) {
		return info(fmt.Sprintf("%s %s has flaws of its Lua (%s) that only distributions have fixed in this series",
			product, version, flaws), ask+", or upgrade the server")
	}
	return nil
}

// known is what to do about a command that the server does not know.
const known = "remove rename-command for it from the server's configuration, or find out which proxy refuses it"

// checkPermissions is about what locks cannot work without.
func checkPermissions(f *Facts, quorum bool) (all []Finding) {
	p := f.Probe
	if quorum && missing(f, []string{sourceInfo}) {
		all = problem(fmt.Sprintf("the user %s may not run INFO: a quorum cannot see that this server has restarted",
			f.user()), fmt.Sprintf("ACL SETUSER %s +info", f.user()))
	}
	if p == nil {
		return all
	}
	if len(p.Missing) > 0 {
		all = append(all, problem(fmt.Sprintf("the user %s may not run %s", f.user(), strings.Join(p.Missing, " ")),
			fmt.Sprintf("ACL SETUSER %s +%s", f.user(), strings.Join(p.Missing, " +")))...)
	}
	if len(p.Unknown) > 0 {
		all = append(all, problem("the server does not know "+strings.Join(p.Unknown, " "), known)...)
	}
	if p.Key != "" {
		all = append(all, problem(fmt.Sprintf("the user %s may not use keys that begin with %s: (%s)",
			f.user(), p.Prefix, p.Key), fmt.Sprintf("ACL SETUSER %s ~%s:*", f.user(), p.Prefix))...)
	}
	if p.Scripts != "" {
		all = append(all, problem("the server does not run scripts: "+p.Scripts,
			"load the Lua module (Valkey 9), or remove rename-command for EVAL and EVALSHA")...)
	}
	return all
}

// checkPushes is about what only pushes need: without it, waiters poll.
func checkPushes(f *Facts, _ bool) (all []Finding) {
	p := f.Probe
	if p == nil {
		return nil
	}
	const late = "waiters get no pushes; they poll about once a second, in no particular order"
	if len(p.Pushes) > 0 {
		all = warning(fmt.Sprintf("the user %s may not run %s: %s", f.user(), strings.Join(p.Pushes, " "), late),
			fmt.Sprintf("ACL SETUSER %s +%s", f.user(), strings.Join(p.Pushes, " +")))
	}
	if len(p.UnknownPushes) > 0 {
		all = append(all, warning("the server does not know "+strings.Join(p.UnknownPushes, " ")+": "+late, known)...)
	}
	if p.Channel != "" {
		all = append(all, warning(fmt.Sprintf("the user %s may not use channels that begin with %s: (%s): %s",
			f.user(), p.Prefix, p.Channel, late), fmt.Sprintf("ACL SETUSER %s &%s:*", f.user(), p.Prefix))...)
	}
	if full := checkClients(f, false) != nil; p.Unheard != "" && !full {
		fact := fmt.Sprintf("a subscription got no answer (%s): if this happens to clients, too, %s", p.Unheard, late)
		const fix = "look for a proxy or a firewall that closes connections, and run doctor again"
		all = append(all, warning(fact, fix)...)
	}
	return all
}

// checkWrites finds a server that runs scripts, but refuses to write.
func checkWrites(f *Facts, _ bool) []Finding {
	if f.Probe == nil || f.Probe.Writes == "" {
		return nil
	}
	why := f.Probe.Writes
	fixes := map[string]string{
		"OOM":         "free memory, or CONFIG SET maxmemory BYTES",
		"MISCONF":     "fix the disk (INFO persistence, the server's log), then BGSAVE",
		"NOREPLICAS":  "connect the replicas again, or CONFIG SET min-replicas-to-write N with a smaller N",
		"READONLY":    "use the address of the primary",
		"CLUSTERDOWN": "fix the Cluster: redis-cli --cluster check HOST:PORT",
	}
	word, _, _ := strings.Cut(why, " ")
	fix := fixes[word]
	if fix == "" {
		fix = "fix what the answer reports"
	}
	return problem("the server refuses writes, so no lock can be acquired: "+why, fix)
}

// checkClock compares the server's clock with ours. Leases do not depend on it; it shows that
// one of the clocks is not kept by a time service, and will be set.
func checkClock(f *Facts, _ bool) []Finding {
	const most = time.Second
	c := f.Clock
	if c == nil || c.Offset.Abs()-c.Error <= most {
		return nil
	}
	side := "ahead of"
	if c.Offset < 0 {
		side = "behind"
	}
	return warning(fmt.Sprintf("the server's clock is %s %s ours, with an error of %s: "+
		"when one of the clocks is corrected, leases may end early, "+
		"and MinHold and StartAt are already off by the difference",
		Brief(c.Offset.Abs()), side, Brief(c.Error)),
		"on both machines, run an NTP service that slews the clock; correct the clock while no lock is held")
}

// The TTL from which on some requests of the longest length fit into a lease. A lease is renewed
// after a third of its TTL, so two thirds are left for the tries.
const tripsInTTL = 20

// checkLatency says what the round trips mean for the TTL.
func checkLatency(f *Facts, _ bool) []Finding {
	if len(f.Pings) == 0 {
		return nil
	}
	half, most, longest := f.Latency()
	ttl := max((tripsInTTL*longest + time.Second - 1).Truncate(time.Second), time.Second)
	fact := fmt.Sprintf("of %d round trips, half took up to %s, 95%% up to %s, and the longest %s",
		len(f.Pings), Brief(half), Brief(most), Brief(longest))
	switch {
	case most >= 100*time.Millisecond:
		return warning(fact+": renewal requests may be late",
			fmt.Sprintf("choose a TTL of %s or longer, or run the program nearer to the server", Brief(ttl)))
	case longest >= 50*time.Millisecond:
		return info(fact, fmt.Sprintf("choose a TTL of %s or longer", Brief(ttl)))
	}
	return nil
}

const (
	slowFrom  = 10 * time.Millisecond
	slowSince = 24 * time.Hour
	busyMost  = 10 * time.Second // the interval of renewals with the default TTL
)

// checkScripts finds scripts that block the server: no renewal is answered meanwhile.
func checkScripts(f *Facts, _ bool) (all []Finding) {
	count, ours := 0, 0
	var worst SlowScript
	for _, s := range f.Slow {
		if s.Took < slowFrom || f.Clock != nil && f.Clock.At.Sub(s.At) > slowSince {
			continue
		}
		count++
		if s.Ours {
			ours++
		}
		if s.Took > worst.Took {
			worst = s
		}
	}
	if count > 0 {
		fix := "SLOWLOG GET shows them: shorten them, or move their program to another server"
		if ours == count {
			fix = "they are Holdfast's, and take microseconds elsewhere: look for swapping, forks and a busy processor"
		}
		all = warning(fmt.Sprintf("%s took 10ms or longer in the last day, %d by Holdfast; "+
			"the longest took %s (%s): the server answers nobody during such a script",
			Count(count, "script"), ours, Brief(worst.Took), worst.Script), fix)
	}
	limit, read := number(f.Config, "busy-reply-threshold")
	if !read {
		limit, read = number(f.Config, "lua-time-limit")
	}
	if d := time.Duration(limit) * time.Millisecond; read && (limit <= 0 || d > busyMost) {
		fact := fmt.Sprintf("busy-reply-threshold is %s: a script that hangs blocks the server for that long "+
			"before it can be killed, and leases are lost", Brief(d))
		if limit <= 0 {
			fact = "busy-reply-threshold is 0: a script that hangs blocks the server, and cannot be killed"
		}
		all = append(all, warning(fact, "CONFIG SET busy-reply-threshold 5000")...)
	}
	if micros, read := number(f.Config, "slowlog-log-slower-than"); read && (micros < 0 || micros > 10000) {
		all = append(all, info("the slow log does not record commands of 10ms: doctor could not look for slow scripts",
			"CONFIG SET slowlog-log-slower-than 10000")...)
	}
	return all
}

// checkClients finds a server that soon refuses connections.
func checkClients(f *Facts, _ bool) []Finding {
	now, read := number(f.Info, "connected_clients")
	most, ok := number(f.Info, "maxclients")
	if !read || !ok || most <= 0 || now*10 < most*8 {
		return nil
	}
	fact := fmt.Sprintf("%d of %d connections (maxclients) are in use: a client that finds none free cannot renew",
		now, most)
	fix := fmt.Sprintf("CONFIG SET maxclients %d, or find the program that opens so many (CLIENT LIST)", 2*most)
	if now*100 >= most*95 {
		return problem(fact, fix)
	}
	return warning(fact, fix)
}

// pauseSources are what checkPauses sees less without.
var pauseSources = []string{sourceScan, sourceRecords}

// checkPauses says for how long a client stood still: what it was about to do can be late by that.
func checkPauses(f *Facts, _ bool) []Finding {
	if f.Pause.Took == 0 {
		return nil
	}
	what := "the longest pause that a client has reported"
	if missing(f, pauseSources) {
		what = "a pause that a client has reported"
	}
	return info(fmt.Sprintf("%s took %s (%s)", what, Brief(f.Pause.Took), f.Pause.Client),
		"if what the locks protect cannot check tokens, choose a longer LockDelay (--lock-delay)")
}

// checkConnections is about how long connections live. Subscriptions are exempt from timeout,
// so it delays requests only.
func checkConnections(f *Facts, _ bool) (all []Finding) {
	if n, ok := number(f.Config, "timeout"); ok && n > 0 {
		all = info(fmt.Sprintf("timeout is %d: the server closes a connection that is idle for %s; "+
			"subscriptions stay, and the next request has to reconnect first", n, Brief(time.Duration(n)*time.Second)),
			"CONFIG SET timeout 0")
	}
	if n, ok := number(f.Config, "tcp-keepalive"); ok && n == 0 {
		all = append(all, info("tcp-keepalive is 0: a machine that vanished still counts as a subscriber",
			"CONFIG SET tcp-keepalive 300")...)
	}
	return all
}

// checkLogin finds a server on which everybody may forge and evict locks.
func checkLogin(f *Facts, _ bool) []Finding {
	open := f.Default.open() || !f.Password && f.User == "default"
	if !open {
		return nil
	}
	const fix = "create a user with the line that holdfast doctor --acl prints, then ACL SETUSER default off; " +
		"or CONFIG SET requirepass SECRET"
	switch {
	case !f.Local:
		return problem("the default user needs no password, at an address that other machines can reach", fix)
	case f.Config["protected-mode"] == "no" && !boundToLoopback(f.Config["bind"]):
		return problem("the default user needs no password, bind is "+strconv.Quote(f.Config["bind"])+
			" and protected-mode is no: other machines can reach the server, too", fix)
	}
	return nil
}

// boundToLoopback reads the setting bind.
func boundToLoopback(bind string) bool {
	for word := range strings.FieldsSeq(bind) {
		if !Local(strings.TrimPrefix(word, "-")) {
			return false
		}
	}
	return bind != ""
}

func checkTLS(f *Facts, _ bool) []Finding {
	if f.TLS || f.Local {
		return nil
	}
	return warning("the connection leaves this machine without TLS: others can read passwords, and forge locks",
		"set tls-port on the server, and write rediss://HOST:PORT")
}
