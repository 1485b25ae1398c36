//go:build !wasip1

package workflow

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"runtime"
	"sync"

	"github.com/wfhost/wfhost/guest-sdk/go/internal/bodies"
)

// ErrLostChange is the error of Run if a body of Do, or a step function, changes a variable that is declared outside of it.
// On a host, a body works on a copy of the workflow's memory, and a step function in an instance of its own, so the change
// is lost. Return the value as the result of the step instead. If you want the change to be lost, or make it for the test
// only, put a comment //workflow:lost, followed by the reason, on the same line or the line above.
//
// The check reads the source of the body if it is available. It finds assignments, increments, sends, copy, delete, clear,
// and pointers that are passed to Unmarshal, Decode and Scan. It does not find changes in functions that the body calls.
var ErrLostChange = errors.New("on a host a step does not work in the workflow's own memory, and the change is lost: " +
	"return it as the result of the step")

// checked caches the answers of changeOf by the address of the body's code.
var checked sync.Map

// checkBody returns an error if the body of a step changes a variable outside of it. The run then fails even if the workflow
// ignores the error.
func checkBody(ctx context.Context, name string, body any) error {
	e, _ := ctx.Value(envKey{}).(*Env)
	if e == nil || ctx.Value(bodyKey{}) != nil {
		return nil // Do returns an error
	}
	return e.lostChange(fmt.Sprintf("the body of step %q", name), body)
}

// checkStepFunc is checkBody for a step function. It returns nil if the test has replaced the step function by Handle.
func checkStepFunc(ctx context.Context, name string) error {
	e, _ := ctx.Value(envKey{}).(*Env)
	fn := registered.stepCode[name]
	if e == nil || fn == nil || ctx.Value(bodyKey{}) != nil {
		return nil
	}
	e.mu.Lock()
	replaced := e.handlers[name] != nil
	e.mu.Unlock()
	if replaced {
		return nil
	}
	return e.lostChange(fmt.Sprintf("the step function %q", name), fn)
}

// lostChange returns an error if a function changes a variable outside of it, and makes the run fail.
func (e *Env) lostChange(what string, fn any) error {
	pc := reflect.ValueOf(fn).Pointer()
	found, ok := checked.Load(pc)
	if !ok {
		found, _ = checked.LoadOrStore(pc, changeOf(pc))
	}
	text, _ := found.(string)
	if text == "" {
		return nil
	}
	err := fmt.Errorf("%s %s, which is declared outside of it; %w", what, text, ErrLostChange)
	e.lose(err)
	return err
}

// changeOf describes the first change that the function at an address makes outside of itself, with its position. It returns
// "" if there is none or the source is not available.
func changeOf(pc uintptr) string {
	fn := runtime.FuncForPC(pc)
	if fn == nil {
		return ""
	}
	path, line := fn.FileLine(pc)
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
	if err != nil { // the source is not here: the test was built elsewhere
		return ""
	}
	body := bodyAt(fset, file, line)
	if body == nil {
		return ""
	}
	allowed := bodies.Allowed(fset, file)
	outside := func(id *ast.Ident) bool { // no Obj: declared in another file or package
		return id.Obj == nil || id.Obj.Pos() < body.Pos() || id.Obj.Pos() > body.End()
	}
	for _, c := range bodies.Find(body, outside) {
		if at := fset.Position(c.Pos); !allowed[at.Line] {
			return fmt.Sprintf("%s (%s:%d)", c, filepath.Base(path), at.Line)
		}
	}
	return ""
}

// bodyAt returns the function that begins on a line and has a Step as its first parameter, as bodies and step functions do.
// It returns nil if there is none or more than one.
func bodyAt(fset *token.FileSet, file *ast.File, line int) (body ast.Node) {
	several := false
	ast.Inspect(file, func(n ast.Node) bool {
		var t *ast.FuncType
		switch n := n.(type) {
		case *ast.FuncLit:
			t = n.Type
		case *ast.FuncDecl:
			t = n.Type
		}
		if t == nil || fset.Position(n.Pos()).Line != line || !takesStep(t) {
			return true
		}
		several = body != nil
		body = n
		return true
	})
	if several {
		return nil
	}
	return body
}

func takesStep(t *ast.FuncType) bool {
	if t.Params == nil || len(t.Params.List) == 0 {
		return false
	}
	switch x := t.Params.List[0].Type.(type) {
	case *ast.Ident:
		return x.Name == "Step"
	case *ast.SelectorExpr:
		return x.Sel.Name == "Step"
	}
	return false
}

// lose records a lost change, which fails the run under test. A change by a child fails the run under test, too.
func (e *Env) lose(err error) {
	for e.parent != nil {
		e = e.parent
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lost == nil {
		e.lost = err
	}
}

// orLost adds the lost change, if there is one, to the error of a run.
func (e *Env) orLost(err error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lost == nil || errors.Is(err, ErrLostChange) {
		return err
	}
	return errors.Join(e.lost, err)
}

// inBody reports whether a call is made in the body of a step, with the context of its Step or with the workflow's context,
// which the body may have captured.
func inBody(ctx context.Context) bool {
	return ctx.Value(bodyKey{}) != nil || labelledBody() || calledByBody()
}

// Names of functions that mark the stack: try calls bodies, and answered calls the functions of queries. iterate begins a
// run, possibly one that a body tests.
var (
	tryName    = runtime.FuncForPC(reflect.ValueOf(try).Pointer()).Name()
	answerName = runtime.FuncForPC(reflect.ValueOf(answered[any]).Pointer()).Name()
)

// calledByBody reports whether the body of a step or the function of a query is on the stack of this goroutine. The label
// alone is not enough: the body may have changed it.
func calledByBody() bool { return onStack(tryName, iterateName) || onStack(answerName, iterateName) }
