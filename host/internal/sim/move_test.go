package sim

import (
	"fmt"

	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// move sets a run aside as if it was exported to be moved, or takes it back.
func (u *users) move(w *world, id string, h *history) {
	if h.state.Aside == store.AsideMoved {
		u.takeBack(w, id)
		return
	}
	u.call(w, id, "move", run.Amend{Make: run.Move(fmt.Sprint("move", u.n))}, nil)
}

func (u *users) takeBack(w *world, id string) {
	u.call(w, id, "take back", run.Amend{Make: (*run.Record).TakeBack}, func(a run.Answer) {
		if a.State.Aside == store.AsideMoved {
			if h := w.seen.incs[a.State.Incarnation]; h == nil || h.state.Aside != store.AsideMoved { // it was moved again
				w.broken("a run that is taken back is here", "%s", id)
			}
		}
	})
}
