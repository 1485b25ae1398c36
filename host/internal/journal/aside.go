package journal

import (
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/store"
)

// ErrAside: the run is set aside on this installation, because it was moved to another one or is a copy. It is wrapped with
// what the user can do.
var ErrAside = errors.New("nothing happens to it here")

// absence is why a run is set aside here, if it is.
type absence struct {
	why  store.Aside
	move string // id of the move that took the run away; empty if it is here
}

// Freeze marks the run as a copy. From then on, Append refuses all entries.
func (a *absence) Freeze() { a.why = store.AsideCopy }

// Aside returns why the run is set aside, or store.NotAside if it is not.
func (a *absence) Aside() store.Aside { return a.why }

// Move returns the id of the move that took the run away, or "" if the run is here.
func (a *absence) Move() string { return a.move }

// check checks an entry against the absence of the run. A copy accepts no entries. A moved run can only be adopted by the move
// that took it away, or be terminated. It wraps ErrAside for other entries, and ErrIllegal for malformed moves.
func (a *absence) check(e *store.Entry, run string) error {
	goes, comes := e.Kind == store.KindMoved, e.Kind == store.KindAdopted
	switch {
	case a.why == store.AsideCopy:
		return fmt.Errorf("run %q is a copy of an imported run: %w", run, ErrAside)
	case goes && a.why == store.AsideMoved:
		return illegal("moved twice")
	case (goes || comes) && e.Handle != 0:
		return illegal("%s with handle %d", e.Kind, e.Handle)
	case goes && e.Target == "":
		return illegal("moved without the id of the move")
	case comes && e.Target != a.move:
		return illegal("adopted by the move %q, it has left by %q", e.Target, a.move)
	case a.why == store.AsideMoved && !comes && e.Kind != store.KindTerminated:
		return fmt.Errorf("run %q was exported to go on elsewhere: %w; take it back with `wfhost unpause %[1]s --moved` if it does "+
			"not, or terminate it", run, ErrAside)
	}
	return nil
}

// fold applies a move away (KindMoved) or back (KindAdopted).
func (a *absence) fold(e *store.Entry) {
	*a = (absence{})
	if e.Kind == store.KindMoved {
		a.why, a.move = store.AsideMoved, e.Target
	}
}
