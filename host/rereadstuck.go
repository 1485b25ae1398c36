package host

import (
	"context"
	"errors"
	"sync"

	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/shard"
	"github.com/wfhost/wfhost/store"
)

// rereadRuns resumes runs that are stuck because an earlier release could not read the records of a newer one: it had
// been installed in place of the newer one.
func (h *Host) rereadRuns(ctx context.Context) error {
	if h.copied || h.cfg.Partitions != nil && len(h.cfg.Partitions) == 0 {
		return nil
	}
	for ns, err := range h.store.Namespaces(ctx) {
		if err != nil {
			return err
		}
		stuck, err := h.anyStuck(ctx, ns.ID)
		if err != nil {
			return err
		}
		if !stuck {
			continue
		}
		var wg sync.WaitGroup
		q := store.Query{Namespace: ns.ID, Statuses: []store.Status{store.Stuck}, Limit: store.MaxPage}
		for st, err := range store.Runs(ctx, h.store, q, 0) {
			if err != nil {
				wg.Wait()
				return err
			}
			if run.LeftByVersion(&st) {
				wg.Go(func() { h.rereadRun(ctx, st.Run) })
			}
		}
		wg.Wait()
	}
	return nil
}

// anyStuck reports whether a namespace has stuck runs.
func (h *Host) anyStuck(ctx context.Context, ns store.NamespaceID) (bool, error) {
	counts, err := h.store.Counts(ctx, ns)
	for i := range counts {
		if counts[i].Runs.Of([]store.Status{store.Stuck}) > 0 {
			return true, nil
		}
	}
	return false, err
}

// rereadRun resumes a run, unless another host owns it, or this release cannot read it, either.
func (h *Host) rereadRun(ctx context.Context, key store.RunKey) {
	switch err := h.rt.Runs.Reread(ctx, key); {
	case err == nil:
		h.cfg.Logger.Info("a run goes on that an earlier release could not read", "run", key.ID)
	case errors.Is(err, shard.ErrNotOwned), errors.Is(err, store.ErrVersion):
	default:
		h.cfg.Logger.Warn("a run cannot go on that an earlier release could not read", "run", key.ID, "cause", err)
	}
}
