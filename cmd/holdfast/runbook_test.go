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
// and compares what they print with what the page shows. testdata/runbook.txt makes the situations.
func TestTheRunbook(t *testing.T) {
	page, situations := readDoc(t, "docs/runbook.md"), readDoc(t, "cmd/holdfast/testdata/runbook.txt")
	dir := t.TempDir()
	scripts, tried := runbook(t, page, situations)
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

// runbook makes a script of each section of the chapter, from its situation and the commands on the page.
func runbook(t *testing.T, page, situations string) (scripts map[string]string, commands int) {
	t.Helper()
	_, chapter, ok := strings.Cut(page, "\n"+runbookChapter+"\n")
	assert.MustTrue(t, ok, "docs/runbook.md has no chapter %q", runbookChapter)
	chapter, _, _ = strings.Cut(chapter, "\n## ")
	blocks := map[string][]string{}
	for _, section := range strings.Split(chapter, "\n### ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		for _, block := range strings.Split(text, "```console\n")[1:] {
			block, _, _ = strings.Cut(block, "```")
			script, tried := blockScript(block)
			blocks[title] = append(blocks[title], script)
			commands += tried
		}
	}
	scripts = map[string]string{}
	for _, situation := range strings.Split(situations, "\n### ")[1:] {
		title, text, _ := strings.Cut(situation, "\n")
		var script strings.Builder
		for line := range strings.Lines(text) {
			if left := blocks[title]; line == "page\n" {
				assert.MustTrue(t, len(left) > 0, "%s: the page has too few blocks of commands", title)
				line, blocks[title] = left[0], left[1:]
			}
			script.WriteString(line)
		}
		scripts[heading.ReplaceAllString(strings.ToLower(title), "-")] = script.String()
	}
	for title, left := range blocks {
		assert.True(t, len(left) == 0, "%s: testdata/runbook.txt does not run %d blocks of the page", title, len(left))
	}
	return scripts, commands
}

// blockScript makes a script of one block of commands: it runs each, and looks for what the block shows.
func blockScript(block string) (string, int) {
	var script strings.Builder
	commands := 0
	for line := range strings.SplitSeq(strings.TrimSuffix(block, "\n"), "\n") {
		command, is := strings.CutPrefix(line, "$ ")
		if !is {
			fmt.Fprintf(&script, "shows %s\n", scriptWord(line))
			continue
		}
		commands++
		code := "0"
		if m := exitOf.FindStringSubmatch(command); m != nil {
			command, code = m[1], m[2]
		}
		fmt.Fprintf(&script, "exec exits %s sh -c %s\n", code, scriptWord(command))
	}
	return script.String(), commands
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
