package repocheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
)

// spoken are the methods that other packages call by their own interfaces.
var spoken = map[string]bool{"Error": true, "Is": true, "String": true, "Unwrap": true}

// Examples reports exported functions and methods of a package without an example in go
// doc: ExampleF or ExampleT_M, perhaps with a suffix. texts maps the paths of the
// package's files, including tests, to their contents. Methods in called belong to an
// interface of the library, which calls them itself.
func Examples(texts map[string]string, called map[string]bool) []Problem {
	var problems []Problem
	shown := map[string]bool{}
	for file, text := range texts {
		for _, name := range TestFuncs(file, text) {
			if name, ok := strings.CutPrefix(name, "Example"); ok {
				shown[withoutEnding(name)] = true
			}
		}
	}
	fset := token.NewFileSet()
	for file, text := range texts {
		if isTest(file) || path.Ext(file) != ".go" {
			continue
		}
		tree, err := parser.ParseFile(fset, file, text, 0)
		if err != nil {
			problems = append(problems, Problem{file, 0, "does not parse: " + err.Error()})
			continue
		}
		for _, decl := range tree.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if name, ok := public(f, called); ok && !shown[name] {
				line := fset.Position(f.Pos()).Line
				problems = append(problems, Problem{file, line, fmt.Sprintf("has no Example%s", name)})
			}
		}
	}
	slices.SortFunc(problems, func(a, b Problem) int { return strings.Compare(a.String(), b.String()) })
	return problems
}

// withoutEnding removes the suffix of an example: a last part that begins with a small
// letter.
func withoutEnding(name string) string {
	at := strings.LastIndex(name, "_")
	if at < 0 || at+1 == len(name) || ast.IsExported(name[at+1:]) {
		return name
	}
	return name[:at]
}

// public is the name of f in go doc, F or T_M, if users may call it.
func public(f *ast.FuncDecl, called map[string]bool) (name string, ok bool) {
	if !f.Name.IsExported() {
		return "", false
	}
	if f.Recv == nil {
		return f.Name.Name, true
	}
	if spoken[f.Name.Name] || called[f.Name.Name] {
		return "", false
	}
	on := f.Recv.List[0].Type
	if star, ok := on.(*ast.StarExpr); ok {
		on = star.X
	}
	receiver, ok := on.(*ast.Ident)
	if !ok || !receiver.IsExported() {
		return "", false
	}
	return receiver.Name + "_" + f.Name.Name, true
}

// InterfaceMethods are the methods of the interfaces that a file declares.
func InterfaceMethods(file, text string) []string {
	tree, err := parser.ParseFile(token.NewFileSet(), file, text, 0)
	if err != nil {
		return nil
	}
	var names []string
	ast.Inspect(tree, func(n ast.Node) bool {
		if i, ok := n.(*ast.InterfaceType); ok {
			for _, method := range i.Methods.List {
				for _, name := range method.Names {
					names = append(names, name.Name)
				}
			}
		}
		return true
	})
	return names
}
