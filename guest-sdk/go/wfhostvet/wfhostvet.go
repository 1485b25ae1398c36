// Package wfhostvet finds mistakes in workflows of the Go SDK that compile, and may pass tests, but fail on a host: bodies
// of Do that change variables outside of them, make workflow calls, or leave goroutines behind, and names that are used
// twice.
//
// A comment //workflow:lost on the line of a finding, or the line above, suppresses it.
package wfhostvet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"

	"github.com/wfhost/wfhost/guest-sdk/go/internal/bodies"
)

// Analyzer is the analyzer. cmd/wfhostvet runs it for go vet -vettool; other programs may combine it with more analyzers.
var Analyzer = &analysis.Analyzer{
	Name:     "wfhostvet",
	Doc:      "find mistakes in workflows of wfhost's Go SDK\n\nBodies of workflow.Do work on a copy of the workflow.",
	URL:      "https://pkg.go.dev/github.com/wfhost/wfhost/guest-sdk/go/wfhostvet",
	Requires: []*analysis.Analyzer{inspect.Analyzer},
	Run:      run,
}

// sdk is the import path of the SDK.
const sdk = "github.com/wfhost/wfhost/guest-sdk/go/workflow"

// durable lists the functions and methods of the SDK that return ErrNotHere in a body, or do nothing there.
var durable = map[string]bool{"Do": true, "Call": true, "Sleep": true, "SleepUntil": true, "SleepText": true,
	"SleepUntilNext": true, "Receive": true, "ReceiveTimeout": true, "Signal": true, "Send": true, "Hook": true, "StartChild": true,
	"Child": true, "Wait": true, "ContinueAsNew": true, "Emit": true, "SetAttribute": true, "Version": true,
	"SetCancelPolicy": true, "Query": true, "OnUpdate": true, "UpdatesDone": true}

// named lists the functions whose second argument is a name that must be unique in a run, across all of these functions. The
// ids of markers are independent of these names, and may be used again.
var named = map[string]bool{"Do": true, "Call": true, "Sleep": true, "SleepUntil": true, "SleepText": true, "StartChild": true,
	"Child": true}

type checker struct {
	*analysis.Pass
	allowed  map[*token.File]map[int]bool
	declared map[*types.Func]*ast.FuncDecl // functions and methods of this package
	reach    map[*ast.FuncDecl][]reached   // cache of reaches
	looked   map[ast.Node]bool             // bodies that were checked
}

func run(pass *analysis.Pass) (any, error) {
	if pass.Pkg.Path() == sdk { // the SDK itself is not checked
		return nil, nil
	}
	c := &checker{Pass: pass, allowed: map[*token.File]map[int]bool{}, declared: map[*types.Func]*ast.FuncDecl{},
		reach: map[*ast.FuncDecl][]reached{}, looked: map[ast.Node]bool{}}
	for _, f := range pass.Files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				if obj, ok := pass.TypesInfo.Defs[fn.Name].(*types.Func); ok {
					c.declared[obj] = fn
				}
			}
		}
		c.allowed[pass.Fset.File(f.Pos())] = bodies.Allowed(pass.Fset, f)
	}
	in := pass.ResultOf[inspect.Analyzer].(*inspector.Inspector) //nolint:forcetypeassert // it says so
	in.Preorder([]ast.Node{(*ast.CallExpr)(nil)}, func(n ast.Node) {
		call := n.(*ast.CallExpr) //nolint:forcetypeassert // it asked for these
		switch fn := c.of(call); {
		case fn == "Do" && len(call.Args) > 2:
			c.body(call.Args[2])
		case fn == "RegisterStep" && len(call.Args) > 1:
			c.body(call.Args[1])
		}
	})
	in.Preorder([]ast.Node{(*ast.FuncDecl)(nil)}, func(n ast.Node) {
		if fn := n.(*ast.FuncDecl); fn.Body != nil { //nolint:forcetypeassert // it asked for these
			c.names(fn.Body)
		}
	})
	return nil, nil
}

// report reports a finding, unless a comment allows it.
func (c *checker) report(pos token.Pos, format string, args ...any) {
	if at := c.Fset.File(pos); !c.allowed[at][at.Line(pos)] {
		c.Report(analysis.Diagnostic{Pos: pos, Message: fmt.Sprintf(format, args...)})
	}
}

// of returns the name of the called function or method of the SDK; empty if the callee is not in the SDK.
func (c *checker) of(call *ast.CallExpr) string {
	fn, _ := typeutil.Callee(c.TypesInfo, call).(*types.Func)
	if fn == nil || fn.Pkg() == nil || fn.Pkg().Path() != sdk {
		return ""
	}
	return fn.Name()
}

// body checks the body of a step or a step function. x is a function literal, or names a function of this package.
func (c *checker) body(x ast.Expr) {
	fn := c.function(ast.Unparen(x))
	if fn == nil || c.looked[fn] {
		return
	}
	c.looked[fn] = true
	for _, w := range bodies.Find(fn, func(id *ast.Ident) bool { return c.outside(fn, id) }) {
		c.report(w.Pos, "the body of this step %s, which is declared outside of it: on a host a step does not work in the workflow's "+
			"own memory, and the change is lost; return it as the step's result", w)
	}
	waits := false // the body waits, presumably for the goroutines that it starts
	var started []ast.Node
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if name := c.of(n); durable[name] {
				c.report(n.Pos(), "workflow.%s in the body of a step is ErrNotHere: it belongs to the workflow", name)
			} else if decl := c.callee(n); decl != nil {
				c.through(fn, n, decl)
				if all := c.reaches(decl); len(all) > 0 {
					c.report(n.Pos(), "%s calls workflow.%s, which in the body of a step is ErrNotHere: it belongs to the workflow",
						decl.Name.Name, all[0].fn)
				}
			}
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Wait" {
				waits = true
			}
		case *ast.GoStmt:
			started = append(started, n)
		case *ast.UnaryExpr:
			waits = waits || n.Op == token.ARROW
		case *ast.SelectStmt:
			waits = true
		case *ast.RangeStmt:
			_, channel := c.TypesInfo.TypeOf(n.X).Underlying().(*types.Chan)
			waits = waits || channel
		}
		return true
	})
	if waits {
		return
	}
	for _, n := range started {
		c.report(n.Pos(), "this goroutine ends when the body of the step does, wherever it is: wait for it in the body")
	}
}

// function returns the function that an expression denotes, nil if its source is not in this package.
func (c *checker) function(x ast.Expr) ast.Node {
	switch x := x.(type) {
	case *ast.FuncLit:
		return x
	case *ast.Ident:
		switch obj := c.TypesInfo.ObjectOf(x).(type) {
		case *types.Func:
			if fn := c.declared[obj.Origin()]; fn != nil {
				return fn
			}
		case *types.Var:
			return c.value(obj)
		}
	}
	return nil
}

// value returns the function literal that initializes a variable of this package, nil if there is none.
func (c *checker) value(v *types.Var) (fn ast.Node) {
	for _, f := range c.Files {
		if f.FileStart > v.Pos() || v.Pos() > f.FileEnd {
			continue
		}
		find := func(names []*ast.Ident, values []ast.Expr) {
			for i, id := range names {
				if id == nil || c.TypesInfo.Defs[id] != v || len(values) != len(names) {
					continue
				}
				if lit, ok := ast.Unparen(values[i]).(*ast.FuncLit); ok {
					fn = lit
				}
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				names := make([]*ast.Ident, len(n.Lhs))
				for i, x := range n.Lhs {
					names[i], _ = x.(*ast.Ident)
				}
				find(names, n.Rhs)
			case *ast.ValueSpec:
				find(n.Names, n.Values)
			}
			return fn == nil
		})
	}
	return fn
}

// outside reports whether an identifier denotes a variable that is declared outside of a function.
func (c *checker) outside(fn ast.Node, id *ast.Ident) bool {
	switch obj := c.TypesInfo.ObjectOf(id).(type) {
	case *types.PkgName:
		return true // a variable of another package
	case *types.Var:
		return obj.Pos() < fn.Pos() || obj.Pos() > fn.End()
	}
	return false
}

// Functions returns the names of the SDK's functions and methods that the analyzer knows, for tests.
func Functions() []string { return slices.Sorted(maps.Keys(durable)) }
