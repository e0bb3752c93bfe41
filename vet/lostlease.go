package vet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/cfg"
	"golang.org/x/tools/go/types/typeutil"
)

// LostLease finds leases that are dropped, or not released on some path.
var LostLease = &analysis.Analyzer{
	Name: "lostlease",
	Doc: `find leases that are dropped, or not released on some path

A lease that is not released blocks others for as long as the client renews it, or until
its TTL ends. Nothing is reported if the lease is passed on, stored or returned, if the
function closes the client, or in tests.`,
	URL:      page + "lostlease",
	Requires: []*analysis.Analyzer{inspect.Analyzer, ctrlflow.Analyzer},
	Run:      runLostLease,
}

func runLostLease(pass *analysis.Pass) (any, error) {
	if !imports(pass) {
		return nil, nil
	}
	cfgs := pass.ResultOf[ctrlflow.Analyzer].(*ctrlflow.CFGs)
	closed := token.NoPos // the end of the function that closes the client, and of those in it
	for n := range inspected(pass).PreorderSeq((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		if inTest(pass, n) || n.Pos() < closed && pass.Fset.File(n.Pos()) == pass.Fset.File(closed) {
			continue
		}
		if closesClient(pass, n) {
			closed = n.End()
			continue
		}
		switch f := n.(type) {
		case *ast.FuncDecl:
			if f.Body != nil {
				lostIn(pass, f.Body, cfgs.FuncDecl(f))
			}
		case *ast.FuncLit:
			lostIn(pass, f.Body, cfgs.FuncLit(f))
		}
	}
	return nil, nil
}

func lostIn(pass *analysis.Pass, body *ast.BlockStmt, g *cfg.CFG) {
	ast.PreorderStack(body, nil, func(n ast.Node, stack []ast.Node) bool {
		if _, ok := n.(*ast.FuncLit); ok {
			return false // a function of its own
		}
		call, ok := n.(*ast.CallExpr)
		if !ok || acquisition(pass, call) == "" {
			return true
		}
		switch up := stack[len(stack)-1].(type) {
		case *ast.ExprStmt, *ast.GoStmt, *ast.DeferStmt:
			reportDropped(pass, call)
		case *ast.AssignStmt:
			if len(up.Rhs) == 1 && len(up.Lhs) == 2 {
				assigned(pass, body, g, acquired{up, call, stack})
			}
		}
		return true
	})
}

func reportDropped(pass *analysis.Pass, call *ast.CallExpr) {
	pass.Report(analysis.Diagnostic{
		Pos: call.Pos(), End: call.End(), Category: "lostlease",
		Message: "the lease is dropped, so nothing can release it",
	})
}

// closesClient: Client.Close releases all leases, and Abandon leaves them on purpose. A
// function that came together with the client is there to close it.
func closesClient(pass *analysis.Pass, body ast.Node) bool {
	for n := range ast.Preorder(body) {
		switch n := n.(type) {
		case *ast.CallExpr:
			if f := method(pass, n); f != nil && (f.Name() == "Close" || f.Name() == "Abandon") {
				return true
			}
		case *ast.AssignStmt:
			client, closer := false, false
			for _, e := range n.Lhs {
				if v := variable(pass, e); v != nil && v.Name() != "_" {
					_, function := v.Type().Underlying().(*types.Signature)
					closer = closer || function
					client = client || v.Type().String() == "*"+library+".Client"
				}
			}
			if client && closer && len(n.Rhs) == 1 {
				return true
			}
		}
	}
	return false
}

// acquired is an assignment of a lease, with the nodes above it.
type acquired struct {
	stmt  *ast.AssignStmt
	call  *ast.CallExpr
	stack []ast.Node
}

func assigned(pass *analysis.Pass, body *ast.BlockStmt, g *cfg.CFG, a acquired) {
	id, ok := a.stmt.Lhs[0].(*ast.Ident)
	if !ok {
		return // stored
	}
	if id.Name == "_" {
		reportDropped(pass, a.call)
		return
	}
	v := variable(pass, id)
	if v == nil || v.Pos() < body.Pos() || v.Pos() > body.End() {
		return // of the caller, or of an outer function
	}
	some, escapes := leaseUses(pass, v, body, id)
	if escapes {
		return
	}
	p := path{pass: pass, lease: v, err: variable(pass, a.stmt.Lhs[1])}
	p.seen, p.said = map[state]bool{}, map[*types.Var]ast.Expr{}
	if !p.lost(g, a.stmt) {
		return
	}
	what := "is never released"
	if some {
		what = "is not released on all paths"
	}
	d := analysis.Diagnostic{
		Pos: a.stmt.Pos(), End: a.stmt.End(), Category: "lostlease",
		Message: fmt.Sprintf("the lease %s %s: defer %s.Release", v.Name(), what, v.Name()),
	}
	if !some {
		d.SuggestedFixes = deferRelease(pass, v, a)
	}
	pass.Report(d)
}

// leaseUses says whether a lease is released anywhere, and whether something else than a
// call of its methods has it: then that may release it.
func leaseUses(pass *analysis.Pass, v *types.Var, body ast.Node, defined *ast.Ident) (released, escapes bool) {
	ast.PreorderStack(body, nil, func(n ast.Node, stack []ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok || id == defined || pass.TypesInfo.ObjectOf(id) != v {
			return true
		}
		switch up := stack[len(stack)-1].(type) {
		case *ast.SelectorExpr:
			call, ok := stack[len(stack)-2].(*ast.CallExpr)
			if !ok || call.Fun != up {
				escapes = true // a method as a value
			} else if releases[up.Sel.Name] {
				released = true
			}
		case *ast.BinaryExpr: // a comparison with nil
		case *ast.AssignStmt: // to the blank identifier
			blank := len(up.Lhs) == 1 && len(up.Rhs) == 1 && up.Rhs[0] == id
			if name, ok := up.Lhs[0].(*ast.Ident); !blank || !ok || name.Name != "_" {
				escapes = true
			}
		default:
			escapes = true
		}
		return true
	})
	return released, escapes
}

// state is where a path is, and whether the error is still that of the acquisition.
type state struct {
	block *cfg.Block
	fresh bool
}

type path struct {
	pass       *analysis.Pass
	lease, err *types.Var
	seen       map[state]bool
	said       map[*types.Var]ast.Expr // what variables have of the error, such as that it is an ErrHeld
}

// lost reports whether the function can return with the lease and without its release.
func (p *path) lost(g *cfg.CFG, from ast.Node) bool {
	for _, b := range g.Blocks {
		for i, n := range b.Nodes {
			if n == from {
				return p.through(b, b.Nodes[i+1:], p.err != nil)
			}
		}
	}
	return false
}

func (p *path) through(b *cfg.Block, nodes []ast.Node, fresh bool) bool {
	for _, n := range nodes {
		if p.releasedIn(n) {
			return false
		}
		if e, ok := n.(ast.Expr); ok && fresh && variable(p.pass, e) == p.err || fresh && p.typeSwitch(n) {
			return false // a switch over the error: too hard
		}
		fresh = fresh && p.staysFresh(n)
	}
	if b.Return() != nil {
		return true
	}
	for i, next := range b.Succs {
		if len(b.Succs) == 2 && len(nodes) > 0 && p.withoutLease(nodes[len(nodes)-1], i == 0, fresh) {
			continue
		}
		if s := (state{next, fresh}); !p.seen[s] {
			p.seen[s] = true
			if p.through(next, next.Nodes, fresh) {
				return true
			}
		}
	}
	return false
}

func (p *path) releasedIn(below ast.Node) bool {
	for n := range ast.Preorder(below) {
		if call, ok := n.(*ast.CallExpr); ok {
			name, lease := leaseMethod(p.pass, call)
			if releases[name] && variable(p.pass, lease) == p.lease {
				return true
			}
		}
	}
	return false
}

// staysFresh notes what a statement takes from the error, and reports whether the error is still that of the
// acquisition, or is made from it.
func (p *path) staysFresh(n ast.Node) bool {
	var left, right []ast.Expr
	switch n := n.(type) {
	case *ast.AssignStmt:
		left, right = n.Lhs, n.Rhs
	case *ast.ValueSpec:
		right = n.Values
		for _, name := range n.Names {
			left = append(left, name)
		}
	}
	fresh := true
	for i, e := range left {
		from := right[:min(1, len(right))] // one call for all
		if len(right) == len(left) {
			from = right[i : i+1]
		}
		v := variable(p.pass, e)
		of := len(from) > 0 && uses(p.pass, p.err, from[0])
		switch {
		case v == nil:
		case v == p.err:
			fresh = of
		case of:
			p.said[v] = from[0]
		}
	}
	return fresh
}

// typeSwitch reports whether a statement begins a switch over the type of the error.
func (p *path) typeSwitch(n ast.Node) bool {
	for below := range ast.Preorder(n) {
		if t, ok := below.(*ast.TypeAssertExpr); ok && t.Type == nil && variable(p.pass, t.X) == p.err {
			return true
		}
	}
	return false
}

// isErr reports whether an expression is the error of the acquisition, or a copy of it.
func (p *path) isErr(e ast.Expr, fresh bool) bool {
	v := variable(p.pass, e)
	if v == nil {
		return false
	}
	from, copied := p.said[v]
	return fresh && v == p.err || copied && variable(p.pass, from) == p.err
}

// saysOf reports whether an expression depends on the error.
func (p *path) saysOf(e ast.Expr, fresh bool) bool {
	if fresh && uses(p.pass, p.err, e) {
		return true
	}
	for v := range p.said {
		if uses(p.pass, v, e) {
			return true
		}
	}
	return false
}

// withoutLease reports whether there is no lease, or may be none, if the condition has this value. A
// condition about the error that it does not know may say anything.
//
// For example: if errors.Is(err, ErrHeld) is true, there is no lease. If it is false, there may be one, so that
// path goes on. Of ok(err) nothing is known, and neither path goes on.
func (p *path) withoutLease(condition ast.Node, value, fresh bool) bool {
	c, ok := condition.(ast.Expr)
	if !ok {
		return false
	}
	switch c := ast.Unparen(c).(type) {
	case *ast.Ident:
		if from := p.said[variable(p.pass, c)]; from != nil {
			return p.withoutLease(from, value, true)
		}
	case *ast.UnaryExpr:
		if c.Op == token.NOT {
			return p.withoutLease(c.X, !value, fresh)
		}
	case *ast.BinaryExpr:
		switch c.Op {
		case token.LAND, token.LOR:
			x, y := p.withoutLease(c.X, value, fresh), p.withoutLease(c.Y, value, fresh)
			if value == (c.Op == token.LAND) {
				return x || y // both have this value
			}
			return x && y
		case token.EQL, token.NEQ:
			if variable(p.pass, c.Y) == p.lease || p.isErr(c.Y, fresh) {
				c = &ast.BinaryExpr{X: c.Y, Op: c.Op, Y: c.X}
			}
			if lease := variable(p.pass, c.X) == p.lease; lease || p.isErr(c.X, fresh) {
				isNil := p.pass.TypesInfo.Types[c.Y].IsNil()
				same := value == (c.Op == token.EQL)
				return same == (isNil == lease) && (isNil || same) // an error that equals another one is no nil
			}
		}
	case *ast.CallExpr:
		f := typeutil.StaticCallee(p.pass.TypesInfo, c)
		known := f != nil && f.Pkg() != nil && f.Pkg().Path() == "errors" &&
			(f.Name() == "Is" || f.Name() == "As" || f.Name() == "AsType")
		if known && p.isErr(c.Args[0], fresh) {
			return value
		}
	}
	return p.saysOf(c, fresh)
}

// deferRelease puts the idiom behind the check of the error, if there is one, outside of
// loops: Release works although the context has ended by then.
func deferRelease(pass *analysis.Pass, v *types.Var, a acquired) []analysis.SuggestedFix {
	ctx, ok := a.call.Args[0].(*ast.Ident)
	if !ok || ctx.Name == "nil" {
		return nil
	}
	for _, n := range a.stack {
		switch n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			return nil
		}
	}
	block, ok := a.stack[len(a.stack)-2].(*ast.BlockStmt)
	if !ok {
		return nil
	}
	at := slices.Index(block.List, ast.Stmt(a.stmt))
	p := path{pass: pass, lease: v, err: variable(pass, a.stmt.Lhs[1])}
	for _, s := range block.List[at+1:] {
		check, ok := s.(*ast.IfStmt)
		if !ok || p.err == nil || check.Else != nil || len(check.Body.List) == 0 {
			return nil
		}
		_, returns := check.Body.List[len(check.Body.List)-1].(*ast.ReturnStmt)
		if !returns || !p.withoutLease(check.Cond, true, true) {
			return nil
		}
		if !isCheckOf(pass, p.err, check.Cond) {
			continue // one kind of error; the check of all others follows
		}
		text := fmt.Sprintf("\ndefer %s.Release(%s)", v.Name(), ctx.Name)
		return []analysis.SuggestedFix{{
			Message:   "Release it when the function returns",
			TextEdits: []analysis.TextEdit{{Pos: check.End(), End: check.End(), NewText: []byte(text)}},
		}}
	}
	return nil
}

// isCheckOf reports whether a condition is err != nil.
func isCheckOf(pass *analysis.Pass, err *types.Var, c ast.Expr) bool {
	b, ok := ast.Unparen(c).(*ast.BinaryExpr)
	return ok && b.Op == token.NEQ && variable(pass, b.X) == err && pass.TypesInfo.Types[b.Y].IsNil()
}
