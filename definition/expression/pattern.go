package expression

import (
	"regexp/syntax"

	"github.com/expr-lang/expr/ast"
)

// maxProgram limits the instructions of the constant patterns in an expression, which are compiled with it: "x{1000}" has a
// thousand instructions. The schemas of a host have the same limit.
const maxProgram = 20_000

// patterns counts the instructions of the constant patterns of an expression, before they are compiled.
type patterns struct{ instructions int }

// Visit implements ast.Visitor. It replaces a pattern beyond the limit, so that the pattern is never compiled.
func (p *patterns) Visit(node *ast.Node) {
	match, ok := (*node).(*ast.BinaryNode)
	if !ok || match.Operator != "matches" {
		return
	}
	text, ok := constant(match.Right)
	if !ok {
		return
	}
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil { // the library reports the error
		return
	}
	p.instructions = min(p.instructions+instructions(re), maxProgram+1)
	if p.instructions > maxProgram {
		match.Right = &ast.StringNode{}
	}
}

// constant returns the value of a text that is known at compile time: a literal or a sum of literals.
func constant(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.BinaryNode:
		if n.Operator != "+" {
			return "", false
		}
		a, first := constant(n.Left)
		b, second := constant(n.Right)
		return a + b, first && second
	}
	return "", false
}

// instructions returns the approximate number of instructions of a pattern, at most maxProgram+1.
func instructions(re *syntax.Regexp) int {
	n := 0
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	switch re.Op {
	case syntax.OpRepeat:
		n *= max(re.Max, re.Min+1)
	case syntax.OpLiteral:
		n += len(re.Rune)
	default:
		n++
	}
	return min(n, maxProgram+1)
}
