package vet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/types/typeutil"
)

// OuterContext finds work under a lock that has the context from outside.
var OuterContext = &analysis.Analyzer{
	Name: "outerctx",
	Doc: `find work under a lock with the context from outside

Do gives its function a context that also ends when the lease is lost. Work with the
context that Do was called with goes on after that, beside the next holder's work. The same
is true behind a Lock, if the lease is used for nothing but its release.`,
	URL:      page + "outerctx",
	Requires: []*analysis.Analyzer{inspect.Analyzer},
	Run:      runOuterContext,
}

func runOuterContext(pass *analysis.Pass) (any, error) {
	if !imports(pass) {
		return nil, nil
	}
	for n := range inspected(pass).PreorderSeq((*ast.CallExpr)(nil)) {
		call := n.(*ast.CallExpr)
		f := method(pass, call)
		if f == nil || len(call.Args) < 2 {
			continue
		}
		work, ok := call.Args[len(call.Args)-1].(*ast.FuncLit)
		if !ok || work.Type.Params.NumFields() == 0 || len(work.Type.Params.List) == 0 {
			continue
		}
		if outer := variable(pass, call.Args[0]); outer != nil && isContext(outer.Type()) {
			outerIn(pass, f.Name(), outer, work)
		}
	}
	for n := range inspected(pass).PreorderSeq((*ast.BlockStmt)(nil)) {
		if !inTest(pass, n) {
			outerBehind(pass, n.(*ast.BlockStmt))
		}
	}
	return nil, nil
}

// outerBehind reports work behind the deferred release of a lease, if the lease is used for
// nothing else: then nothing in the function can notice its loss.
func outerBehind(pass *analysis.Pass, block *ast.BlockStmt) {
	for i, s := range block.List {
		a, ok := s.(*ast.AssignStmt)
		if !ok || a.Tok != token.DEFINE || len(a.Rhs) != 1 {
			continue
		}
		call, ok := a.Rhs[0].(*ast.CallExpr)
		if !ok || acquisition(pass, call) == "" || len(call.Args) == 0 {
			continue
		}
		lease, outer := variable(pass, a.Lhs[0]), variable(pass, call.Args[0])
		if lease == nil || pass.TypesInfo.Defs[a.Lhs[0].(*ast.Ident)] == nil || outer == nil {
			continue
		}
		for j, d := range block.List[i+1:] {
			if d, ok := d.(*ast.DeferStmt); ok && onlyReleased(pass, lease, block, d) {
				behind(pass, lease, outer, block.List[i+1+j+1:])
				break
			}
		}
	}
}

// onlyReleased reports whether a deferred call releases a lease, and nothing else uses it.
func onlyReleased(pass *analysis.Pass, lease *types.Var, block *ast.BlockStmt, d *ast.DeferStmt) bool {
	name, of := leaseMethod(pass, d.Call)
	if !releases[name] || variable(pass, of) != lease {
		return false
	}
	count := 0
	for n := range ast.Preorder(block) {
		if id, ok := n.(*ast.Ident); ok && pass.TypesInfo.Uses[id] == lease {
			count++
		}
	}
	return count == 1
}

func behind(pass *analysis.Pass, lease, outer *types.Var, work []ast.Stmt) {
	var first ast.Expr
	for _, s := range work {
		ast.Inspect(s, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit:
				return false // it may run later
			case *ast.AssignStmt:
				for _, e := range n.Lhs {
					if variable(pass, e) == outer {
						outer = nil // another context from here on
					}
				}
			case *ast.CallExpr:
				if outer == nil || first != nil || mayHaveOuter(pass, n) {
					return true
				}
				for _, arg := range n.Args {
					if variable(pass, arg) == outer {
						first = arg
					}
				}
			}
			return true
		})
	}
	if first != nil {
		pass.Report(analysis.Diagnostic{
			Pos: first.Pos(), End: first.End(), Category: "outerctx",
			Message: fmt.Sprintf("this context does not end when the lease %s is lost, and nothing here notices that: "+
				"use %s.Context(), or Do", lease.Name(), lease.Name()),
		})
	}
}

func isContext(t types.Type) bool {
	named, ok := t.(*types.Named)
	return ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == "context" && named.Obj().Name() == "Context"
}

func outerIn(pass *analysis.Pass, do string, outer *types.Var, work *ast.FuncLit) {
	inner := ""
	if names := work.Type.Params.List[0].Names; len(names) > 0 && names[0].Name != "_" {
		inner = names[0].Name
	}
	for n := range ast.Preorder(work.Body) {
		call, ok := n.(*ast.CallExpr)
		if !ok || mayHaveOuter(pass, call) {
			continue
		}
		for _, arg := range call.Args {
			if variable(pass, arg) != outer {
				continue
			}
			d := analysis.Diagnostic{
				Pos: arg.Pos(), End: arg.End(), Category: "outerctx",
				Message: fmt.Sprintf("%s is the context from outside of %s: it does not end when the lease is lost",
					outer.Name(), do),
			}
			at := pass.Pkg.Scope().Innermost(arg.Pos())
			if inner != "" && at != nil {
				_, seen := at.LookupParent(inner, arg.Pos())
				if seen == pass.TypesInfo.Defs[work.Type.Params.List[0].Names[0]] {
					d.SuggestedFixes = []analysis.SuggestedFix{{
						Message:   "Use the context that " + do + " gives",
						TextEdits: []analysis.TextEdit{{Pos: arg.Pos(), End: arg.End(), NewText: []byte(inner)}},
					}}
				}
			}
			pass.Report(d)
		}
	}
}

// mayHaveOuter: log lines, what only reads a value of the context, and what must outlive the lease on purpose.
func mayHaveOuter(pass *analysis.Pass, call *ast.CallExpr) bool {
	f := typeutil.Callee(pass.TypesInfo, call)
	if f == nil {
		return false
	}
	if sig, ok := f.Type().(*types.Signature); ok && readsValue(sig) {
		return true
	}
	if f.Pkg() == nil {
		return false
	}
	switch f.Pkg().Path() {
	case "log/slog", library:
		return true
	case "context":
		return f.Name() == "WithoutCancel" || f.Name() == "AfterFunc" || f.Name() == "Cause"
	}
	return false
}

// readsValue reports whether a function has the context alone and returns neither an error nor a context, as
// trace.SpanFromContext does. Work that can take time can fail.
func readsValue(sig *types.Signature) bool {
	if sig.Params().Len() != 1 || sig.Results().Len() == 0 {
		return false
	}
	for r := range sig.Results().Variables() {
		if isContext(r.Type()) || types.Identical(r.Type(), types.Universe.Lookup("error").Type()) {
			return false
		}
	}
	return true
}
