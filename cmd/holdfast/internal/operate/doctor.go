package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/screen"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/internal/lockjson"
	"github.com/holdfast-go/holdfast/store/goredis"
)

const doctorLong = `doctor reads how the server is set up, and says what threatens locks there and how to
fix it, the worst first. docs/server.md has a table of the checks.

  problem  locks do not work there, or are lost in everyday operation
  warning  locks are lost, or late, if something else fails, too
  info     worth knowing, or a check that could not be made, with the reason

doctor leaves nothing behind: it tries each command that Holdfast needs on a key and a
channel of its own under the prefix, and then deletes the key. It goes on if the
server's user may not run a command. doctor sees the most with +info +config|get
+slowlog|get +acl|whoami +acl|getuser +acl|dryrun +client|info +scan, and in a Cluster
+cluster|info.

--acl prints the command that makes a user with the least privilege for the prefix, and
asks no server. The user's name is the one in --redis, or locks. The form of the URL says
whether the line is for a server, Sentinel, a Cluster or a quorum; or write
--acl=server, --acl=sentinel, --acl=cluster or --acl=quorum.

Exit code: 0 if there is no problem, 1 if there is one; with --strict, 1 also if there
is a warning. For others, see holdfast help exit-codes.

--json prints one object:
  servers   list of: address, reachable (true or false), product, version, role, mode,
            latency_ms (null, or: p50, p95, max), clock (null, or: offset_ms, which is
            above 0 if the server's clock is ahead of ours, and error_ms), checks (an
            object: for each check its worst severity, "ok", or "unread" if its facts
            could not be read)
  problems  how many
  warnings  how many
  infos     how many
  findings  list, worst first, of: check, severity (problem, warning or info), server
            (address; empty if it is about several), fact, fix (empty if there is
            nothing to do)
Later versions may add fields, checks and findings. They do not rename or remove any
field, and do not change a type.`

// byURL is the value of --acl without one.
const byURL = "url"

// diagnosis is one call of holdfast doctor.
type diagnosis struct {
	*target.App
	json, strict bool
	acl          string
}

// NewDoctor makes holdfast doctor.
func NewDoctor(a *target.App) *cobra.Command {
	d := &diagnosis{App: a}
	cmd := &cobra.Command{
		Use:        "doctor [flags]",
		SuggestFor: []string{"check", "diagnose"},
		Short:      "Check the server for anything that threatens locks, and say how to fix it",
		Long:       doctorLong,
		Example: `  holdfast doctor                               check the server
  holdfast doctor -q --strict                   for cron: prints what is wrong, and nothing else
  holdfast doctor --json | jq '.findings[].check'
  holdfast doctor --acl --prefix shop           the least privilege for the prefix shop`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && d.acl != "" && slices.Contains(doctor.Topologies, args[0]) {
				return exit.Usage("doctor takes no arguments", "write --acl="+args[0])
			}
			return cli.NoArguments(cmd, args)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&d.json, "json", false, "print one JSON object")
	flags.BoolVar(&d.strict, "strict", false, "exit with 1 for a warning, too")
	flags.StringVar(&d.acl, "acl", "", "print the least privilege, for: "+strings.Join(doctor.Topologies, ", "))
	flags.Lookup("acl").NoOptDefVal = byURL
	cli.Rename(flags, map[string]string{"acl": "TOPOLOGY"})
	level := cli.Verbosity(a.Say, flags)
	flags.Lookup("quiet").Usage = "print only problems and warnings"
	flags.Lookup("verbose").Usage = "print the checks that found nothing, too"
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := level(); err != nil {
			return err
		}
		alone := !cli.OnCommandLine(flags, "json") && !cli.OnCommandLine(flags, "strict")
		return d.run(cmd.OutOrStdout(), alone)
	}
	return cmd
}

func (d *diagnosis) run(w io.Writer, alone bool) error {
	switch {
	case d.acl != "" && !alone:
		return exit.Usage("--acl cannot be combined with --json or --strict: it contacts no server",
			"write holdfast doctor --acl")
	case d.acl != "":
		return d.printACL(w)
	}
	s, err := d.Open(holdfast.Config{})
	if err != nil {
		return err
	}
	ctx := context.Background()
	defer s.Close(ctx)
	var nodes []doctor.Node
	for i, n := range s.Nodes {
		nodes = append(nodes, nodesOf(ctx, n, s.Targets[i])...)
	}
	fleet := doctor.Fleet{Nodes: readAll(ctx, nodes, d.Server.Prefix), Quorum: s.Quorum != nil}
	if err := nobody(fleet.Nodes); err != nil {
		return s.Explain("", err)
	}
	for i := range fleet.Nodes {
		unreached(&fleet.Nodes[i], nodes[i].TLS)
	}
	if mode := fleet.Nodes[0].Mode(); s.Targets[0].Topology == target.InCluster && mode != "" && mode != "cluster" {
		return s.NoCluster()
	}
	for i, n := range s.NodesOfQuorum(ctx) {
		if n.Answers && !n.Counts {
			fleet.Nodes[i].Out = n.Why
		}
	}
	report := doctor.Examine(fleet)
	if d.json {
		err = screen.WriteJSON(w, jsonReport(fleet, report))
	} else {
		_, err = io.WriteString(w, d.text(fleet, report))
	}
	if err == nil && (report.Count(doctor.Problem) > 0 || d.strict && report.Count(doctor.Warning) > 0) {
		err = exit.Silent(exit.CodeFailed)
	}
	return err
}

func (d *diagnosis) printACL(w io.Writer) error {
	s, err := d.Locate(os.LookupEnv)
	if err != nil {
		return err
	}
	topology := d.acl
	switch first := s.Targets[0].Topology; {
	case topology != byURL:
	case len(s.Targets) > 1:
		topology = "quorum"
	case first == target.BySentinel:
		topology = "sentinel"
	case first == target.InCluster:
		topology = "cluster"
	default:
		topology = "server"
	}
	line, err := doctor.ACL(s.Targets[0].Options.Username, d.Server.Prefix, topology)
	if err != nil {
		return exit.Usage("--acl: "+err.Error(), "write --acl, or --acl=cluster")
	}
	_, err = fmt.Fprintln(w, line)
	return err
}

// nodesOf lists the servers behind a URL: of a Cluster, every primary that the nodes name. If
// they name none, it is the first server of the URL, which says why.
func nodesOf(ctx context.Context, n target.Node, t *target.Target) []doctor.Node {
	cluster, ok := n.Conn.(*redis.ClusterClient)
	if !ok {
		return []doctor.Node{nodeOf(n.Address, n.Conn.(*redis.Client))}
	}
	var mu sync.Mutex // guards nodes
	var nodes []doctor.Node
	err := cluster.ForEachMaster(ctx, func(_ context.Context, one *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, nodeOf(one.Options().Addr, one))
		return nil
	})
	if err != nil || len(nodes) == 0 {
		return []doctor.Node{nodeOf(n.Address, t.Single().(*redis.Client))}
	}
	slices.SortFunc(nodes, func(a, b doctor.Node) int { return strings.Compare(a.Address, b.Address) })
	return nodes
}

func nodeOf(address string, c *redis.Client) doctor.Node {
	o := c.Options()
	host := o.Addr // of a socket, its path
	if o.Network != "unix" {
		host, _, _ = net.SplitHostPort(o.Addr) // empty for one that a Sentinel names
	}
	return doctor.Node{
		Address: address, Host: host, TLS: o.TLSConfig != nil, Password: o.Password != "", User: o.Username, Client: c,
	}
}

// readAll reads the servers at the same time.
func readAll(ctx context.Context, nodes []doctor.Node, prefix string) []doctor.Facts {
	facts := make([]doctor.Facts, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() { facts[i] = readOne(ctx, n, prefix) })
	}
	all.Wait()
	return facts
}

// readOne reads one server, if that answers at all. The store asks first: it gives up in time, and hears a server that
// refuses the connection.
func readOne(ctx context.Context, n doctor.Node, prefix string) doctor.Facts {
	soon, cancel := context.WithTimeout(ctx, 2*target.CloseTimeout)
	defer cancel()
	_, err := goredis.New(n.Client.(*redis.Client)).Server(soon)
	refused, answers := errors.AsType[*holdfast.ServerError](err)
	switch {
	case answers && refused.Code == "MAXCLIENTS":
		return doctor.Refused(n, prefix, refused.Message)
	case err != nil && !answers:
		return doctor.Facts{Address: n.Address, Unreachable: err}
	}
	facts := doctor.Read(ctx, n, prefix)
	if facts.Unreachable != nil {
		facts.Unreachable = known(facts.Unreachable)
	}
	return facts
}

// nobody returns why no server could be read, or nil if one could.
func nobody(nodes []doctor.Facts) error {
	for i := range nodes {
		if nodes[i].Unreachable == nil {
			return nil
		}
	}
	return nodes[0].Unreachable
}

// known gives an error of the client library the type that explain expects.
func known(err error) error {
	if refused := goredis.Refusal(err); refused != nil {
		return refused
	}
	return fmt.Errorf("%w: %w", holdfast.ErrUnreachable, err)
}

// unreached says why one of several servers cannot be read, and what to do about it. secure: the
// URL asks for TLS.
func unreached(f *doctor.Facts, secure bool) {
	if f.Unreachable == nil {
		return
	}
	why := target.Cause(f.Unreachable)
	if refused, ok := errors.AsType[*holdfast.ServerError](f.Unreachable); ok {
		if why = refused.Message; refused.Code == "TLS" {
			why, f.Fix = target.TLSFailure(refused)
			f.Unreachable, f.Secure = errors.New(why), true
			return
		}
	}
	f.Unreachable = errors.New(why)
	if other := target.OtherScheme(why, secure); other != "" {
		f.Fix = "start the server, or correct its address" + other
	}
}

// text is the report for people.
func (d *diagnosis) text(fleet doctor.Fleet, r doctor.Report) string {
	var b strings.Builder
	var fixes strings.Builder
	servers := map[doctor.Finding][]string{} // of what is said of several
	for _, f := range r.Findings {
		one := f
		one.Server = ""
		servers[one] = append(servers[one], say.OneLine(f.Server))
	}
	for _, f := range r.Findings {
		if f.Severity == doctor.Info && d.Say.Level == say.Quiet {
			continue
		}
		where, one := "", f
		one.Server = ""
		if servers[one] == nil {
			continue // it was said with another server
		}
		if len(fleet.Nodes) > 1 && f.Server != "" {
			where = strings.Join(servers[one], ", ") + ": "
		}
		servers[one] = nil
		fmt.Fprintf(&b, "%s: %s: %s%s\n", f.Severity, f.Check, where, say.OneLine(f.Fact))
		if f.Fix != "" {
			fmt.Fprintf(&b, "  fix: %s\n", say.OneLine(f.Fix))
		}
		fixes.WriteString(f.Fix + "\n")
	}
	if d.Say.Level == say.Quiet {
		return b.String()
	}
	for i := range fleet.Nodes {
		describeServer(&b, &fleet.Nodes[i], r.Checks[i], d.Say.Level == say.Verbose)
	}
	if strings.Contains(fixes.String(), "CONFIG SET ") {
		b.WriteString("hint: CONFIG SET lasts until the server restarts; CONFIG REWRITE keeps it\n")
	}
	if strings.Contains(fixes.String(), "ACL SETUSER ") {
		b.WriteString("hint: ACL SETUSER lasts until the server restarts; ACL SAVE or CONFIG REWRITE keeps it\n")
	}
	fmt.Fprintf(&b, "%s, %s, %s\n", doctor.Count(r.Count(doctor.Problem), "problem"),
		doctor.Count(r.Count(doctor.Warning), "warning"), doctor.Count(r.Count(doctor.Info), "info"))
	return b.String()
}

// describeServer writes a line about a server that was read.
func describeServer(b *strings.Builder, f *doctor.Facts, checks map[string]string, verbose bool) {
	if f.Unreachable != nil {
		return
	}
	product, version := f.Product()
	fmt.Fprintf(b, "read: %s: %s", say.OneLine(f.Address), say.OneLine(strings.TrimSpace(product+" "+version)))
	if half, _, longest := f.Latency(); longest > 0 {
		fmt.Fprintf(b, ", half of %d round trips up to %s, the longest %s", len(f.Pings), doctor.Brief(half),
			doctor.Brief(longest))
	}
	if c := f.Clock; c != nil {
		fmt.Fprintf(b, ", its clock within %s of ours", doctor.Brief(c.Offset.Abs()+c.Error))
	}
	b.WriteByte('\n')
	if verbose {
		for _, name := range doctor.Names() {
			if checks[name] == "ok" {
				fmt.Fprintf(b, "ok: %s\n", name)
			}
		}
	}
}

// The JSON of doctor: a contract, described in doctorLong.
type (
	reportJSON struct {
		Servers  []serverJSON     `json:"servers"`
		Problems int              `json:"problems"`
		Warnings int              `json:"warnings"`
		Infos    int              `json:"infos"`
		Findings []doctor.Finding `json:"findings"`
	}
	serverJSON struct {
		Address   string            `json:"address"`
		Reachable bool              `json:"reachable"`
		Product   string            `json:"product"`
		Version   string            `json:"version"`
		Role      string            `json:"role"`
		Mode      string            `json:"mode"`
		Latency   *latencyJSON      `json:"latency_ms"`
		Clock     *clockJSON        `json:"clock"`
		Checks    map[string]string `json:"checks"`
	}
	latencyJSON struct {
		P50 float64 `json:"p50"`
		P95 float64 `json:"p95"`
		Max float64 `json:"max"`
	}
	clockJSON struct {
		OffsetMS float64 `json:"offset_ms"`
		ErrorMS  float64 `json:"error_ms"`
	}
)

func jsonReport(fleet doctor.Fleet, r doctor.Report) reportJSON {
	j := reportJSON{
		Servers: []serverJSON{}, Findings: append([]doctor.Finding{}, r.Findings...),
		Problems: r.Count(doctor.Problem), Warnings: r.Count(doctor.Warning), Infos: r.Count(doctor.Info),
	}
	for i := range fleet.Nodes {
		f := &fleet.Nodes[i]
		one := serverJSON{Address: f.Address, Reachable: f.Unreachable == nil, Checks: r.Checks[i]}
		if one.Reachable {
			one.Product, one.Version = f.Product()
			one.Role, one.Mode = f.Role(), f.Mode()
		}
		if half, most, longest := f.Latency(); longest > 0 {
			one.Latency = &latencyJSON{lockjson.Millis(half), lockjson.Millis(most), lockjson.Millis(longest)}
		}
		if f.Clock != nil {
			one.Clock = &clockJSON{lockjson.Millis(f.Clock.Offset), lockjson.Millis(f.Clock.Error)}
		}
		j.Servers = append(j.Servers, one)
	}
	return j
}
