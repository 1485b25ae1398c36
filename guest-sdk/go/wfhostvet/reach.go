package wfhostvet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/types/typeutil"
)

// reached is a call of the SDK that a function of this package makes each time, unless it returns early because of an error.
type reached struct {
	fn    string // function of the SDK
	name  string // name of the step, sleep or child; valid if fixed
	fixed bool   // the name is a constant
}

// callee returns the called function or method of this package, nil if the callee is in another package.
func (c *checker) callee(call *ast.CallExpr) *ast.FuncDecl {
	fn, _ := typeutil.Callee(c.TypesInfo, call).(*types.Func)
	if fn == nil || fn.Pkg() != c.Pkg {
		return nil
	}
	return c.declared[fn.Origin()]
}

// reaches returns the calls of the SDK that a function always makes, directly or through functions of this package.
func (c *checker) reaches(fn *ast.FuncDecl) []reached {
	if all, ok := c.reach[fn]; ok {
		return all
	}
	c.reach[fn] = nil // ends the recursion if a function calls itself
	var all []reached
	if fn.Body != nil {
		for _, s := range fn.Body.List {
			exprs, goesOn := c.always(s)
			for _, x := range exprs {
				all = append(all, c.callsIn(x)...)
			}
			if !goesOn {
				break
			}
		}
	}
	c.reach[fn] = all
	return all
}

// always returns the expressions that a statement always evaluates. goesOn reports whether the next statement is reached if
// there is no error.
func (c *checker) always(s ast.Stmt) (exprs []ast.Expr, goesOn bool) {
	switch s := s.(type) {
	case *ast.ExprStmt:
		return []ast.Expr{s.X}, true
	case *ast.AssignStmt:
		return s.Rhs, true
	case *ast.ReturnStmt:
		return s.Results, false
	case *ast.IfStmt:
		if s.Init != nil {
			exprs, _ = c.always(s.Init)
		}
		return append(exprs, first(s.Cond)), c.isError(s.Cond) && s.Else == nil || !mayLeave(s)
	case *ast.DeclStmt:
		if d, ok := s.Decl.(*ast.GenDecl); ok {
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok {
					exprs = append(exprs, v.Values...)
				}
			}
		}
		return exprs, true
	}
	return nil, !mayLeave(s)
}

// first returns the part of a condition that is always evaluated: the left operand of && and ||.
func first(x ast.Expr) ast.Expr {
	for {
		b, ok := ast.Unparen(x).(*ast.BinaryExpr)
		if !ok || b.Op != token.LAND && b.Op != token.LOR {
			return x
		}
		x = b.X
	}
}

// isError reports whether a condition has the form err != nil.
func (c *checker) isError(cond ast.Expr) bool {
	b, ok := ast.Unparen(cond).(*ast.BinaryExpr)
	if !ok || b.Op != token.NEQ {
		return false
	}
	t := c.TypesInfo.TypeOf(b.X)
	return t != nil && types.Identical(t, types.Universe.Lookup("error").Type())
}

// mayLeave reports whether a statement may leave the function or its statement list.
func mayLeave(s ast.Stmt) (leaves bool) {
	ast.Inspect(s, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			leaves = true
		case *ast.BranchStmt:
			leaves = leaves || n.Tok == token.GOTO || n.Label != nil
		case *ast.CallExpr:
			id, ok := n.Fun.(*ast.Ident)
			leaves = leaves || ok && id.Name == "panic"
		}
		return true
	})
	return leaves
}

// callsIn returns the calls of the SDK that an expression always makes.
func (c *checker) callsIn(x ast.Expr) (all []reached) {
	ast.Inspect(x, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.BinaryExpr:
			if n.Op == token.LAND || n.Op == token.LOR {
				all = append(all, c.callsIn(n.X)...)
				return false
			}
		case *ast.CallExpr:
			if fn := c.of(n); durable[fn] {
				name, fixed := c.fixedName(fn, n)
				all = append(all, reached{fn, name, fixed})
			} else if decl := c.callee(n); decl != nil {
				all = append(all, c.reaches(decl)...)
			}
		}
		return true
	})
	return all
}

// fixedName returns the name that a call passes to the SDK. It returns false if the name is not a constant.
func (c *checker) fixedName(fn string, call *ast.CallExpr) (name string, ok bool) {
	if !named[fn] || len(call.Args) < 2 || c.isMethod(call) {
		return "", false
	}
	v := c.TypesInfo.Types[call.Args[1]].Value
	if v == nil || v.Kind() != constant.String { // the name may differ each time
		return "", false
	}
	return constant.StringVal(v), true
}
