// Package bodies finds what the body of a step changes outside of itself. On a host a body works on a copy of the workflow's
// memory, so such a change is lost. It reads syntax alone: what a function that the body calls changes, and what is changed
// through a local variable that points outside, is not found.
package bodies

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
)

// Directive begins a comment on the line of a change that is meant to be lost, or above it: //workflow:lost counts attempts.
const Directive = "//workflow:lost"

// Change is something that a body changes outside of itself.
type Change struct {
	Pos  token.Pos
	Verb string // what it does: "writes to", "decodes into", "sends on"
	Name string // of the variable as the source has it, such as total
	Root *ast.Ident
}

// String returns the change as the end of a sentence about the body.
func (c Change) String() string { return c.Verb + " " + c.Name }

// Find returns the changes that the function makes to variables for which outside returns true, in the order of the source.
// Function literals within the function belong to it.
func Find(fn ast.Node, outside func(*ast.Ident) bool) []Change {
	f := finder{outside: outside}
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, x := range n.Lhs {
				if n.Tok != token.DEFINE { // a name that is defined again is one of the same scope
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

// add adds a change of what an expression names, if that is outside.
func (f *finder) add(verb string, x ast.Expr) {
	if root := Root(x); root != nil && root.Name != "_" && f.outside(root) {
		f.found = append(f.found, Change{x.Pos(), verb, text(x), root})
	}
}

// decoders are the names of functions of the standard library, and of those that follow it, that write through each pointer.
var decoders = map[string]bool{"Unmarshal": true, "Decode": true, "Scan": true, "Scanf": true, "Scanln": true, "Sscan": true,
	"Sscanf": true, "Sscanln": true, "Fscan": true, "Fscanf": true, "Fscanln": true}

// call looks at a call of a builtin that changes its first argument, or of a decoder.
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

// Root returns the variable to which an expression that can be assigned to belongs; nil if there is none, as for what a
// function returns.
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

// text returns the source of an expression that can be assigned to, without what is between brackets.
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

// Allowed returns the lines of a file whose changes a comment allows: its own line and the next.
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
