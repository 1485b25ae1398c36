package workflow

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// Saga collects what undoes the steps that were done, to run it in reverse order if the workflow fails.
type Saga struct{ undo []compensation }

// compensation undoes a step or child.
type compensation struct {
	of string
	do func(context.Context) error
}

// Add adds what undoes the step or child that was just done. The host is told which one it is, if undo makes its calls with
// the context that it is given: so that nobody restarts the run from a place where it would be taken as done.
func (s *Saga) Add(undo func(ctx context.Context) error) {
	s.undo = append(s.undo, compensation{newest(), undo})
}

// Compensate undoes what was done, newest first, if *err is set; defer it. It also works when the context is
// cancelled. It joins the errors of what it runs to *err, and runs the rest all the same.
func (s *Saga) Compensate(ctx context.Context, err *error) {
	if *err == nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	for len(s.undo) > 0 {
		last := len(s.undo) - 1
		undo := s.undo[last]
		s.undo = s.undo[:last]
		if failed := undo.do(Undoing(ctx, undo.of)); failed != nil { // else the failure keeps its type
			*err = errors.Join(*err, failed)
		}
	}
}

// undoing is the key of the name of the step that the calls of a context undo.
type undoing struct{}

// undone is whether there was ever such a context: calls do not look for one before.
var undone atomic.Bool

// Undoing returns a context for calls that undo a step or child of this run, by its name. Saga does that by itself; use it where
// you undo by hand. A run whose journal says what was undone is not restarted from a place where that would be taken as done.
// The name "*" stands for something that has no name.
func Undoing(ctx context.Context, name string) context.Context {
	undone.Store(true)
	return context.WithValue(ctx, undoing{}, name)
}

// undoes returns the name of the step that the calls of a context undo, "" if they undo none.
func undoes(ctx context.Context) string {
	if !undone.Load() {
		return ""
	}
	name, _ := ctx.Value(undoing{}).(string)
	return name
}

// done has the name of the step or child that has succeeded last. Tests have several workflows in one process.
var done struct {
	sync.Mutex
	name string
}

func succeeded(name string) {
	done.Lock()
	defer done.Unlock()
	done.name = name
}

// newest returns the name of the step or child that has succeeded last, "*" if there is none.
func newest() string {
	done.Lock()
	defer done.Unlock()
	return cmp.Or(done.name, "*")
}
