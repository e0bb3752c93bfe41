package vet

import (
	"fmt"
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/types/typeutil"
)

// ReleaseContext finds releases that never happen because of their context.
var ReleaseContext = &analysis.Analyzer{
	Name: "releasectx",
	Doc: `find releases that never happen because of their context

ReleaseWhenDone releases the lease when a context ends. context.Background never ends, and
the lease's own context ends only when the lease has ended. Release with nil releases
nothing. Release with a context that has ended is not a mistake: it works.`,
	URL:      page + "releasectx",
	Requires: []*analysis.Analyzer{inspect.Analyzer},
	Run:      runReleaseContext,
}

func runReleaseContext(pass *analysis.Pass) (any, error) {
	if !imports(pass) {
		return nil, nil
	}
	for n := range inspected(pass).PreorderSeq((*ast.CallExpr)(nil)) {
		call := n.(*ast.CallExpr)
		name, lease := leaseMethod(pass, call)
		if !releases[name] || len(call.Args) == 0 || inTest(pass, call) {
			continue
		}
		why := ""
		if pass.TypesInfo.Types[call.Args[0]].IsNil() {
			why = "without a context releases nothing"
		} else if name == "ReleaseWhenDone" {
			why = endless(pass, lease, call.Args[0])
		}
		if why != "" {
			pass.Report(analysis.Diagnostic{
				Pos: call.Args[0].Pos(), End: call.Args[0].End(), Category: "releasectx",
				Message: fmt.Sprintf("%s %s", name, why),
			})
		}
	}
	return nil, nil
}

// endless says why a context does not end before the lease, or nothing.
func endless(pass *analysis.Pass, lease, ctx ast.Expr) string {
	call, ok := ast.Unparen(ctx).(*ast.CallExpr)
	if !ok {
		return ""
	}
	if name, of := leaseMethod(pass, call); name == "Context" {
		if v := variable(pass, of); v != nil && v == variable(pass, lease) {
			return "waits for the lease's own context, which ends only with the lease"
		}
	}
	f, ok := typeutil.Callee(pass.TypesInfo, call).(*types.Func)
	if !ok || f.Pkg() == nil || f.Pkg().Path() != "context" {
		return ""
	}
	if f.Signature().Params().Len() == 0 || f.Name() == "WithoutCancel" {
		return "waits for a context that never ends" // that of no parent is Background, or the like
	}
	return ""
}
