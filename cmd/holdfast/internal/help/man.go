package help

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// WriteMan writes a page for each command, and for each page of help, into DIR/man1 and DIR/man7. cobra has a package
// for it, which takes a command's text for Markdown: the tables in ours would become paragraphs.
func WriteMan(root *cobra.Command, dir string) error {
	for _, cmd := range append([]*cobra.Command{root}, root.Commands()...) {
		if cmd.Hidden || cmd.Name() == "help" {
			continue
		}
		section := manSection(cmd)
		to := filepath.Join(dir, "man"+section)
		if err := os.MkdirAll(to, 0o755); err != nil { //nolint:gosec // everybody reads the manual
			return err
		}
		path := filepath.Join(to, manName(cmd)+"."+section)
		if err := os.WriteFile(path, []byte(manPage(cmd)), 0o644); err != nil { //nolint:gosec // for everybody
			return err
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
		fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", strings.ReplaceAll(roff(cmd.UseLine()), "\n  ", "\n.br\n.B "))
		for _, alias := range cmd.Aliases {
			fmt.Fprintf(&b, ".br\n.B %s\n", roff(strings.Replace(cmd.UseLine(), " "+cmd.Name(), " "+alias, 1)))
		}
	}
	b.WriteString(".SH DESCRIPTION\n" + manText(cmp.Or(cmd.Long, cmd.Short)))
	if cmd.Example != "" {
		b.WriteString(".SH EXAMPLES\n.nf\n" + roff(format(cmd.Example, manWidth)) + ".fi\n")
	}
	if cmd.Runnable() {
		manFlags(&b, cmd)
	}
	manSeeAlso(&b, cmd)
	return b.String()
}

// manWidth is the width of a table on a page of 80 columns: man(1) indents it, and a page has a margin.
const manWidth = 71

// manText makes paragraphs of a text. A part with an indented line is a table, and man(1) does not break its lines.
func manText(text string) string {
	var b strings.Builder
	for i, part := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if strings.HasPrefix(part, "  ") || strings.Contains(part, "\n  ") {
			b.WriteString(".nf\n" + roff(format(part, manWidth)) + ".fi\n")
		} else {
			b.WriteString(roff(part) + "\n")
		}
	}
	return b.String()
}

// manFlags lists flags as the help does.
func manFlags(b *strings.Builder, cmd *cobra.Command) {
	for _, g := range flagGroups {
		flags := flagsIn(cmd, g)
		if len(flags) == 0 {
			continue
		}
		fmt.Fprintf(b, ".SH %s\n", roff(strings.ToUpper(string(g))))
		for _, f := range flags {
			fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(strings.TrimSpace(nameOf(f))), roff(usageOf(f)))
		}
	}
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
