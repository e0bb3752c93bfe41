// Package vet has analyzers that find mistakes with locks at compile time. The command
// holdfast-vet runs them, also for go vet. The analyzers report only what they are sure of: if a lease
// is passed on, stored or returned, they report nothing about it.
package vet

import (
	"go/ast"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

// Analyzers are all analyzers, one for each mistake.
var Analyzers = []*analysis.Analyzer{LostLease, OuterContext, UnusedToken, DeferInLoop, ReleaseContext}

const (
	library = "github.com/holdfast-go/holdfast"
	page    = "https://github.com/holdfast-go/holdfast/blob/main/docs/vet.md#"
)

// releases are the methods that release a lease.
var releases = map[string]bool{"Release": true, "ReleaseAfter": true}

// leaseType returns the name of a type of leases, or nothing.
func leaseType(t types.Type) string {
	p, ok := t.(*types.Pointer)
	if !ok {
		return ""
	}
	named, ok := p.Elem().(*types.Named)
	if !ok || named.Obj().Pkg() == nil || named.Obj().Pkg().Path() != library {
		return ""
	}
	switch name := named.Obj().Name(); name {
	case "Lease", "MultiLease", "Leadership":
		return name
	}
	return ""
}

// method returns the method of the library that a call calls, or nil.
func method(pass *analysis.Pass, call *ast.CallExpr) *types.Func {
	f := typeutil.StaticCallee(pass.TypesInfo, call)
	if f == nil || f.Pkg() == nil || f.Pkg().Path() != library || f.Signature().Recv() == nil {
		return nil
	}
	return f
}

// acquisition returns the type of the lease that a call acquires, or nothing.
func acquisition(pass *analysis.Pass, call *ast.CallExpr) string {
	f := method(pass, call)
	if f == nil || f.Signature().Results().Len() != 2 {
		return ""
	}
	return leaseType(f.Signature().Results().At(0).Type())
}

// leaseMethod returns the name of the method of a lease that a call calls, and the lease.
func leaseMethod(pass *analysis.Pass, call *ast.CallExpr) (name string, lease ast.Expr) {
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok {
		return "", nil
	}
	if f := method(pass, call); f != nil && leaseType(f.Signature().Recv().Type()) != "" {
		return f.Name(), ast.Unparen(sel.X)
	}
	return "", nil
}

// variable returns the variable that an expression names, or nil.
func variable(pass *analysis.Pass, e ast.Expr) *types.Var {
	id, ok := ast.Unparen(e).(*ast.Ident)
	if !ok {
		return nil
	}
	v, _ := pass.TypesInfo.ObjectOf(id).(*types.Var)
	return v
}

// uses reports whether a variable is named below a node.
func uses(pass *analysis.Pass, v *types.Var, below ast.Node) bool {
	if v == nil {
		return false
	}
	for n := range ast.Preorder(below) {
		if id, ok := n.(*ast.Ident); ok && pass.TypesInfo.ObjectOf(id) == v {
			return true
		}
	}
	return false
}

// inTest: tests leave leases, and write with old tokens, in order to see what happens. So
// do the files that help them.
func inTest(pass *analysis.Pass, n ast.Node) bool {
	if strings.HasSuffix(pass.Fset.File(n.Pos()).Name(), "_test.go") {
		return true
	}
	for _, f := range pass.Files {
		if f.FileStart <= n.Pos() && n.Pos() <= f.FileEnd {
			for _, i := range f.Imports {
				if i.Path.Value == `"testing"` {
					return true
				}
			}
		}
	}
	return false
}

// imports reports whether a package may have mistakes of this kind at all.
func imports(pass *analysis.Pass) bool {
	if pass.Pkg.Path() == library {
		return false // the library's own parts end leases in ways of their own
	}
	for _, p := range pass.Pkg.Imports() {
		if p.Path() == library || strings.HasPrefix(p.Path(), library+"/") {
			return true
		}
	}
	return false
}

func inspected(pass *analysis.Pass) *inspector.Inspector {
	return pass.ResultOf[inspect.Analyzer].(*inspector.Inspector)
}
