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

// The limits of a Go file. They are set where a reader loses the thread, not
// where the compiler would. A function counts from its func line to its
// closing brace; its comment is free. Test functions may be longer, since a
// story told in order reads better whole.
const (
	MaxFileLines     = 600
	MaxFuncLines     = 70
	MaxTestFuncLines = 100
	MaxColumns       = 120 // 100 is the aim; a tab counts as four

	tabColumns = 4
)

// GoFile reports what is too long in a Go file, and the calls that tests must
// not make: one that sleeps is slow when it passes and wrong when the machine
// is slow, and one that skips hides that nothing was tested. Generated files
// may be as long as they like.
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

// columns reports lines that are too wide. A line with an address may be: to
// break it would break the address.
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

// testers are the names that a testing.TB goes by. Without types a name is
// all there is to go by; the linter has types and the same rule.
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

// inBubble reports a test file whose time is virtual: there a sleep costs
// nothing, waits for exactly what it says, and is how time moves at all. Such
// tests have files of their own, so that the linter, which does not see
// imports, can tell them by the name.
func inBubble(file string, tree *ast.File) bool {
	return strings.HasSuffix(file, "bubble_test.go") && importName(tree, "testing/synctest") != ""
}

// importName is what the file calls the package at importPath, or "".
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
