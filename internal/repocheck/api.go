package repocheck

import (
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"sort"
	"strings"
)

// API prints the exported declarations of one package, without comments and bodies, in
// the order of go doc. It contains everything that a program that imports the package can
// name. files maps the names of the Go files to their texts.
func API(importPath string, files map[string]string) (string, error) {
	fset := token.NewFileSet()
	var names []string
	for file := range files {
		if strings.HasSuffix(file, ".go") && !isTest(file) {
			names = append(names, file)
		}
	}
	sort.Strings(names)
	var trees []*ast.File
	for _, file := range names {
		tree, err := parser.ParseFile(fset, file, files[file], parser.SkipObjectResolution)
		if err != nil {
			return "", err
		}
		trees = append(trees, tree)
	}
	pkg, err := doc.NewFromFiles(fset, trees, importPath)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	show := func(node any) {
		var text strings.Builder
		if err = errors.Join(err, format.Node(&text, fset, node)); err != nil {
			return
		}
		for line := range strings.Lines(text.String()) {
			if strings.TrimSpace(line) != "" { // where a comment stood
				out.WriteString(line)
			}
		}
		out.WriteString("\n")
	}
	values := func(all []*doc.Value) {
		for _, v := range all {
			show(v.Decl)
		}
	}
	funcs := func(all []*doc.Func) {
		for _, f := range all {
			show(f.Decl)
		}
	}
	fmt.Fprintf(&out, "package %s // import %q\n", pkg.Name, importPath)
	values(pkg.Consts)
	values(pkg.Vars)
	funcs(pkg.Funcs)
	for _, t := range pkg.Types {
		show(t.Decl)
		values(t.Consts)
		values(t.Vars)
		funcs(t.Funcs)
		funcs(t.Methods)
	}
	return out.String(), err
}
