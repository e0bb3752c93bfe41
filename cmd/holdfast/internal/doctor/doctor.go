// Package doctor reads how servers are set up, and says what threatens locks there and how to
// fix it.
//
// [Read] asks one server, and keeps what it answered as it was written. [Examine] decides: it
// and its checks are pure functions of these facts. docs/server.md has a table of the checks.
package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Severity says how bad a finding is.
type Severity int

// The severities, from worst to least.
const (
	Problem Severity = iota // locks do not work, or are lost in everyday operation
	Warning                 // locks are lost, or late, if something else fails, too
	Info                    // worth knowing
)

func (s Severity) String() string { return [...]string{"problem", "warning", "info"}[s] }

// MarshalText is for JSON.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Finding is one fact that threatens locks.
type Finding struct {
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	Server   string   `json:"server"` // address; empty if the finding is about several servers
	Fact     string   `json:"fact"`
	Fix      string   `json:"fix"` // the command or setting; empty if there is nothing to do
}

// The sources of facts. The value is the command that the user must be permitted to run.
const (
	sourceInfo    = "INFO"
	sourceConfig  = "CONFIG GET"
	sourceCluster = "CLUSTER INFO"
	sourceSlow    = "SLOWLOG GET"
	sourceUsers   = "ACL GETUSER"
	sourceRights  = "ACL DRYRUN"
	sourceTime    = "TIME"
	sourceScan    = "SCAN"
	sourceRecords = "HMGET"
)

// Facts are what one server answered. A check reads them and nothing else.
type Facts struct {
	Address     string // without user and password
	Unreachable error  // no answer came; then there are no other facts, but Secure and Fix
	Secure      bool   // Unreachable says why TLS failed
	Fix         string // what to do if Unreachable; empty: there is nothing special about it
	Refusal     string // what the server answered to every request, such as "LOADING …"

	Prefix   string // of the locks
	Local    bool   // the connection does not leave this machine
	TLS      bool
	Password bool   // we sent one
	User     string // our user, as the server calls it

	Info    map[string]string
	Config  map[string]string
	Cluster map[string]string // CLUSTER INFO; nil if the server is not a node of a Cluster
	Hello   map[string]string

	Default *DefaultUser // nil if that is not known
	// Unloaded are the rules that the default user lacks to write what scripts write, as in +hset.
	// Read asks for them if a restart needs them: see [Facts.loadsAsDefault].
	Unloaded []string
	Pings    []time.Duration // round trips, in order of length
	Clock    *Clock
	Slow     []SlowScript
	Pause    Pause  // the longest one that a client of the prefix has reported
	Probe    *Probe // nil if it was not possible

	Out    string // why this server of a quorum does not count for new locks; empty if it counts
	Unread []Unread
}

// Unread is a source that could not be read.
type Unread struct{ Source, Why string }

// Clock is the server's clock beside ours.
type Clock struct {
	At     time.Time     // the server's time
	Offset time.Duration // how far it is ahead of ours
	Error  time.Duration // the true offset is not further away than this
}

// DefaultUser is what ACL GETUSER says of the default user.
type DefaultUser struct {
	On      bool // it may log in
	NoPass  bool // it needs no password
	AllKeys bool // ~*
}

// open reports whether everybody may log in as this user.
func (u *DefaultUser) open() bool { return u != nil && u.On && u.NoPass }

// SlowScript is an entry of the slow log.
type SlowScript struct {
	At     time.Time
	Took   time.Duration
	Script string // the digest or the first words
	Ours   bool   // it is one of Holdfast's scripts
}

// Pause is how long a client stood still.
type Pause struct {
	Took   time.Duration // 0: no client has reported one
	Client string
}

// Fleet is what is examined together.
type Fleet struct {
	Nodes  []Facts
	Quorum bool // independent servers, of which a majority grants
}

// check is one question about one server.
type check struct {
	name  string
	needs []string // sources without which it cannot be made
	uses  []string // sources without which it sees less
	run   func(f *Facts, quorum bool) []Finding
}

// checks are in the order in which findings of one severity are printed.
var checks = []check{
	{"state", nil, []string{sourceInfo}, checkState},
	{"role", nil, []string{sourceInfo}, checkRole},
	{"version", nil, []string{sourceInfo}, checkVersion},
	{"patches", nil, []string{sourceInfo}, checkPatches},
	{"permissions", nil, nil, checkPermissions},
	{"pushes", nil, nil, checkPushes},
	{"writes", nil, nil, checkWrites},
	{"eviction", []string{sourceInfo}, nil, checkEviction},
	{"memory", []string{sourceInfo}, nil, checkMemory},
	{"persistence", []string{sourceInfo}, []string{sourceConfig, sourceRights}, checkPersistence},
	{"saves", []string{sourceInfo}, []string{sourceConfig}, checkSaves},
	{"replicas", []string{sourceInfo}, []string{sourceConfig}, checkReplicas},
	{"cluster", []string{sourceInfo, sourceCluster}, []string{sourceConfig}, checkCluster},
	{"clock", []string{sourceTime}, nil, checkClock},
	{"latency", nil, nil, checkLatency},
	{"scripts", []string{sourceSlow}, []string{sourceConfig}, checkScripts},
	{"clients", []string{sourceInfo}, nil, checkClients},
	{"pauses", nil, pauseSources, checkPauses},
	{"connections", []string{sourceConfig}, nil, checkConnections},
	{"counts", nil, nil, checkCounts},
	{"login", nil, []string{sourceUsers, sourceConfig}, checkLogin},
	{"tls", nil, nil, checkTLS},
}

// Names lists the checks of one server.
func Names() []string {
	var names []string
	for _, c := range checks {
		names = append(names, c.name)
	}
	return names
}

// The names of findings that no check in the table makes.
const (
	nameReachable = "reachable"
	nameUnread    = "unread"
	nameSame      = "same-server"
	nameClocks    = "clocks"
)

// Report is what the checks found.
type Report struct {
	Findings []Finding
	// Checks says for each server what came of each check: a severity, "ok", or "unread" if
	// its facts could not be read.
	Checks []map[string]string
}

// Count is the number of findings of one severity.
func (r *Report) Count(s Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// Examine runs the checks. The findings are in order, the worst first.
func Examine(fleet Fleet) Report {
	var r Report
	for i := range fleet.Nodes {
		found, results := examineNode(&fleet.Nodes[i], fleet.Quorum)
		r.Findings, r.Checks = append(r.Findings, found...), append(r.Checks, results)
	}
	r.Findings = append(r.Findings, checkClocks(fleet.Nodes)...)
	if fleet.Quorum {
		r.Findings = append(r.Findings, checkSame(fleet.Nodes)...)
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return cmp.Compare(a.Severity, b.Severity) })
	return r
}

func examineNode(f *Facts, quorum bool) ([]Finding, map[string]string) {
	results := map[string]string{}
	if err := f.Unreachable; err != nil {
		one := Finding{
			Check: nameReachable, Severity: Problem, Server: f.Address,
			Fact: "no server answers: " + err.Error(), Fix: cmp.Or(f.Fix, "start the server, or correct its address"),
		}
		if f.Secure {
			one.Fact = "TLS fails: " + err.Error()
		}
		if login(err) {
			one.Fact = "the server refuses our user or password: " + err.Error()
			one.Fix = "correct the user in the URL, and the password"
		}
		return []Finding{one}, results
	}
	var all []Finding
	for _, c := range checks {
		if missing(f, c.needs) {
			results[c.name] = nameUnread
			continue
		}
		if f.Mode() == modeSentinel && c.name != "role" {
			results[c.name] = nameUnread
			continue
		}
		found := c.run(f, quorum)
		results[c.name] = "ok"
		if missing(f, c.uses) {
			results[c.name] = nameUnread
		}
		worst := Info + 1
		for _, one := range found {
			one.Check, one.Server = c.name, f.Address
			all, worst = append(all, one), min(worst, one.Severity)
		}
		if len(found) > 0 {
			results[c.name] = worst.String()
		}
	}
	if f.Mode() == modeSentinel {
		return all, results
	}
	return append(all, unread(f)...), results
}

// missing reports whether one of the sources could not be read. A server that refuses everything
// may still answer INFO.
func missing(f *Facts, sources []string) bool {
	return slices.ContainsFunc(sources, func(source string) bool {
		return f.Refusal != "" && (source != sourceInfo || f.Info == nil) ||
			slices.ContainsFunc(f.Unread, func(u Unread) bool { return u.Source == source })
	})
}

// unread makes a finding of each source that could not be read. It names the checks that
// suffer: nobody may take silence for health.
func unread(f *Facts) []Finding {
	var all []Finding
	for _, u := range f.Unread {
		var without, less []string
		for _, c := range checks {
			switch {
			case slices.Contains(c.needs, u.Source):
				without = append(without, c.name)
			case slices.Contains(c.uses, u.Source):
				less = append(less, c.name)
			}
		}
		fact := fmt.Sprintf("could not read %s (%s)", u.Source, u.Why)
		if len(without) > 0 {
			fact += "; not checked: " + strings.Join(without, ", ")
		}
		if len(less) > 0 {
			fact += "; partly checked: " + strings.Join(less, ", ")
		}
		one := Finding{Check: nameUnread, Severity: Info, Server: f.Address, Fact: fact}
		if strings.HasPrefix(u.Why, "NOPERM") {
			rule := "+" + strings.ToLower(strings.ReplaceAll(u.Source, " ", "|"))
			one.Fix = fmt.Sprintf("ACL SETUSER %s %s, or run doctor as a user who is allowed to", f.user(), rule)
		}
		all = append(all, one)
	}
	return all
}

// keys is the rule for the keys of the locks.
func (f *Facts) keys() string { return "~" + f.Prefix + ":*" }

// user is our user's name for a command.
func (f *Facts) user() string {
	if f.User == "" {
		return "default"
	}
	return f.User
}
