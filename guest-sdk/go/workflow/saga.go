package workflow

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// Saga collects compensations, and runs them in reverse order if the workflow fails.
type Saga struct{ undo []compensation }

// compensation undoes a step or child.
type compensation struct {
	of string // name of the step or child
	do func(context.Context) error
}

// Add adds a compensation for the step or child that succeeded last. undo must make its calls with the context that it is
// given: the context carries the name of the step or child to the host. The host then refuses to restart the run from a
// place where the undone step would count as done.
func (s *Saga) Add(undo func(ctx context.Context) error) {
	s.undo = append(s.undo, compensation{newest(), undo})
}

// Compensate runs the compensations, newest first, if *err is not nil. Call it in a defer statement. It also works when the
// context is cancelled. If a compensation fails, its error is joined to *err and the rest still run.
func (s *Saga) Compensate(ctx context.Context, err *error) {
	if *err == nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	for len(s.undo) > 0 {
		last := len(s.undo) - 1
		undo := s.undo[last]
		s.undo = s.undo[:last]
		if failed := undo.do(Undoing(ctx, undo.of)); failed != nil { // errors.Join would change the type of *err
			*err = errors.Join(*err, failed)
		}
	}
}

// undoing is the context key for the name of the step or child that calls undo.
type undoing struct{}

// undone reports whether Undoing was ever called. Before that, calls do not search their context for the key.
var undone atomic.Bool

// Undoing returns a context for calls that undo the named step or child of this run. Use it if you compensate without a
// Saga. The host refuses to restart the run from a place where the undone step would count as done. The name "*" stands for
// an effect without a name.
func Undoing(ctx context.Context, name string) context.Context {
	undone.Store(true)
	return context.WithValue(ctx, undoing{}, name)
}

// undoes returns the name in a context of Undoing, "" for other contexts.
func undoes(ctx context.Context) string {
	if !undone.Load() {
		return ""
	}
	name, _ := ctx.Value(undoing{}).(string)
	return name
}

// done holds the name of the step or child that succeeded last. It has a lock because a test may run several workflows in
// one process.
var done struct {
	sync.Mutex
	name string
}

func succeeded(name string) {
	done.Lock()
	defer done.Unlock()
	done.name = name
}

// newest returns the name of the step or child that succeeded last, "*" if there is none.
func newest() string {
	done.Lock()
	defer done.Unlock()
	return cmp.Or(done.name, "*")
}
