// Package help prints what the commands do: briefly for -h, the whole for --help, and as man pages. The texts are
// in the commands, with their flags; here is the form.
//
// -h is short: usage, at most five examples, and the ten flags that matter. --help has the flags in groups, and then
// the text. What an exit code means is in one place, holdfast help exit-codes.
package help

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// Group is a heading, of flags or of commands.
type Group string

// The groups of flags, in the order in which --help lists them. Flags without a group are Flags, and those of all
// commands are Server.
const (
	Flags    Group = "Flags"
	Waiting  Group = "Waiting"
	Kind     Group = "Kind of lock"
	Lease    Group = "Lease, and what its loss does"
	Command  Group = "Command"
	Foreign  Group = "Lock of another library"
	Messages Group = "Messages"
	Server   Group = "Server (flags of every command)"
)

var flagGroups = []Group{Flags, Waiting, Kind, Lease, Command, Foreign, Messages, Server}

// The groups of commands, in the order in which holdfast help lists them.
const (
	Hold    Group = "Hold"
	Look    Group = "Look"
	Operate Group = "Operate"
)

var commandGroups = []Group{Hold, Look, Operate}

const (
	groupKey = "group" // the annotation of a flag
	briefKey = "brief" // the annotation of a command
	most     = 10      // flags in -h
	examples = 5       // in -h
)

// The commands of a group are in the order of the table in main. cobra would sort them by name.
func init() { cobra.EnableCommandSorting = false } //nolint:gochecknoinits // cobra has it for the whole process

// In puts the flags that are added until the returned function is called into a group.
func (g Group) In(flags *pflag.FlagSet) (end func()) {
	before := map[string]bool{}
	flags.VisitAll(func(f *pflag.Flag) { before[f.Name] = true })
	return func() {
		flags.VisitAll(func(f *pflag.Flag) {
			if !before[f.Name] {
				f.Annotations = map[string][]string{groupKey: {string(g)}}
			}
		})
	}
}

// Brief names the flags of a command that -h lists. Without it, these are the command's own, --redis and --prefix.
func Brief(cmd *cobra.Command, flags ...string) {
	cmd.Annotations = map[string]string{briefKey: strings.Join(flags, " ")}
}

// Install makes root and its commands print this help. Their groups are known from then on.
func Install(root *cobra.Command) {
	for _, g := range commandGroups {
		root.AddGroup(&cobra.Group{ID: string(g), Title: string(g)})
	}
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		w := cmd.OutOrStdout()
		fmt.Fprint(w, Text(cmd, asksBriefly(args), terminalWidth())) //nolint:errcheck // the writer remembers it
	})
}

// asksBriefly reports whether a command line has -h, and not --help. Without words, the command help asks.
func asksBriefly(words []string) bool {
	if end := slices.Index(words, "--"); end >= 0 {
		words = words[:end]
	}
	return len(words) > 0 && !slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, "--help") })
}

// The widths of the text: that of a terminal, within limits.
const (
	usualWidth = 80
	leastWidth = 40
	mostWidth  = 100 // longer lines are hard to read
)

func terminalWidth() int {
	if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && width > 0 {
		return min(max(width, leastWidth), mostWidth)
	}
	return usualWidth
}

// Text is the help of a command, or of a topic.
func Text(cmd *cobra.Command, brief bool, width int) string {
	var b strings.Builder
	switch {
	case !cmd.Runnable():
		b.WriteString(format(cmd.Long, width))
	case cmd == cmd.Root():
		overview(&b, cmd, brief, width)
	case brief:
		inBrief(&b, cmd, width)
	default:
		inFull(&b, cmd, width)
	}
	return b.String()
}

// inBrief is the help of a command for -h.
func inBrief(b *strings.Builder, cmd *cobra.Command, width int) {
	b.WriteString(format(cmd.Short, width) + "\n")
	list(b, "Usage", "  "+cmd.UseLine(), width)
	list(b, "Examples", firstExamples(cmd.Example), width)
	listFlags(b, string(Flags), briefFlags(cmd), width)
	b.WriteString(format("More: "+cmd.CommandPath()+" --help. Exit codes: holdfast help exit-codes", width))
}

// inFull is the help of a command for --help: what one looks for stands before what one reads.
func inFull(b *strings.Builder, cmd *cobra.Command, width int) {
	b.WriteString(format(cmd.Short, width) + "\n")
	usage(b, cmd, width)
	list(b, "Examples", cmd.Example, width)
	for _, g := range flagGroups {
		listFlags(b, string(g), flagsIn(cmd, g), width)
	}
	b.WriteString(format(cmd.Long, width))
	if !strings.Contains(strings.Join(strings.Fields(cmd.Long), " "), "holdfast help exit-codes") {
		b.WriteString("\nExit codes: holdfast help exit-codes\n")
	}
}

// overview is the help of the tool.
func overview(b *strings.Builder, root *cobra.Command, brief bool, width int) {
	b.WriteString(format(root.Long, width) + "\n")
	list(b, "Usage", "  holdfast COMMAND [flags] [ARGUMENT...]", width)
	for _, g := range commandGroups {
		list(b, string(g), commandRows(root, func(c *cobra.Command) bool { return c.GroupID == string(g) }), width)
	}
	list(b, "Topics", commandRows(root, func(c *cobra.Command) bool { return !c.Runnable() }), width)
	list(b, "Examples", root.Example, width)
	for _, g := range flagGroups {
		if !brief {
			listFlags(b, string(g), flagsIn(root, g), width)
		}
	}
	b.WriteString(format("More: holdfast COMMAND -h, holdfast COMMAND --help, holdfast help TOPIC", width))
}

func commandRows(root *cobra.Command, wanted func(*cobra.Command) bool) string {
	var b strings.Builder
	for _, cmd := range root.Commands() {
		if wanted(cmd) && !cmd.Hidden && cmd.Name() != "help" {
			fmt.Fprintf(&b, "  %-12s  %s\n", cmd.Name(), cmd.Short)
		}
	}
	return b.String()
}

func usage(b *strings.Builder, cmd *cobra.Command, width int) {
	var text strings.Builder
	for _, name := range append([]string{cmd.Name()}, cmd.Aliases...) {
		text.WriteString("  " + strings.Replace(cmd.UseLine(), " "+cmd.Name(), " "+name, 1) + "\n")
	}
	list(b, "Usage", text.String(), width)
}

// list writes a heading and the rows below it.
func list(b *strings.Builder, heading, text string, width int) {
	if text != "" {
		fmt.Fprintf(b, "%s:\n%s\n", heading, format(text, width))
	}
}

// listFlags writes a heading and the flags below it.
func listFlags(b *strings.Builder, heading string, flags []*pflag.Flag, width int) {
	if len(flags) > 0 {
		fmt.Fprintf(b, "%s:\n%s\n", heading, lines(rows(flags, width), width))
	}
}

// firstExamples are the examples that -h shows, with the lines that belong to them.
func firstExamples(text string) string {
	var b strings.Builder
	n := 0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "   ") {
			n++
		}
		if n <= examples {
			b.WriteString(line)
		}
	}
	return b.String()
}

// flagsIn are the flags of a command that belong to a group.
func flagsIn(cmd *cobra.Command, g Group) (list []*pflag.Flag) {
	add := func(f *pflag.Flag, otherwise Group) {
		if titles := f.Annotations[groupKey]; len(titles) > 0 {
			otherwise = Group(titles[0])
		}
		if otherwise == g && !f.Hidden && f.Name != "help" {
			list = append(list, f)
		}
	}
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { add(f, Server) })
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if cmd.PersistentFlags().Lookup(f.Name) != nil {
			add(f, Server) // of the root
		} else {
			add(f, Flags)
		}
	})
	return list
}

// briefFlags are the flags of -h.
func briefFlags(cmd *cobra.Command) (list []*pflag.Flag) {
	names := strings.Fields(cmd.Annotations[briefKey])
	if len(names) == 0 {
		cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" {
				names = append(names, f.Name)
			}
		})
		if len(names) <= most-2 && cmd.InheritedFlags().Lookup("redis") != nil {
			names = append(names, "redis", "prefix")
		}
	}
	for _, name := range names {
		if f := cmd.Flag(name); f != nil {
			list = append(list, f)
		}
	}
	return list
}

// widestFlag is the widest name of a flag with text beside it.
const widestFlag = 32

// rows are flags as rows of a table.
func rows(flags []*pflag.Flag, width int) []block {
	column := 0
	for _, f := range flags {
		if n := columns(nameOf(f)); n <= min(widestFlag, width/2) {
			column = max(column, n)
		}
	}
	list := make([]block, len(flags))
	for i, f := range flags {
		list[i] = block{indent: 2, key: nameOf(f), column: 2 + column + 2, text: usageOf(f)}
	}
	return list
}

// nameOf is a flag as it is written, with the name of its value.
func nameOf(f *pflag.Flag) string {
	name := "    --" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", --" + f.Name
	}
	if kind, _ := pflag.UnquoteUsage(f); kind != "" {
		name += " " + kind
	}
	return name
}

// usageOf is what a flag does, and its default.
func usageOf(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "0", "0s", "false", "[]":
		return f.Usage
	}
	return f.Usage + " (default " + f.DefValue + ")"
}
