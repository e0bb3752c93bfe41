// Package repocheck holds the checks that keep this repository in shape: the parts
// of the house style that a machine can judge. Each check is a function from
// contents to problems, so that it can be tested with small inputs; the test
// of this package runs all of them over the tree.
//
// What needs types (layers, error handling, misuse) is the linter's job, see
// .golangci.yml. What is here runs with go test alone, in a second.
package repocheck

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// Problem is one broken rule at one place.
type Problem struct {
	File string
	Line int // 0 means the file as a whole
	Text string
}

// String answers file:line: text, the form that editors jump to.
func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}

// The words that mark unfinished work. They are put together here so that
// this file does not contain them. Work that is left belongs into an issue.
var markers = regexp.MustCompile(`\b(` + strings.Join([]string{
	"TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK", "W" + "IP",
}, "|") + `)\b`)

// Markers reports words that mark unfinished work, in code and in prose. The
// context package's placeholder of that name is reported too: it is one.
func Markers(file, text string) []Problem {
	return match(file, text, markers, "marks unfinished work")
}

// Absolute paths that exist on one machine only. The character in front keeps
// words that merely contain such a path, like go.work/x, out of it.
var machinePaths = regexp.MustCompile(`(?:^|[^\w.~/-])(/(?:` + strings.Join([]string{
	"ho" + "me/", "wo" + "rk/", "ro" + "ot/", "Use" + "rs/", "tmp/ba" + "sh",
}, "|") + `)[\w.-]*)`)

// MachinePaths reports absolute paths that only the author's machine has.
func MachinePaths(file, text string) []Problem {
	return match(file, text, machinePaths, "is a path of one machine")
}

// match reports the first group of every match of re.
func match(file, text string, re *regexp.Regexp, what string) []Problem {
	var problems []Problem
	for n, line := range lines(text) {
		for _, m := range re.FindAllStringSubmatch(line, -1) {
			problems = append(problems, Problem{file, n + 1, fmt.Sprintf("%q %s", m[1], what)})
		}
	}
	return problems
}

// lines splits text; a final newline begins no further line.
func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// includeLine is how one Lua file names the part that stands in its place.
var includeLine = regexp.MustCompile(`(?m)^--include (\w+)$`)

// Transcripts reports Lua files without a golden transcript beside them. texts
// maps the paths of all files in question to their contents. A part that
// another script includes is no action and needs none.
func Transcripts(texts map[string]string) []Problem {
	part := map[string]bool{}
	for file, text := range texts {
		if path.Ext(file) != ".lua" {
			continue
		}
		for _, m := range includeLine.FindAllStringSubmatch(text, -1) {
			part[path.Join(path.Dir(file), m[1]+".lua")] = true
		}
	}
	var problems []Problem
	for file := range texts {
		if path.Ext(file) != ".lua" || part[file] {
			continue
		}
		twin := strings.TrimSuffix(file, ".lua") + ".txt"
		if _, ok := texts[twin]; !ok {
			problems = append(problems, Problem{file, 0, "has no golden transcript " + path.Base(twin)})
		}
	}
	return problems
}

var useLine = regexp.MustCompile(`^(?:use\s+)?"?(\.[^\s"]*)"?$`)

// Workspace compares go.work with the directories, relative to the root and
// with "." for the root itself, that hold a go.mod. Each must know the other:
// a module outside the workspace is one that no target of the Makefile tests.
func Workspace(work string, modules []string) []Problem {
	used := map[string]int{}
	for n, line := range lines(work) {
		line, _, _ = strings.Cut(line, "//")
		if m := useLine.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			used[path.Clean(m[1])] = n + 1
		}
	}
	var problems []Problem
	for _, dir := range modules {
		if used[dir] == 0 {
			problems = append(problems, Problem{"go.work", 0, "does not use the module in " + dir})
		}
		delete(used, dir)
	}
	for dir, line := range used {
		problems = append(problems, Problem{"go.work", line, "uses " + dir + ", which has no go.mod"})
	}
	return problems
}

var requireLine = regexp.MustCompile(`^\s*require\b`)

// NoRequire reports requirements in a go.mod. The root module has none: what
// it required, even for its tests, would reach every user of the library.
func NoRequire(file, text string) []Problem {
	var problems []Problem
	for n, line := range lines(text) {
		if requireLine.MatchString(line) {
			problems = append(problems, Problem{file, n + 1, "requires a module; the root is standard library only"})
		}
	}
	return problems
}
