//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// runbookChapter is the chapter of docs/runbook.md whose commands are tried.
const runbookChapter = "## Called at night"

// TestTheRunbook tries the commands of docs/runbook.md on real servers, section by section,
// and compares what they print with what the page shows. A comment of the page that begins
// with "script" makes the situation; it is a testscript.
func TestTheRunbook(t *testing.T) {
	page, err := os.ReadFile("../../docs/runbook.md")
	assert.Must(t, err)
	dir := t.TempDir()
	scripts, tried := runbook(t, string(page))
	for name, script := range scripts {
		assert.Must(t, os.WriteFile(filepath.Join(dir, name+".txt"), []byte(script), 0o600))
	}
	assert.True(t, len(scripts) >= 8 && tried >= 20,
		"the runbook has %d sections with %d commands", len(scripts), tried)
	testscript.Run(t, testscript.Params{Dir: dir, Setup: setup, Cmds: commands, Condition: condition})
}

var (
	exitOf  = regexp.MustCompile(`^(.*?)\s*# exits (\d+)$`)
	heading = regexp.MustCompile(`[^a-z]+`)
)

// runbook makes a script of each section of the chapter.
func runbook(t *testing.T, page string) (scripts map[string]string, commands int) {
	t.Helper()
	_, chapter, ok := strings.Cut(page, "\n"+runbookChapter+"\n")
	assert.MustTrue(t, ok, "docs/runbook.md has no chapter %q", runbookChapter)
	chapter, _, _ = strings.Cut(chapter, "\n## ")
	scripts = map[string]string{}
	for _, section := range strings.Split(chapter, "\n### ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		var script strings.Builder
		inside := ""
		for line := range strings.SplitSeq(text, "\n") {
			switch {
			case line == "<!-- script" || line == "```console":
				inside = line
			case line == "-->" || line == "```":
				inside = ""
			case inside == "<!-- script":
				fmt.Fprintln(&script, line)
			case inside == "```console" && strings.HasPrefix(line, "$ "):
				commands++
				line, code := strings.TrimPrefix(line, "$ "), "0"
				if m := exitOf.FindStringSubmatch(line); m != nil {
					line, code = m[1], m[2]
				}
				fmt.Fprintf(&script, "exec exits %s sh -c %s\n", code, scriptWord(line))
			case inside == "```console":
				fmt.Fprintf(&script, "shows %s\n", scriptWord(line))
			}
		}
		scripts[heading.ReplaceAllString(strings.ToLower(title), "-")] = script.String()
	}
	return scripts, commands
}

// scriptWord makes one word of a script. Inside quotes testscript expands no variable: the shell does.
func scriptWord(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// showsCmd: shows LINE: the last command has printed the line. … is any text, and the width of
// a gap does not matter.
func showsCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: shows LINE")
	}
	var words []string
	for word := range strings.FieldsSeq(args[0]) {
		words = append(words, strings.ReplaceAll(regexp.QuoteMeta(word), "…", ".*"))
	}
	pattern := `(?m)^ *` + strings.ReplaceAll(strings.Join(words, ` +`), `.* +`, `.*`) + `$`
	said := ts.ReadFile("stdout") + ts.ReadFile("stderr")
	if !regexp.MustCompile(pattern).MatchString(said) {
		ts.Fatalf("the page shows\n%s\nand the command printed\n%s", args[0], said)
	}
}

// clockCmd: clock DURATION sets the server's clock.
func clockCmd(ts *testscript.TestScript, _ bool, args []string) {
	d, err := time.ParseDuration(args[0])
	ts.Check(err)
	worldOf(ts).server.MoveClock(d)
}
