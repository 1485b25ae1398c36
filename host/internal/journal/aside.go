package journal

import (
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/store"
)

// ErrAside says that nothing happens to a run here: it was moved to another installation, or is a copy. It is wrapped with what
// helps.
var ErrAside = errors.New("nothing happens to it here")

// absence says whether the run is one to which nothing happens here.
type absence struct {
	why  store.Aside
	move string // id of the move by which the run has left; empty if it is here
}

// Freeze makes the journal that of a copy: nothing is appended any more.
func (a *absence) Freeze() { a.why = store.AsideCopy }

// Aside returns why nothing is appended, store.NotAside if entries are.
func (a *absence) Aside() store.Aside { return a.why }

// Move returns the id of the move by which the run left, empty if it is here.
func (a *absence) Move() string { return a.move }

// check says whether an entry may be appended to the journal of a run that is set aside: one that was moved is taken back, or
// ended for good.
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

// fold folds that the run goes away, or comes back.
func (a *absence) fold(e *store.Entry) {
	*a = (absence{})
	if e.Kind == store.KindMoved {
		a.why, a.move = store.AsideMoved, e.Target
	}
}
