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

// ErrLostChange is the error of Run if a body of Do, or a step function, changes a variable that is declared outside of it. On a
// host a body works on a copy of the workflow's memory, and a step function in an instance of its own, so the change is lost;
// return the value as the result of the step.
// If a change is meant to be lost, or is there for the test only, put a comment //workflow:lost on its line or above
// it, with the reason behind it.
//
// The check reads the source of the body, if the test has it: assignments, increments, sends, copy, delete, clear,
// and pointers that are passed to Unmarshal, Decode and Scan. It does not find what a function changes that the body
// calls.
var ErrLostChange = errors.New("on a host a step does not work in the workflow's own memory, and the change is lost: " +
	"return it as the result of the step")

// checked is what was found in bodies, by the address of their code: an error, or nil.
var checked sync.Map

// checkBody returns an error if the body of a step changes what is outside of it. The run fails then, whatever becomes
// of the error.
func checkBody(ctx context.Context, name string, body any) error {
	e, _ := ctx.Value(envKey{}).(*Env)
	if e == nil || ctx.Value(bodyKey{}) != nil {
		return nil // Do refuses it
	}
	return e.lostChange(fmt.Sprintf("the body of step %q", name), body)
}

// checkStepFunc is checkBody of a step function that performs a step, unless the test has a handler in its place.
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

// lostChange returns an error if a function changes what is outside of it, and has the run fail.
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

// changeOf returns what the function at an address changes outside of itself, and where; empty if that is nothing, or not
// known.
func changeOf(pc uintptr) string {
	fn := runtime.FuncForPC(pc)
	if fn == nil {
		return ""
	}
	path, line := fn.FileLine(pc)
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
	if err != nil { // the test runs elsewhere than it was built
		return ""
	}
	body := bodyAt(fset, file, line)
	if body == nil {
		return ""
	}
	allowed := bodies.Allowed(fset, file)
	outside := func(id *ast.Ident) bool { // no Obj: it is declared in another file, or in another package
		return id.Obj == nil || id.Obj.Pos() < body.Pos() || id.Obj.Pos() > body.End()
	}
	for _, c := range bodies.Find(body, outside) {
		if at := fset.Position(c.Pos); !allowed[at.Line] {
			return fmt.Sprintf("%s (%s:%d)", c, filepath.Base(path), at.Line)
		}
	}
	return ""
}

// bodyAt returns the function of a file that begins in a line and takes a Step first, as bodies and step functions do; nil if
// there are none, or several.
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

// lose has the run of the test fail for a change that is lost, also where it is a child of that run that has made it.
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

// orLost returns the error of a run, or the change that it has lost.
func (e *Env) orLost(err error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lost == nil || errors.Is(err, ErrLostChange) {
		return err
	}
	return errors.Join(e.lost, err)
}

// inBody reports whether a call is made in the body of a step: with the context of its Step, or with that of the workflow, which
// the body has captured.
func inBody(ctx context.Context) bool {
	return ctx.Value(bodyKey{}) != nil || labelledBody() || calledByBody()
}

// The functions between which bodies are: try calls them, answered calls what answers queries, and iterate begins a run, which
// may be one that a body tests.
var (
	tryName    = runtime.FuncForPC(reflect.ValueOf(try).Pointer()).Name()
	answerName = runtime.FuncForPC(reflect.ValueOf(answered[any]).Pointer()).Name()
)

// calledByBody reports whether the body of a step is on the stack of this goroutine, which may have another label by now.
func calledByBody() bool { return onStack(tryName, iterateName) || onStack(answerName, iterateName) }
