package retention

import (
	"errors"
	"sync"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// batch is a number of runs that are deleted together.
type batch struct {
	*sweep
	at   []store.Position
	runs []store.RunState
	stay []store.Position          // positions to look at again
	open map[store.RunKey][]string // by live parent, the children it waits for
}

// add adds a run, unless it must stay.
func (b *batch) add(at store.Position, st store.RunState) {
	waits, err := b.awaited(&st)
	switch {
	case err != nil:
		b.failed(at, err)
	case waits && !st.Deleted:
		b.report.Held++
		fallthrough
	case waits:
		b.stay = append(b.stay, at)
	default:
		b.at, b.runs = append(b.at, at), append(b.runs, st)
	}
}

// failed records that a run could not be read or deleted.
func (b *batch) failed(at store.Position, err error) {
	b.stay = append(b.stay, at)
	b.report.Failed++
	if b.report.Err == nil {
		b.report.Err = err
	}
}

// awaited reports whether a run must stay because of its parent. An ended run stays while its parent lives and waits for it;
// the rest of a deleted run stays while a parent may ask for its outcome.
func (b *batch) awaited(st *store.RunState) (bool, error) {
	if st.Parent == "" {
		return false, nil
	}
	key := store.RunKey{Namespace: st.Run.Namespace, ID: st.Parent}
	parent, err := b.cfg.Store.State(b.ctx, key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return false, nil
	case err != nil:
		return true, err
	case parent.Deleted || st.Deleted:
		return st.Asked(&parent), nil
	case parent.Status.Terminal():
		return false, nil
	}
	children, err := b.children(key)
	for _, id := range children {
		if id == st.Run.ID {
			return true, nil
		}
	}
	return false, err
}

// children returns the children that a live run waits for. It reads the run's journal once per batch.
func (b *batch) children(parent store.RunKey) (list []string, err error) {
	if list, ok := b.open[parent]; ok {
		return list, nil
	}
	_, entries, err := b.cfg.Store.Run(b.ctx, parent)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	j := &journal.Journal{}
	for _, e := range entries {
		if err := j.Load(e); err != nil {
			return nil, err
		}
	}
	for h := range j.Handles {
		if h.Kind == store.KindChild && h.Open() {
			list = append(list, h.ChildID)
		}
	}
	if b.open == nil {
		b.open = map[store.RunKey][]string{}
	}
	b.open[parent] = list
	return list, nil
}

// run deletes the runs of the batch and empties it.
func (b *batch) run() {
	errs := make([]error, len(b.runs))
	if !b.dry {
		var wg sync.WaitGroup
		places := make(chan struct{}, atOnce)
		for i := range b.runs {
			places <- struct{}{}
			wg.Go(func() {
				defer func() { <-places }()
				errs[i] = b.delete(&b.runs[i])
			})
		}
		wg.Wait()
	}
	for i, err := range errs {
		switch st := &b.runs[i]; {
		case err != nil:
			b.failed(b.at[i], err)
		case st.Deleted:
			b.report.Forgotten++
		default:
			b.report.Deleted++
			b.gone[listsOf(st)[0]]++
			if len(b.report.First) < MaxListed {
				b.report.First = append(b.report.First, *st)
			}
		}
	}
	b.at, b.runs = nil, nil
}

// delete deletes a run unless it has changed since it was read. A concurrent retry, replacement or deletion is no error.
func (b *batch) delete(st *store.RunState) error {
	err := b.cfg.Delete(b.ctx, st.Run, func(now *store.RunState) bool {
		return now.Incarnation == st.Incarnation && now.EndedUnixMs == st.EndedUnixMs && now.Deleted == st.Deleted &&
			(!now.Deleted || now.UpdatedUnixMs == st.UpdatedUnixMs)
	})
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, run.ErrIllegal) {
		return nil
	}
	return err
}
