package vet

import (
	"fmt"
	"go/ast"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/types/typeutil"
)

// UnusedToken finds tokens that are read and not used, and guards that get a constant.
var UnusedToken = &analysis.Analyzer{
	Name: "unusedtoken",
	Doc: `find tokens that are read and not used, and guards that get a constant

A resource refuses a late write only if the write shows the token of its lease. A token
that is read and dropped protects nothing. A guard with a constant token accepts every
writer. Nothing is reported in tests.`,
	URL:      page + "unusedtoken",
	Requires: []*analysis.Analyzer{inspect.Analyzer},
	Run:      runUnusedToken,
}

func runUnusedToken(pass *analysis.Pass) (any, error) {
	if !imports(pass) {
		return nil, nil
	}
	for n := range inspected(pass).PreorderSeq((*ast.ExprStmt)(nil), (*ast.AssignStmt)(nil), (*ast.CallExpr)(nil)) {
		if inTest(pass, n) {
			continue
		}
		switch n := n.(type) {
		case *ast.ExprStmt:
			dropped(pass, n.X)
		case *ast.AssignStmt:
			if id, ok := n.Lhs[0].(*ast.Ident); ok && len(n.Lhs) == 1 && id.Name == "_" {
				dropped(pass, n.Rhs[0])
			}
		case *ast.CallExpr:
			constantToken(pass, n)
		}
	}
	return nil, nil
}

func dropped(pass *analysis.Pass, e ast.Expr) {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return
	}
	if name, _ := leaseMethod(pass, call); name == "Token" {
		pass.Report(analysis.Diagnostic{
			Pos: e.Pos(), End: e.End(), Category: "unusedtoken",
			Message: "the token is read and not used: show it to the resource with each write",
		})
	}
}

func constantToken(pass *analysis.Pass, call *ast.CallExpr) {
	f, ok := typeutil.Callee(pass.TypesInfo, call).(*types.Func)
	if !ok || f.Pkg() == nil || !strings.HasPrefix(f.Pkg().Path(), library+"/fence") {
		return
	}
	params := f.Signature().Params()
	for i := range min(params.Len(), len(call.Args)) {
		if params.At(i).Name() != "token" || pass.TypesInfo.Types[call.Args[i]].Value == nil {
			continue
		}
		pass.Report(analysis.Diagnostic{
			Pos: call.Args[i].Pos(), End: call.Args[i].End(), Category: "unusedtoken",
			Message: fmt.Sprintf("%s gets a constant as the token, so it refuses no late writer: use that of the lease",
				f.Name()),
		})
	}
}
