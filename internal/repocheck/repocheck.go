// Package repocheck checks the parts of the house style that a program can judge. Each
// check is a function from contents to problems, so it can be tested with small inputs.
// The test of this package runs all checks over the tree.
//
// The linter does the checks that need types (layers, error handling, misuse), see
// .golangci.yml. These checks need only go test.
package repocheck

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Problem is one violation of a rule at one place.
type Problem struct {
	File string
	Line int // 0 means the file as a whole
	Text string
}

// String returns file:line: text, the form to which editors can jump.
func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}

// The words that mark unfinished work. They are composed here, so that this file does not
// contain them. Unfinished work belongs in an issue.
var markers = regexp.MustCompile(`\b(` + strings.Join([]string{
	"TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK", "W" + "IP",
}, "|") + `)\b`)

// Markers reports words that mark unfinished work, in code and in prose. It also reports
// the placeholder of package context.
func Markers(file, text string) []Problem {
	return match(file, text, markers, "marks unfinished work")
}

// Absolute paths that exist on one machine only. The pattern of the character in front
// excludes words that only contain such a path, like go.work/x.
var machinePaths = regexp.MustCompile(`(?:^|[^\w.~/-])(/(?:` + strings.Join([]string{
	"ho" + "me/", "wo" + "rk/", "ro" + "ot/", "Use" + "rs/", "tmp/ba" + "sh",
}, "|") + `)[\w.-]*)`)

// MachinePaths reports absolute paths of the author's machine.
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

// lines splits text into lines. A final newline begins no further line.
func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// includeLine is the line with which a Lua file includes another one.
var includeLine = regexp.MustCompile(`(?m)^--include (\w+)$`)

// Transcripts reports Lua files without a golden transcript beside them. texts maps the
// paths of the files to their contents. A file that another script includes is no action
// and needs no transcript.
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

// Workspace compares go.work with the directories that have a go.mod, relative to the
// root; "." is the root. They must be the same: no target of the Makefile tests a module
// outside of the workspace.
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

// NoRequire reports requirements in a go.mod. The root module has none, because every
// user of the library would get them, also those of its tests.
func NoRequire(file, text string) []Problem {
	var problems []Problem
	for n, line := range lines(text) {
		if requireLine.MatchString(line) {
			problems = append(problems, Problem{file, n + 1, "requires a module; the root is standard library only"})
		}
	}
	return problems
}

var requirement = regexp.MustCompile(`^(?:require)?\s+(\S+\.\S+) (v\S+)$`)

// OneVersion reports direct requirements that differ between modules of the workspace. In the
// workspace all tests run with the newest version, and users build each module with its own.
func OneVersion(mods map[string]string) []Problem {
	type place struct {
		file    string
		line    int
		version string
	}
	places := map[string][]place{}
	for _, file := range slices.Sorted(maps.Keys(mods)) {
		for n, line := range lines(mods[file]) {
			if m := requirement.FindStringSubmatch(line); m != nil {
				places[m[1]] = append(places[m[1]], place{file, n + 1, m[2]})
			}
		}
	}
	var problems []Problem
	for module, all := range places {
		for _, p := range all[1:] {
			if p.version != all[0].version {
				problems = append(problems, Problem{p.file, p.line, fmt.Sprintf(
					"requires %s %s, and %s requires %s: the tests run with one of them only",
					module, p.version, all[0].file, all[0].version)})
			}
		}
	}
	return problems
}
