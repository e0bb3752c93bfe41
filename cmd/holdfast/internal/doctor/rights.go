package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// right is one command that Holdfast needs: its rule in an ACL, and how [Read] tries it.
type right struct {
	rule string // without the +
	push bool   // without it, locks work, but waiters poll
	call string // inside a script; KEY and CHANNEL stand for names. Empty: not from a script
}

// rights are what a user needs on one server. TestTheRightsAreThoseOfTheManual compares them
// with docs/server.md, from which the tests on secured servers take theirs, and
// TestTheProbeTriesWhatTheScriptsCall with the scripts.
var rights = []right{
	{rule: "evalsha"},
	{rule: "eval"},
	{rule: "time", call: "time"},
	{rule: "hmget", call: "hmget KEY f"},
	{rule: "hget", call: "hget KEY f"},
	{rule: "hset", call: "hset KEY f v"},
	{rule: "hdel", call: "hdel KEY f"},
	{rule: "hgetall", call: "hgetall KEY"},
	{rule: "hscan", call: "hscan KEY 0"},
	{rule: "pexpire", call: "pexpire KEY 1000"},
	{rule: "pttl", call: "pttl KEY"},
	{rule: "pubsub|numsub", push: true, call: "pubsub numsub CHANNEL"},
	{rule: "publish", push: true, call: "publish CHANNEL -"},
	{rule: "subscribe", push: true},
}

// clusterRights replace the rights of pushes on a node of a Cluster.
var clusterRights = []right{
	{rule: "pubsub|shardnumsub", push: true, call: "pubsub shardnumsub CHANNEL"},
	{rule: "spublish", push: true, call: "spublish CHANNEL -"},
	{rule: "ssubscribe", push: true},
	{rule: "sunsubscribe", push: true},
	{rule: "cluster|slots"},
	{rule: "cluster|shards"},
	{rule: "asking"},
}

// rightsOn returns the rights that a user needs on a server, or on a node of a Cluster.
func rightsOn(cluster bool) []right {
	if !cluster {
		return rights
	}
	few := slices.DeleteFunc(slices.Clone(rights), func(r right) bool { return r.push })
	return append(few, clusterRights...)
}

// Topologies are the values that [ACL] takes.
var Topologies = []string{"server", "sentinel", "cluster", "quorum"}

// faster permits what locks do not need, and what makes a hand-over faster, see decision 25.
const faster = "+ping"

// ACL returns the command that makes a user with the least privilege for the locks under a
// prefix.
func ACL(user, prefix, topology string) (string, error) {
	if !slices.Contains(Topologies, topology) {
		return "", fmt.Errorf("%q is not one of %s", topology, strings.Join(Topologies, ", "))
	}
	if user == "" {
		user = "locks"
	}
	words := []string{"ACL SETUSER", user, "on >SECRET", strings.Join(Rules(prefix, topology), " "), faster}
	return strings.Join(words, " "), nil
}

// Rules are the rules of that user, without what only makes it faster.
func Rules(prefix, topology string) []string {
	rules := []string{"resetkeys", "resetchannels", "-@all", "~" + prefix + ":*", "&" + prefix + ":*"}
	for _, r := range rightsOn(topology == "cluster") {
		rules = append(rules, "+"+r.rule)
	}
	switch topology {
	case "sentinel":
		rules = append(rules, "+role")
	case "quorum":
		rules = append(rules, "+info")
	}
	return rules
}
