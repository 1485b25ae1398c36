package wfhostvet

import (
	"go/ast"
	"go/token"
	"go/types"
)

// use is a call of the SDK with a constant name, or a call of a function of this package that makes such a call.
type use struct {
	call *ast.CallExpr
	fn   string // the called function, as the report names it
	name string
	path []ast.Node // from the function's body to the call
}

// names reports names that a function uses twice: in two calls that the same run may make, or in a call in a loop.
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

// uses returns the constant names that a call uses.
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

// again reports a use if a loop repeats it, or if an earlier use in seen has the same name.
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

// workflow returns the index in path of the innermost function literal that is called once per run: a workflow, with a
// context and an input as parameters, or a test. If there is none, it returns 0, for the whole function.
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

// repeats reports whether the end of a path is in a loop that may continue afterwards.
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

// leaves reports whether control certainly leaves one of the statement lists on a path, up to the next function literal.
func leaves(path []ast.Node) bool {
	for _, n := range path {
		switch n := n.(type) {
		case *ast.FuncLit: // it may be called again in the next iteration
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

// ends reports whether control never reaches the end of a statement list.
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

// both reports whether the same run may reach the ends of the paths a and b. a is earlier in the source. The paths must not
// be in different branches of a statement, and a not in a branch that control leaves. Paths into function literals do not
// count, since it is unknown whether they are called.
func both(a, b []ast.Node) bool {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	switch fork := a[i-1].(type) {
	case *ast.IfStmt: // either may be in the condition
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
		case *ast.FuncLit: // unknown whether and where it is called
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

// pathFrom returns the part of a path after a node.
func pathFrom(path []ast.Node, from ast.Node) []ast.Node {
	for i, n := range path {
		if n == from {
			return path[i+1:]
		}
	}
	return nil
}
