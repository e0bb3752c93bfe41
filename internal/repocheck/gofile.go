package repocheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The limits of a Go file, for the sake of its readers. A function counts from its func
// line to its closing brace, without its comment. Test functions may be longer, because a
// sequence of events is easier to read in one place.
const (
	MaxFileLines     = 1000
	MaxFuncLines     = 70
	MaxTestFuncLines = 100
	MaxColumns       = 120 // aim for 100; a tab counts as four

	tabColumns = 4
)

// GoFile reports what is too long in a Go file, and calls that tests must not make. A
// test that sleeps is slow if it passes, and wrong on a slow machine. A test that skips
// hides that nothing was tested. Generated files may have any length.
func GoFile(file, text string) []Problem {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, text, parser.ParseComments)
	if err != nil {
		return []Problem{{file, 0, "does not parse: " + err.Error()}}
	}
	problems := calls(file, fset, tree)
	if ast.IsGenerated(tree) {
		return problems
	}
	if n := len(lines(text)); n > MaxFileLines {
		problems = append(problems, Problem{file, 0, fmt.Sprintf("has %d lines, more than %d", n, MaxFileLines)})
	}
	problems = append(problems, columns(file, text)...)
	return append(problems, functions(file, fset, tree)...)
}

// columns reports lines that are too wide. A line with a URL may be wide, because the URL
// cannot be broken.
func columns(file, source string) []Problem {
	var problems []Problem
	for n, line := range lines(source) {
		wide := utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
		if wide > MaxColumns && !strings.Contains(line, "://") {
			text := fmt.Sprintf("has %d columns, more than %d", wide, MaxColumns)
			problems = append(problems, Problem{file, n + 1, text})
		}
	}
	return problems
}

func functions(file string, fset *token.FileSet, tree *ast.File) []Problem {
	limit := MaxFuncLines
	if isTest(file) {
		limit = MaxTestFuncLines
	}
	var problems []Problem
	for _, decl := range tree.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		first, last := fset.Position(f.Pos()).Line, fset.Position(f.End()).Line
		if n := last - first + 1; n > limit {
			text := fmt.Sprintf("func %s has %d lines, more than %d", f.Name.Name, n, limit)
			problems = append(problems, Problem{file, first, text})
		}
	}
	return problems
}

// skips are the methods of testing.TB that end a test without a verdict.
var skips = map[string]bool{"Skip": true, "Skipf": true, "SkipNow": true}

// testers are the usual names of a testing.TB. This check has no types, so it uses names;
// the linter has types and the same rule.
var testers = map[string]bool{"t": true, "b": true, "f": true, "tb": true}

func calls(file string, fset *token.FileSet, tree *ast.File) []Problem {
	var problems []Problem
	timeName := importName(tree, "time")
	if !isTest(file) || inBubble(file, tree) {
		timeName = ""
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := sel.X.(*ast.Ident)
		if !ok {
			return true
		}
		line := fset.Position(sel.Pos()).Line
		if timeName != "" && x.Name == timeName && sel.Sel.Name == "Sleep" {
			problems = append(problems, Problem{file, line, "sleeps in a test; wait for the event instead"})
		}
		if testers[x.Name] && skips[sel.Sel.Name] {
			problems = append(problems, Problem{file, line, "skips a test; make it run or fail with what is missing"})
		}
		return true
	})
	return problems
}

// inBubble reports whether a test file uses virtual time. There a sleep costs nothing and
// is exact, and it is how time moves. Such tests are in files with their own names,
// because the linter does not see imports.
func inBubble(file string, tree *ast.File) bool {
	return strings.HasSuffix(file, "bubble_test.go") && importName(tree, "testing/synctest") != ""
}

// importName is the name of the package at importPath in this file, or "".
func importName(tree *ast.File, importPath string) string {
	for _, imp := range tree.Imports {
		if p, err := strconv.Unquote(imp.Path.Value); err != nil || p != importPath {
			continue
		}
		if imp.Name != nil {
			return imp.Name.Name
		}
		return importPath[strings.LastIndex(importPath, "/")+1:]
	}
	return ""
}

func isTest(file string) bool { return strings.HasSuffix(file, "_test.go") }

var testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example|Benchmark)\w*)\(`)

// TestFuncs lists the tests, fuzz targets, examples and benchmarks in a file.
func TestFuncs(file, text string) []string {
	if !isTest(file) {
		return nil
	}
	var names []string
	for _, m := range testFunc.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}
