package vet

import (
	"go/ast"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/cfg"
)

// DeferInLoop finds locks that are acquired in a loop and released after it.
var DeferInLoop = &analysis.Analyzer{
	Name: "deferinloop",
	Doc: `find locks that are acquired in a loop and released after it

A deferred release runs when the function returns. In a loop, all locks of the loop stay
held until then. Nothing is reported if the loop cannot go on behind the defer.`,
	URL:      page + "deferinloop",
	Requires: []*analysis.Analyzer{inspect.Analyzer, ctrlflow.Analyzer},
	Run:      runDeferInLoop,
}

func runDeferInLoop(pass *analysis.Pass) (any, error) {
	if !imports(pass) {
		return nil, nil
	}
	cfgs := pass.ResultOf[ctrlflow.Analyzer].(*ctrlflow.CFGs)
	for n := range inspected(pass).PreorderSeq((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		var g *cfg.CFG
		switch f := n.(type) {
		case *ast.FuncDecl:
			g = cfgs.FuncDecl(f)
		case *ast.FuncLit:
			g = cfgs.FuncLit(f)
		}
		if g != nil {
			loops(pass, g)
		}
	}
	return nil, nil
}

func loops(pass *analysis.Pass, g *cfg.CFG) {
	for _, b := range g.Blocks {
		for _, n := range b.Nodes {
			if d, ok := n.(*ast.DeferStmt); ok && releasesOwn(pass, g, b, d) {
				pass.Report(analysis.Diagnostic{
					Pos: d.Pos(), End: d.End(), Category: "deferinloop",
					Message: "the lock is acquired in a loop, and this releases it when the function returns: " +
						"use Do, or a function for each pass",
				})
			}
		}
	}
}

// releasesOwn reports whether a deferred call releases a lease that each pass of its loop
// acquires anew.
func releasesOwn(pass *analysis.Pass, g *cfg.CFG, at *cfg.Block, d *ast.DeferStmt) bool {
	for n := range ast.Preorder(d) {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			continue
		}
		name, lease := leaseMethod(pass, call)
		v := variable(pass, lease)
		if !releases[name] || v == nil {
			continue
		}
		for _, b := range g.Blocks {
			for _, n := range b.Nodes {
				a, ok := n.(*ast.AssignStmt)
				if !ok || len(a.Rhs) != 1 || variable(pass, a.Lhs[0]) != v {
					continue
				}
				c, ok := a.Rhs[0].(*ast.CallExpr)
				if ok && acquisition(pass, c) != "" && reaches(at, b) && (b == at || reaches(b, at)) {
					return true
				}
			}
		}
	}
	return false
}

// reaches reports whether a path of at least one edge leads from one block to another.
func reaches(from, to *cfg.Block) bool {
	seen := map[*cfg.Block]bool{}
	next := append([]*cfg.Block(nil), from.Succs...)
	for len(next) > 0 {
		b := next[len(next)-1]
		next = next[:len(next)-1]
		if b == to {
			return true
		}
		if !seen[b] {
			seen[b] = true
			next = append(next, b.Succs...)
		}
	}
	return false
}
