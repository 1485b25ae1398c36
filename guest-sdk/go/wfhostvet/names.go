package wfhostvet

import (
	"go/ast"
	"go/token"
	"go/types"
)

// use is a call with a name that is the same each time, or of a function of this package that makes such a call.
type use struct {
	call *ast.CallExpr
	fn   string // as it is called
	name string
	path []ast.Node // from the function's body to the call
}

// names reports names that a function uses twice: by two calls that one run comes to, or by a call in a loop.
func (c *checker) names(body *ast.BlockStmt) {
	type key struct {
		of   ast.Node
		name string
	}
	seen := map[key][]use{}
	var path []ast.Node
	ast.Inspect(body, func(n ast.Node) bool {
		if n == nil {
			path = path[:len(path)-1]
			return true
		}
		path = append(path, n)
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		of := c.workflow(path)
		for _, u := range c.uses(call) {
			u.path = append([]ast.Node(nil), path[of:]...)
			k := key{path[of], u.name}
			c.again(&u, seen[k])
			seen[k] = append(seen[k], u)
		}
		return true
	})
}

// uses returns the names that a call uses, each time the same ones.
func (c *checker) uses(call *ast.CallExpr) (all []use) {
	fn := c.of(call)
	if name, ok := c.fixedName(fn, call); ok {
		return []use{{call: call, fn: "workflow." + fn, name: name}}
	}
	if decl := c.callee(call); decl != nil {
		for _, r := range c.reaches(decl) {
			if r.fixed {
				all = append(all, use{call: call, fn: decl.Name.Name, name: r.name})
			}
		}
	}
	return all
}

// again reports a use of a name that is used before, or in each turn of a loop.
func (c *checker) again(u *use, seen []use) {
	if repeats(u.path) {
		c.report(u.call.Pos(), "%s uses the name %q again in each turn of the loop, and names are unique in a run: "+
			"add what tells the turns apart, such as the index", u.fn, u.name)
		return
	}
	for _, before := range seen {
		if before.call != u.call && both(before.path, u.path) {
			c.report(u.call.Pos(), "%s uses the name %q, which %s uses at line %d, and names are unique in a run", u.fn,
				u.name, before.fn, c.Fset.Position(before.call.Pos()).Line)
			return
		}
	}
}

// workflow returns where on a path the innermost function begins that is called anew for each run: one that takes a context and
// an input, as workflows do, or a test. 0 is the whole function.
func (c *checker) workflow(path []ast.Node) int {
	for i := len(path) - 1; i > 0; i-- {
		fn, ok := path[i].(*ast.FuncLit)
		if !ok {
			continue
		}
		s, ok := c.TypesInfo.TypeOf(fn).(*types.Signature)
		if !ok || s.Params().Len() == 0 {
			continue
		}
		first := types.TypeString(s.Params().At(0).Type(), nil)
		if first == "context.Context" && s.Params().Len() == 2 && s.Results().Len() == 2 || first == "*testing.T" {
			return i
		}
	}
	return 0
}

func (c *checker) isMethod(call *ast.CallExpr) bool {
	s, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	return ok && c.TypesInfo.Selections[s] != nil
}

// repeats reports whether the end of a path is in a loop that goes on after it.
func repeats(path []ast.Node) bool {
	for i, n := range path {
		var body *ast.BlockStmt
		switch n := n.(type) {
		case *ast.ForStmt:
			body = n.Body
		case *ast.RangeStmt:
			body = n.Body
		}
		if body != nil && i+1 < len(path) && path[i+1] == ast.Node(body) && !leaves(path[i+1:]) {
			return true
		}
	}
	return false
}

// leaves reports whether one of the lists of statements on a path, up to the next function, ends by leaving it.
func leaves(path []ast.Node) bool {
	for _, n := range path {
		switch n := n.(type) {
		case *ast.FuncLit: // it may be called again in the next turn
			return false
		case *ast.BlockStmt:
			if ends(n.List) {
				return true
			}
		case *ast.CaseClause:
			if ends(n.Body) {
				return true
			}
		case *ast.CommClause:
			if ends(n.Body) {
				return true
			}
		case *ast.ReturnStmt:
			return true
		}
	}
	return false
}

// ends reports whether what stands behind a list of statements is not come to.
func ends(list []ast.Stmt) bool {
	if len(list) == 0 {
		return false
	}
	switch s := list[len(list)-1].(type) {
	case *ast.ReturnStmt:
		return true
	case *ast.BranchStmt:
		return s.Tok == token.BREAK || s.Tok == token.GOTO
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		if !ok {
			return false
		}
		id, ok := call.Fun.(*ast.Ident)
		return ok && id.Name == "panic"
	}
	return false
}

// both reports whether one run may come to the ends of two paths, of which a is the first in the source: they are in no two
// branches, and a is in none that ends by leaving.
func both(a, b []ast.Node) bool {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	switch fork := a[i-1].(type) {
	case *ast.IfStmt: // one of them may be in the condition
		return a[i] != ast.Node(fork.Body) || b[i] != fork.Else
	case *ast.BlockStmt:
		if _, isCase := a[i].(*ast.CaseClause); isCase {
			return false
		}
		if _, isCase := a[i].(*ast.CommClause); isCase {
			return false
		}
	}
	for _, n := range a[i:] {
		switch n := n.(type) {
		case *ast.FuncLit: // whether it is called, and where, is not known
			return false
		case *ast.IfStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
			if leaves(pathFrom(a[i:], n)) {
				return false
			}
		}
	}
	for _, n := range b[i:] {
		if _, ok := n.(*ast.FuncLit); ok {
			return false
		}
	}
	return true
}

// pathFrom returns the part of a path behind a node.
func pathFrom(path []ast.Node, from ast.Node) []ast.Node {
	for i, n := range path {
		if n == from {
			return path[i+1:]
		}
	}
	return nil
}
