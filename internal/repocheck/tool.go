package repocheck

import (
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	module  = "github.com/holdfast-go/holdfast"
	toolDir = "cmd/holdfast/"
)

// toolShares are the internal packages that the tool may import. What the tool can do, a program can do: so none of
// them knows the wire, or reaches what is inside the library. Each imports only public packages and others of
// this list.
var toolShares = map[string]string{
	"internal/audit":       "what the store of a demo or of a check writes down, and how it is read",
	"internal/childproc":   "starts processes, and ends them",
	"internal/clock":       "a clock that counts suspension",
	"internal/commandline": "values of flags, and signals",
	"internal/filecounter": "a number in a file",
	"internal/glob":        "patterns for names",
	"internal/lockjson":    "the public state of a lock as JSON",
}

// toolTests are those that only its tests may import.
var toolTests = []string{"internal/assert", "internal/redistest"}

// ToolImports reports imports by which the tool could do what a program cannot. files are the Go files of the tree.
func ToolImports(files map[string]string) (problems []Problem) {
	used := map[string]bool{}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		tool := strings.HasPrefix(file, toolDir)
		if !tool && (isTest(file) || toolShares[path.Dir(file)] == "") {
			continue
		}
		for dir, line := range internals(file, files[file]) {
			used[dir] = used[dir] || tool
			switch {
			case toolShares[dir] != "", isTest(file) && slices.Contains(toolTests, dir):
			case tool:
				problems = append(problems, Problem{file, line, fmt.Sprintf("imports %s, which no program can: "+
					"use what is public. If the tool needs more, so does a program: make it a public call. "+
					"A package that knows nothing of locks can be shared, see toolShares in internal/repocheck", dir)})
			default:
				problems = append(problems, Problem{file, line, "imports " + dir +
					", but the tool shares this package, and may not reach the inside of the library through it"})
			}
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(toolShares)) {
		if !used[dir] {
			problems = append(problems, Problem{
				"internal/repocheck/tool.go", 0, "lists " + dir + ", and the tool does not use it",
			})
		}
	}
	return problems
}

// internals are the internal packages of the module that a file imports, with the lines; but for those of the tool.
func internals(file, text string) map[string]int {
	fset, found := token.NewFileSet(), map[string]int{}
	tree, err := parser.ParseFile(fset, file, text, parser.ImportsOnly)
	if err != nil {
		return nil // the compiler says so
	}
	for _, spec := range tree.Imports {
		of, _ := strconv.Unquote(spec.Path.Value)
		dir, ours := strings.CutPrefix(of, module+"/")
		if ours && !strings.HasPrefix(dir, toolDir) && slices.Contains(strings.Split(dir, "/"), "internal") {
			found[dir] = fset.Position(spec.Pos()).Line
		}
	}
	return found
}
