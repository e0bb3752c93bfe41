// Package look has the commands that show locks and change nothing: status, check, list, inspect, watch, top and
// serve. It also completes the names of locks.
package look

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/describe"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/screen"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/top"
	"github.com/holdfast-go/holdfast/internal/commandline"
	"github.com/holdfast-go/holdfast/internal/glob"
	"github.com/holdfast-go/holdfast/internal/lockjson"
)

const listLong = `list shows the locks that are held or waited for, and the jobs that run. GLOB selects
names: * is any text, ? any character, [abc] one of these. Without GLOB, list shows all.

list reads the server's keys a page at a time. No command keeps the server busy for long,
however many other keys there are. Over a Cluster, list reads every primary. Over a
quorum, it reads every server. The locks change while list runs: each row was true when it
was read.

Columns: NAME; KIND (exclusive, shared, permits, leader, job); HOLDER (app@host:pid; with
several holders, the first and how many more); AGE of the oldest hold; LEASE, until it
expires if it is not renewed; TOKEN; WAITING. -o wide adds OWNER, VALUE (a leader's value,
the permits in use, or when a job runs next), ID (the holder's client) and TAGS.

A lock that is part of a deadlock has "deadlock" behind the number of its waiters. A
warning names the calls that wait for each other. With -o json, "deadlock" has them.

--foreign lists the locks of other libraries instead. GLOB then selects whole keys. list
recognises redsync, redislock and Redisson. Any other short string with a TTL is shown as
"string": it may be a lock made by SET NX PX, or a value that expires.

--graph shows the waits-for graph: each lock that has waiters, its holders, its waiters in
order, and the locks that these waiters hold. It names the deadlocks of these locks:
calls that wait for each other. It knows the locks of a waiter that is a Go program which
passes on the context of its lease, and of a run inside a run, once the waiter has waited
for a third of the TTL. With -o json it prints an object for each lock ("name", "holders",
"waiters"), and one for each deadlock ("deadlock").

A record that cannot be read hides no other. A newer Holdfast may have written it, or the
server's user may not read its key. Its row has the kind "unreadable", -o json has "error",
and the exit code is 76, or 77 for a missing permission.

-o json prints one object per line, with the fields of holdfast status --json, and for a
job "job" in it. -o name prints names only, one per line. If a table has no row, list says so
on standard error.

Exit code: 0, also if there is no lock. For others, see holdfast help exit-codes.`

// listOptions are the flags of list.
type listOptions struct {
	output     outputForm
	sort       string
	all, stale bool
	foreign    bool
	pattern    string
	noHeader   bool
	graph      bool
}

// outputForm is the value of -o.
type outputForm string

func (f *outputForm) String() string { return string(*f) }
func (f *outputForm) Type() string   { return "table|wide|json|name" }
func (f *outputForm) Set(s string) error {
	if !slices.Contains([]string{"table", "wide", "json", "name"}, s) {
		return fmt.Errorf("%q is not an output format", s)
	}
	*f = outputForm(s)
	return nil
}

// jsonFlags adds -o and --json to a command that has one form for people. asJSON reports whether to print JSON.
func jsonFlags(flags *pflag.FlagSet) (asJSON func() bool) {
	output, short := outputForm("table"), false
	flags.VarP(&output, "output", "o", "form of the output: table or json")
	cli.Rename(flags, map[string]string{"output": "table|json"})
	flags.BoolVar(&short, "json", false, "the same as -o json")
	return func() bool { return short || output == "json" }
}

// NewList makes holdfast list.
func NewList(a *target.App) *cobra.Command {
	o := &listOptions{output: "table"}
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list [flags] [GLOB]",
		Aliases: []string{"ls", "ps"}, SuggestFor: []string{"locks", "lslocks"},
		Short: "List the locks that are held",
		Long:  listLong,
		Example: `  holdfast list
  holdfast list 'order/*'
  holdfast list --sort age -o wide
  holdfast list --stale                         holders not heard from for 15 minutes
  holdfast list -o json | jq -r 'select(.waiting > 10) | .name'
  holdfast list --graph                         the waiters, what they hold, and deadlocks
  holdfast list --foreign 'lock:*'              locks of other libraries`,
	}
	flags := cmd.Flags()
	flags.VarP(&o.output, "output", "o", "form of the output")
	flags.BoolVar(&asJSON, "json", false, "the same as -o json")
	flags.StringVar(&o.sort, "sort", "", "sort by name, age, lease or waiting (default: by name, if the scan is short)")
	flags.BoolVarP(&o.all, "all", "a", false, "list free locks, too, as long as their records last")
	flags.BoolVar(&o.stale, "stale", false, "only locks with a holder that has not been heard from for 15 minutes")
	flags.BoolVar(&o.foreign, "foreign", false, "list the locks of other libraries")
	flags.BoolVar(&o.graph, "graph", false, "show the waits-for graph, and the deadlocks")
	flags.BoolVar(&o.noHeader, "no-header", false, "do not print the line of column names")
	cli.Rename(flags, map[string]string{"sort": "FIELD"})
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if asJSON {
			o.output = "json"
		}
		if err := o.read(args); err != nil {
			return err
		}
		return runList(a, o, say.Stdout)
	}
	return cmd
}

func (o *listOptions) read(args []string) (err error) {
	if o.pattern, err = onePattern(args); err != nil {
		return err
	}
	if o.sort != "" && sorts[o.sort] == nil {
		return exit.Usage(fmt.Sprintf("--sort %q: there is no such field", o.sort),
			"write name, age, lease or waiting")
	}
	if o.graph && (o.foreign || o.stale || o.all || o.sort != "" || o.output == "wide" || o.output == "name") {
		return exit.Usage("--graph has its own output format: combine it only with a GLOB and -o json",
			"leave the others out")
	}
	if o.foreign && (o.stale || o.all) {
		return exit.Usage("--foreign cannot be combined with --all or --stale: other libraries' records show neither",
			"leave one out")
	}
	return nil
}

// onePattern reads the argument GLOB. Without it, every name matches.
func onePattern(args []string) (string, error) {
	switch len(args) {
	case 0:
		return "", nil
	case 1:
		if _, err := glob.Match(args[0]); err != nil {
			return "", exit.Usage(fmt.Sprintf("pattern %q: %v", args[0], err),
				"write a \\ before a [ that is part of a name")
		}
		return args[0], nil
	}
	return "", exit.Usage(fmt.Sprintf("%q is one pattern too many", args[1]),
		"put the pattern in quotes, so that the shell leaves it alone, as in 'order/*'")
}

// row is one line of the table.
type row struct {
	state lockjson.State
	job   bool
	cells map[string]string
}

// sorts compare two rows.
var sorts = map[string]func(a, b row) int{
	"name": func(a, b row) int { return strings.Compare(a.state.Name, b.state.Name) },
	"age":  func(a, b row) int { return cmp.Compare(oldest(b), oldest(a)) },
	"lease": func(a, b row) int {
		return cmp.Compare(remaining(a), remaining(b))
	},
	"waiting": func(a, b row) int { return cmp.Compare(b.state.Waiting, a.state.Waiting) },
}

func oldest(r row) (age int64) {
	for _, h := range r.state.Holders {
		age = max(age, h.AgeMS)
	}
	return age
}

func remaining(r row) (left int64) {
	for _, h := range r.state.Holders {
		left = max(left, h.RemainingMS)
	}
	return left
}

type column struct {
	head  string
	right bool
	wide  bool
}

var listColumns = []column{
	{"NAME", false, false}, {"KIND", false, false}, {"HOLDER", false, false},
	{"AGE", true, false}, {"LEASE", true, false}, {"TOKEN", true, false}, {"WAITING", true, false},
	{"OWNER", false, true}, {"VALUE", false, true}, {"ID", false, true},
	{"TAGS", false, true},
}

// showAfter is how long list collects rows before it shows the first ones.
const showAfter = 500 * time.Millisecond

func runList(a *target.App, o *listOptions, w io.Writer) error {
	s, err := a.Open(holdfast.Config{})
	if err != nil {
		return err
	}
	ctx, stop := commandline.Signalled(context.Background())
	defer stop()
	defer s.CloseSoon()
	l := &lister{listOptions: o, app: a, server: s, w: w, rows: make(chan row)}
	if o.graph {
		err := l.printGraph(ctx)
		if by := exit.Signalled(ctx); by != nil || err == nil {
			return by
		}
		return s.Explain("", err)
	}
	scanned := make(chan error, 1)
	go func() {
		defer close(l.rows)
		scanned <- l.scan(ctx)
	}()
	err = l.print(ctx)
	scanErr := <-scanned
	if by := exit.Signalled(ctx); by != nil {
		return by
	}
	if o.output == "table" || o.output == "wide" {
		warnOf(a.Say, l.deadlocks)
	}
	if scanErr != nil {
		return s.Explain("", scanErr)
	}
	if err == nil && l.none {
		l.sayNone()
	}
	return cmp.Or(err, l.bad.err())
}

// lister is one run of list.
type lister struct {
	*listOptions
	app    *target.App
	server *target.Server
	w      io.Writer
	rows   chan row
	bad    unreadable
	none   bool // there was no row
	widths map[string]int

	deadlocks [][]holdfast.WaitInfo // set when rows is closed
}

// scan sends a row for each lock.
func (l *lister) scan(ctx context.Context) (err error) {
	if l.foreign {
		pattern := cmp.Or(l.pattern, "*")
		return survey.ScanForeign(ctx, l.server.Conns(), pattern, &l.server.Looked, func(list []survey.Foreign) error {
			for _, f := range list {
				l.rows <- foreignRow(f)
			}
			return nil
		})
	}
	// Only what other locks say of a lock tells whether it is in a deadlock. So a row that may be stands back.
	var back []row
	var stuck []holdfast.LockInfo
	l.bad, err = eachLock(ctx, l.server, l.pattern, func(state holdfast.LockInfo, bad *exit.Error) {
		switch r := rowOf(l.server, state, bad); {
		case !l.wants(r):
		case bad == nil && state.Job == nil && mayBeStuck(state):
			back, stuck = append(back, r), append(stuck, state)
		default:
			l.rows <- r
		}
	})
	found, lookErr := deadlocksOf(ctx, l.server.Client, stuck)
	of := byLock(found)
	for _, r := range back {
		r.inDeadlock(of[r.state.Name])
		l.rows <- r
	}
	l.deadlocks = found
	return cmp.Or(err, lookErr)
}

// inDeadlock sets the deadlock that the lock is part of.
func (r *row) inDeadlock(cycle []holdfast.WaitInfo) {
	if r.state.Deadlock = lockjson.OfDeadlock(cycle); len(cycle) > 0 {
		r.cells["WAITING"] += " deadlock"
	}
}

// rowOf is the row of a lock or job. bad is why its record cannot be read.
func rowOf(s *target.Server, state holdfast.LockInfo, bad *exit.Error) row {
	lines := lockjson.Of(state, recordKey(s, state))
	lines.Deadlock = lockjson.OfDeadlock(nil)
	if state.Job != nil {
		lines.Job = lockjson.OfJob(*state.Job)
	}
	r := newRow(lines, state.Job != nil)
	if bad != nil {
		r.state.Error = say.Plain(bad)
		r.cells["KIND"], r.cells["WAITING"] = "unreadable", "-"
	}
	return r
}

// wants reports whether a row is listed.
func (l *lister) wants(r row) bool {
	known := func(h lockjson.Holder) bool { return h.App != "" || h.Host != "" }
	switch {
	case l.stale:
		return slices.ContainsFunc(r.state.Holders, func(h lockjson.Holder) bool { return !known(h) && !h.Released })
	case l.all, r.state.Error != "":
		return true
	}
	return r.state.Held || r.state.Waiting > 0
}

// newRow makes the cells of a row.
func newRow(s lockjson.State, job bool) row {
	c := map[string]string{"NAME": say.OneLine(s.Name), "WAITING": strconv.Itoa(s.Waiting),
		"KIND": "free", "TOKEN": "-"}
	r := row{state: s, job: job, cells: c}
	if len(s.Holders) > 0 {
		h := s.Holders[0]
		c["KIND"], c["TOKEN"], c["OWNER"], c["ID"] = h.Mode, h.Token, say.OneLine(h.Owner), h.ClientID
		c["HOLDER"], c["TAGS"] = say.OneLine(h.Who()), describe.Tags(h.Tags)
		if n := len(s.Holders) - 1; n > 0 {
			c["HOLDER"] += fmt.Sprintf(" +%d", n)
		}
		c["AGE"] = describe.Length(time.Duration(oldest(r)) * time.Millisecond)
		left := time.Duration(remaining(r)) * time.Millisecond
		c["LEASE"] = describe.Length(left)
		if delay := time.Duration(h.LockDelayMS) * time.Millisecond; delay > 0 && !h.Released {
			delay = min(delay, left)
			c["LEASE"] = describe.Length(left-delay) + "+" + describe.Length(delay)
		}
	}
	switch {
	case job:
		c["KIND"] = "job"
		if j := s.Job; j != nil {
			c["VALUE"] = "due"
			if j.DueMS > 0 {
				c["VALUE"] = "next in " + describe.Length(time.Duration(j.DueMS)*time.Millisecond)
			}
		}
	case s.Leader != nil:
		c["KIND"], c["VALUE"] = "leader", say.OneLine(s.Leader.Value)
	case s.Limit > 0:
		c["VALUE"] = fmt.Sprintf("%d of %d", s.Used, s.Limit)
	}
	return r
}

// foreignRow is the row of another library's lock.
func foreignRow(f survey.Foreign) row {
	holder := lockjson.Holder{Mode: "exclusive", Owner: f.Holder, RemainingMS: f.Remaining.Milliseconds(), Token: "0",
		Tags: lockjson.Tags(nil)}
	if f.Shared {
		holder.Mode = "shared"
	}
	s := lockjson.State{Name: f.Key, Key: f.Key, Held: true, Fence: "0", Waiters: []lockjson.Waiter{}, Foreign: f.Kind,
		Holders: []lockjson.Holder{holder}}
	return row{state: s, cells: map[string]string{
		"NAME": say.OneLine(f.Key), "KIND": f.Kind, "HOLDER": say.OneLine(f.Holder),
		"LEASE": describe.Length(f.Remaining), "TOKEN": "-", "WAITING": "-",
	}}
}

// print prints the rows. Rows that come soon are sorted; if the scan takes longer, the rest
// follows as it comes, unless the user named a field to sort by.
func (l *lister) print(ctx context.Context) error {
	tick := time.NewTicker(showAfter)
	defer tick.Stop()
	progress := &listProgress{lister: l, shows: l.showsProgress()}
	defer progress.clear()
	var held []row
	for streaming := false; ; {
		var err error
		select {
		case r, more := <-l.rows:
			switch {
			case !more && streaming:
				return nil
			case !more:
				progress.clear()
				return l.begin(held)
			case streaming:
				err = l.printRow(r)
			default:
				held = append(held, r)
			}
		case <-tick.C:
			switch {
			case streaming:
			case l.sort == "" && len(held) > 0:
				streaming = true
				progress.clear()
				err = l.begin(held)
			default:
				progress.show(ctx, len(held))
			}
		}
		if err != nil {
			for range l.rows { // the scan must be able to end
				continue
			}
			return err
		}
	}
}

// begin prints the header and the first rows.
func (l *lister) begin(held []row) error {
	slices.SortStableFunc(held, func(a, b row) int {
		return cmp.Or(sorts[cmp.Or(l.sort, "name")](a, b), sorts["name"](a, b))
	})
	l.measure(held)
	l.none = len(held) == 0
	if err := l.printHeader(len(held) > 0); err != nil {
		return err
	}
	for _, r := range held {
		if err := l.printRow(r); err != nil {
			return err
		}
	}
	return nil
}

// sayNone says that a table has no rows. A script that reads names or objects has asked for nothing more.
func (l *lister) sayNone() {
	what := "no locks"
	if l.pattern != "" {
		what += fmt.Sprintf(" that match %q", l.pattern)
	}
	if !l.all && !l.stale && !l.foreign {
		what += " are held or waited for"
	}
	if l.output != "json" && l.output != "name" {
		l.app.Say.Noticef("%s", what)
	}
}

func (l *lister) showsProgress() bool {
	return l.output != "json" && l.app.Say.Terminal && l.app.Say.Level >= say.Normal
}

// listProgress is a line at the terminal that tells how far a long scan is.
type listProgress struct {
	*lister
	shows, shown bool
	total        int64
}

func (p *listProgress) show(ctx context.Context, found int) {
	if !p.shows {
		return
	}
	if p.total == 0 {
		p.total = survey.Size(ctx, p.server.Conns())
	}
	looked := min(p.server.Looked.Load(), p.total)
	fmt.Fprintf(os.Stderr, "\r\x1b[Klooked at %d of %d keys, found %d", looked, p.total, found)
	p.shown = true
}

func (p *listProgress) clear() {
	if p.shown {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
		p.shown = false
	}
}

func (l *lister) columns() (list []column) {
	for _, c := range listColumns {
		if !c.wide || l.output == "wide" {
			list = append(list, c)
		}
	}
	return list
}

// measure sets the widths of the columns by the first rows.
func (l *lister) measure(rows []row) {
	l.widths = map[string]int{}
	for _, c := range l.columns() {
		l.widths[c.head] = len(c.head)
		for _, r := range rows {
			l.widths[c.head] = max(l.widths[c.head], top.Columns(r.cells[c.head]))
		}
	}
}

func (l *lister) printHeader(rows bool) error {
	if l.noHeader || !rows || l.output == "json" || l.output == "name" {
		return nil
	}
	heads := map[string]string{}
	for _, c := range l.columns() {
		heads[c.head] = c.head
	}
	return l.printCells(heads)
}

func (l *lister) printRow(r row) error {
	switch l.output {
	case "json":
		return screen.WriteJSON(l.w, r.state)
	case "name":
		_, err := fmt.Fprintln(l.w, say.OneLine(r.state.Name))
		return err
	}
	return l.printCells(r.cells)
}

func (l *lister) printCells(cells map[string]string) error {
	var b strings.Builder
	for _, c := range l.columns() {
		text := cells[c.head]
		pad := strings.Repeat(" ", max(l.widths[c.head]-top.Columns(text), 0))
		if c.right {
			text = pad + text
		} else {
			text += pad
		}
		b.WriteString(text + "  ")
	}
	_, err := fmt.Fprintln(l.w, strings.TrimRight(b.String(), " "))
	return err
}
