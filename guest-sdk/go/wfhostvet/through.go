package wfhostvet

import (
	"go/ast"
	"go/token"
	"go/types"

	"github.com/wfhost/wfhost/guest-sdk/go/internal/bodies"
)

// through reports a call in the body of a step if the called function or method of this package writes to a variable outside
// of the body, through its receiver or an argument.
func (c *checker) through(body ast.Node, call *ast.CallExpr, decl *ast.FuncDecl) {
	changed := c.changed(decl)
	if len(changed) == 0 {
		return
	}
	check := func(param *ast.Ident, arg ast.Expr) {
		if u, ok := ast.Unparen(arg).(*ast.UnaryExpr); ok && u.Op == token.AND {
			arg = u.X
		}
		root := bodies.Root(arg)
		if root == nil || !changed[c.TypesInfo.Defs[param]] || !c.outside(body, root) {
			return
		}
		c.report(call.Pos(), "the body of this step has %s write to %s, which is declared outside of it: on a host a step does "+
			"not work in the workflow's own memory, and the change is lost; return it as the step's result", decl.Name.Name, root.Name)
	}
	if s, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok && decl.Recv != nil {
		for _, f := range decl.Recv.List {
			for _, id := range f.Names {
				check(id, s.X)
			}
		}
	}
	i := 0
	for _, f := range decl.Type.Params.List {
		for _, id := range f.Names {
			if i < len(call.Args) {
				check(id, call.Args[i])
			}
			i++
		}
		if len(f.Names) == 0 {
			i++
		}
	}
}

// changed returns the parameters of a function, including the receiver, through which it writes to memory of its caller.
func (c *checker) changed(decl *ast.FuncDecl) map[types.Object]bool {
	all := map[types.Object]bool{}
	if decl.Body == nil {
		return all
	}
	for _, x := range bodies.Find(decl.Body, func(id *ast.Ident) bool { return c.shared(decl, id) }) {
		if x.Name != x.Root.Name { // an assignment to the parameter itself does not affect the caller
			all[c.TypesInfo.ObjectOf(x.Root)] = true
		}
	}
	return all
}

// shared reports whether an identifier denotes a parameter or receiver that shares memory with the caller: a pointer, map or
// slice.
func (c *checker) shared(decl *ast.FuncDecl, id *ast.Ident) bool {
	v, ok := c.TypesInfo.ObjectOf(id).(*types.Var)
	if !ok || v.Pos() < decl.Pos() || v.Pos() > decl.Body.Pos() {
		return false
	}
	switch v.Type().Underlying().(type) {
	case *types.Pointer, *types.Map, *types.Slice:
		return true
	}
	return false
}
