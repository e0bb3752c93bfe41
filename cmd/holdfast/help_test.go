package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/help"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// eachCommand visits the commands that a user sees.
func eachCommand(visit func(cmd *cobra.Command)) {
	root := newRoot(&target.App{Say: &say.Printer{}})
	visit(root)
	for _, cmd := range root.Commands() {
		if !cmd.Hidden && cmd.Name() != "help" {
			visit(cmd)
		}
	}
}

func TestTheHelpFitsATerminal(t *testing.T) {
	eachCommand(func(cmd *cobra.Command) {
		for _, brief := range []bool{true, false} {
			for line := range strings.Lines(help.Text(cmd, brief, 80)) {
				line = strings.TrimSuffix(line, "\n")
				assert.AtMost(t, utf8.RuneCountInString(line), 80, "%s, brief %v: %s", cmd.Name(), brief, line)
			}
		}
	})
}

// Guarantee: help exit-codes has each command, but for those that end as any program does.
func TestTheExitCodesHaveEachCommand(t *testing.T) {
	eachCommand(func(cmd *cobra.Command) {
		if cmd.HasParent() && cmd.Runnable() && cmd.Name() != "version" && cmd.Name() != "completion" {
			named := regexp.MustCompile(`\b` + cmd.Name() + `\b`).MatchString(exit.Text())
			assert.True(t, named, "%s is not in help exit-codes", cmd.Name())
		}
	})
}

// -h has at most five examples and ten flags, and says where the rest is. --help has every flag, and the flags stand
// before the text.
func TestTheShortHelpIsShort(t *testing.T) {
	flag := regexp.MustCompile(`(?m)^  (-\w, |    )--`)
	eachCommand(func(cmd *cobra.Command) {
		if !cmd.Runnable() || cmd == cmd.Root() {
			return
		}
		brief, full := help.Text(cmd, true, 80), help.Text(cmd, false, 80)
		assert.AtMost(t, len(flag.FindAllString(brief, -1)), 10, "flags of %s -h", cmd.Name())
		_, examples, _ := strings.Cut(brief, "\nExamples:\n")
		examples, _, _ = strings.Cut(examples, "\n\n")
		assert.AtMost(t, len(regexp.MustCompile(`(?m)^  \S`).FindAllString(examples, -1)), 5,
			"examples of %s -h", cmd.Name())
		assert.Contains(t, brief, cmd.CommandPath()+" --help")
		assert.Contains(t, strings.Join(strings.Fields(full), " "), "holdfast help exit-codes")
		cmd.InheritedFlags()
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			at := strings.Index(full, "--"+f.Name)
			text := strings.LastIndex(full, strings.Join(strings.Fields(cmd.Long)[:3], " "))
			if !f.Hidden && f.Name != "help" && !cmd.DisableFlagParsing {
				assert.True(t, at >= 0 && at < text,
					"%s --help: --%s at %d, the text at %d", cmd.Name(), f.Name, at, text)
			}
		})
	})
}

// man(1) does not break the lines of a table.
func TestEveryCommandHasAManPage(t *testing.T) {
	dir := t.TempDir()
	root := newRoot(&target.App{Say: &say.Printer{}})
	assert.Must(t, help.WriteMan(root, dir))
	macros := regexp.MustCompile(`^\.(TH|SH|PP|TP|B|BR|br|nf|fi)( |$)`)
	shown := regexp.MustCompile(`\\(e|-|&|\[u\w+\])`)
	pages := 0
	for _, cmd := range root.Commands() {
		section := "1"
		if !cmd.Runnable() {
			section = "7"
		}
		path := filepath.Join(dir, "man"+section, "holdfast-"+cmd.Name()+"."+section)
		text, err := os.ReadFile(path)
		if cmd.Hidden || err != nil {
			assert.False(t, cmd.Hidden == (err == nil) && cmd.Name() != "help",
				"%s: hidden %v, %v", cmd.Name(), cmd.Hidden, err)
			continue
		}
		pages++
		filled := true
		for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			switch {
			case strings.HasPrefix(line, ".") && !macros.MatchString(line), strings.HasPrefix(line, "'"):
				t.Errorf("%s:%d: %q is no macro", path, i+1, line)
			case filled && (line == "" || line[0] == ' '):
				t.Errorf("%s:%d: %q would end the paragraph", path, i+1, line)
			case strings.ContainsFunc(line, func(r rune) bool { return r >= 0x80 }):
				t.Errorf("%s:%d: %q is not ASCII", path, i+1, line)
			case !filled && len(shown.ReplaceAllString(line, "x")) > 71:
				t.Errorf("%s:%d: %q does not fit a terminal of 80 columns", path, i+1, line)
			}
			filled = line == ".fi" || filled && line != ".nf"
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			escaped := strings.ReplaceAll("--"+f.Name, "-", `\-`)
			assert.False(t, cmd.Runnable() && !f.Hidden && f.Name != "help" && !strings.Contains(string(text), escaped),
				"%s has nothing about --%s", path, f.Name)
		})
	}
	if text, err := os.ReadFile(filepath.Join(dir, "man1", "holdfast.1")); err != nil ||
		!strings.Contains(string(text), ".BR holdfast\\-run (1)") || pages < 15 {
		t.Errorf("%d pages; holdfast.1: %v\n%s", pages, err, text)
	}
}
