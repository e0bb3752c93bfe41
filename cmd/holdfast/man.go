package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newMan makes the hidden command that make install writes the man pages with. cobra has a
// package for it, which takes a command's text for Markdown: the tables in ours would become
// paragraphs.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Hidden: true,
		Short: "Write the man pages into DIR/man1 and DIR/man7",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError("man takes one directory", "write holdfast man DIR")
			}
			return writeManPages(cmd.Root(), args[0])
		},
	}
}

// writeManPages writes a page for each command, and for each page of help.
func writeManPages(root *cobra.Command, dir string) error {
	for _, cmd := range append([]*cobra.Command{root}, root.Commands()...) {
		if cmd.Hidden || cmd.Name() == "help" {
			continue
		}
		section := manSection(cmd)
		to := filepath.Join(dir, "man"+section)
		if err := os.MkdirAll(to, 0o755); err != nil { //nolint:gosec // everybody reads the manual
			return &exitError{codeFailed, err, ""}
		}
		path := filepath.Join(to, manName(cmd)+"."+section)
		if err := os.WriteFile(path, []byte(manPage(cmd)), 0o644); err != nil { //nolint:gosec // for everybody
			return &exitError{codeFailed, err, ""}
		}
	}
	return nil
}

// manSection is 1 for commands and 7 for pages of help.
func manSection(cmd *cobra.Command) string {
	if cmd.Runnable() {
		return "1"
	}
	return "7"
}

func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage is a page for man(1), in the macros of man(7).
func manPage(cmd *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s %s \"\" \"holdfast %s\" \"Holdfast\"\n",
		roff(strings.ToUpper(manName(cmd))), manSection(cmd), cmd.Root().Version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(manName(cmd)), roff(cmd.Short))
	if cmd.Runnable() {
		fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(cmd.UseLine()))
		for _, alias := range cmd.Aliases {
			fmt.Fprintf(&b, ".br\n.B %s\n", roff(strings.Replace(cmd.UseLine(), " "+cmd.Name(), " "+alias, 1)))
		}
	}
	b.WriteString(".SH DESCRIPTION\n" + manText(cmp.Or(cmd.Long, cmd.Short)))
	if cmd.Example != "" {
		b.WriteString(".SH EXAMPLES\n.nf\n" + roff(cmd.Example) + "\n.fi\n")
	}
	manFlags(&b, "OPTIONS", cmd.NonInheritedFlags())
	if cmd.Runnable() {
		manFlags(&b, "OPTIONS OF ALL COMMANDS", cmd.InheritedFlags())
	}
	manSeeAlso(&b, cmd)
	return b.String()
}

// manText makes paragraphs of a text. A part with an indented line is a table, and stays as
// it is.
func manText(text string) string {
	var b strings.Builder
	for i, part := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if strings.HasPrefix(part, "  ") || strings.Contains(part, "\n  ") {
			part = ".nf\n" + roff(part) + "\n.fi"
		} else {
			part = roff(part)
		}
		b.WriteString(part + "\n")
	}
	return b.String()
}

// manFlags lists flags as the help does.
func manFlags(b *strings.Builder, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name, usage := "--"+f.Name, f.Usage
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if kind, _ := pflag.UnquoteUsage(f); kind != "" {
			name += " " + kind
		}
		switch f.DefValue {
		case "", "0", "0s", "false", "[]":
		default:
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(name), roff(usage))
	})
}

func manSeeAlso(b *strings.Builder, cmd *cobra.Command) {
	var pages []string
	for _, other := range append([]*cobra.Command{cmd.Root()}, cmd.Root().Commands()...) {
		near := cmd == cmd.Root() || other == cmd.Root() || !other.Runnable()
		if near && other != cmd && !other.Hidden && other.Name() != "help" {
			pages = append(pages, fmt.Sprintf(".BR %s (%s)", roff(manName(other)), manSection(other)))
		}
	}
	b.WriteString(".SH SEE ALSO\n" + strings.Join(pages, ",\n") + "\n")
}

// roff escapes what means something to a formatter.
func roff(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r >= 0x80:
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	lines := strings.Split(b.String(), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
