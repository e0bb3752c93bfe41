package vet

import (
	"fmt"
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/types/typeutil"
)

// OuterContext finds work in the function of a Do that has the context from outside.
var OuterContext = &analysis.Analyzer{
	Name: "outerctx",
	Doc: `find work under a lock with the context from outside

Do gives its function a context that also ends when the lease is lost. Work with the
context that Do was called with goes on after that, beside the next holder's work.`,
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
	return nil, nil
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

// mayHaveOuter: log lines, and what must outlive the lease on purpose.
func mayHaveOuter(pass *analysis.Pass, call *ast.CallExpr) bool {
	f := typeutil.Callee(pass.TypesInfo, call)
	if f == nil || f.Pkg() == nil {
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
