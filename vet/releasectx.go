package vet

import (
	"go/ast"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
)

// ReleaseContext finds releases that never happen because they have no context.
var ReleaseContext = &analysis.Analyzer{
	Name: "releasectx",
	Doc: `find releases that never happen because they have no context

Release with nil releases nothing. Release with a context that has ended is not a mistake: it
works.`,
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
		name, _ := leaseMethod(pass, call)
		if !releases[name] || len(call.Args) == 0 || inTest(pass, call) || !pass.TypesInfo.Types[call.Args[0]].IsNil() {
			continue
		}
		pass.Report(analysis.Diagnostic{
			Pos: call.Args[0].Pos(), End: call.Args[0].End(), Category: "releasectx",
			Message: name + " without a context releases nothing",
		})
	}
	return nil, nil
}
