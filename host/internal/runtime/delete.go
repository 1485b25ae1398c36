package runtime

import (
	"context"
	"errors"

	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// Delete deletes an ended run with its journal, log and output. The id stays taken for as long as the namespace keeps ids, unless
// no caller can name the run again: see store.IDOrigin. For which, see run.Delete.
func (r *Runs) Delete(ctx context.Context, key store.RunKey, which func(*store.RunState) bool) error {
	alone, err := r.alone(ctx, key)
	if err != nil {
		return err
	}
	a, err := r.call(ctx, key, run.Delete{If: which, Alone: alone})
	if err != nil || !a.Changed {
		return err
	}
	// The rest only saves room. Whatever fails here is left to the sweep, once the ids are free.
	for _, id := range a.Children {
		r.forgetChild(ctx, store.RunKey{Namespace: key.Namespace, ID: id})
	}
	if !alone && a.State.Deleted && a.State.ID == store.IDDerived { // its parent may have been deleted at the same time
		r.forgetChild(ctx, key)
	}
	return nil
}

// alone reports whether a child has no parent that may await its outcome: the parent was deleted or has continued as new. It
// returns false for a run that is not a child.
func (r *Runs) alone(ctx context.Context, key store.RunKey) (bool, error) {
	st, err := r.store.State(ctx, key)
	if errors.Is(err, store.ErrNotFound) || err == nil && st.Parent == "" {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	parent, err := r.store.State(ctx, store.RunKey{Namespace: key.Namespace, ID: st.Parent})
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	return err == nil && !st.Asked(&parent), err
}

// forgetChild removes the tombstone of a deleted child that no caller can name again.
func (r *Runs) forgetChild(ctx context.Context, key store.RunKey) {
	st, err := r.store.State(ctx, key)
	if err != nil || !st.Deleted || st.ID != store.IDDerived {
		return
	}
	if alone, err := r.alone(ctx, key); err != nil || !alone {
		return
	}
	_, _ = r.call(ctx, key, run.Delete{If: func(now *store.RunState) bool {
		return now.Deleted && now.Incarnation == st.Incarnation
	}})
}
