// Package bodies finds changes that the body of a step makes to variables outside of it. On a host a body works on a copy of
// the workflow's memory, so such changes are lost. The package reads syntax alone. It does not find changes in functions
// that the body calls, or changes through a local variable that points outside.
package bodies

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
)

// Directive is the beginning of a comment that allows a change to be lost, as in //workflow:lost counts attempts. The comment
// is on the same line as the change or on the line above.
const Directive = "//workflow:lost"

// Change is a change that a body makes to a variable outside of it.
type Change struct {
	Pos  token.Pos
	Verb string     // "writes to", "decodes into" or "sends on"
	Name string     // the changed expression, such as total or list[…]
	Root *ast.Ident // the variable in it
}

// String returns the verb and the name.
func (c Change) String() string { return c.Verb + " " + c.Name }

// Find returns the changes that a function, including its function literals, makes to variables if outside returns true for
// them. The changes are in the order of the source.
func Find(fn ast.Node, outside func(*ast.Ident) bool) []Change {
	f := finder{outside: outside}
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, x := range n.Lhs {
				if n.Tok != token.DEFINE { // := only assigns to variables of the same scope
					f.add("writes to", x)
				}
			}
		case *ast.IncDecStmt:
			f.add("writes to", n.X)
		case *ast.RangeStmt:
			if n.Tok == token.ASSIGN {
				f.add("writes to", n.Key)
				f.add("writes to", n.Value)
			}
		case *ast.SendStmt:
			f.add("sends on", n.Chan)
		case *ast.CallExpr:
			f.call(n)
		}
		return true
	})
	return f.found
}

type finder struct {
	outside func(*ast.Ident) bool
	found   []Change
}

// add adds a change to an expression if its variable is outside.
func (f *finder) add(verb string, x ast.Expr) {
	if root := Root(x); root != nil && root.Name != "_" && f.outside(root) {
		f.found = append(f.found, Change{x.Pos(), verb, text(x), root})
	}
}

// decoders lists the names of functions that write through their pointer arguments. The names are from the standard library;
// other libraries use them, too.
var decoders = map[string]bool{"Unmarshal": true, "Decode": true, "Scan": true, "Scanf": true, "Scanln": true, "Sscan": true,
	"Sscanf": true, "Sscanln": true, "Fscan": true, "Fscanf": true, "Fscanln": true}

// call adds the changes of a call to a decoder, or to a builtin that changes its first argument.
func (f *finder) call(c *ast.CallExpr) {
	name := ""
	switch fun := ast.Unparen(c.Fun).(type) {
	case *ast.Ident:
		name = fun.Name
		if len(c.Args) > 0 && (name == "copy" || name == "delete" || name == "clear") {
			f.add("writes to", c.Args[0])
		}
	case *ast.SelectorExpr:
		name = fun.Sel.Name
	}
	for _, x := range c.Args {
		if u, ok := ast.Unparen(x).(*ast.UnaryExpr); ok && u.Op == token.AND && decoders[name] {
			f.add("decodes into", u.X)
		}
	}
}

// Root returns the variable at the root of an assignable expression. It returns nil if there is none, for example for the
// result of a function.
func Root(x ast.Expr) *ast.Ident {
	for {
		switch e := x.(type) {
		case *ast.Ident:
			return e
		case *ast.ParenExpr:
			x = e.X
		case *ast.SelectorExpr:
			x = e.X
		case *ast.IndexExpr:
			x = e.X
		case *ast.SliceExpr:
			x = e.X
		case *ast.StarExpr:
			x = e.X
		default:
			return nil
		}
	}
}

// text returns the source of an assignable expression, with "…" in place of indices.
func text(x ast.Expr) string {
	switch e := x.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.ParenExpr:
		return text(e.X)
	case *ast.SelectorExpr:
		return text(e.X) + "." + e.Sel.Name
	case *ast.IndexExpr:
		return text(e.X) + "[…]"
	case *ast.SliceExpr:
		return text(e.X) + "[…]"
	case *ast.StarExpr:
		return "*" + text(e.X)
	}
	return fmt.Sprintf("%T", x)
}

// Allowed returns the lines of a file where a comment allows changes: the line of each such comment and the next line.
func Allowed(fset *token.FileSet, file *ast.File) map[int]bool {
	lines := map[int]bool{}
	for _, g := range file.Comments {
		for _, c := range g.List {
			if rest, ok := strings.CutPrefix(c.Text, Directive); ok && (rest == "" || rest[0] == ' ') {
				line := fset.Position(c.Pos()).Line
				lines[line], lines[line+1] = true, true
			}
		}
	}
	return lines
}
