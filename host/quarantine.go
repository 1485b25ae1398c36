package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/host/internal/quarantine"
	"github.com/wfhost/wfhost/store"
)

// suspectTimes are the delays before runs that crash the process are tried again.
var suspectTimes = quarantine.DefaultTimes()

// openWatch finds out how the previous process ended, makes runs stuck that crashed it repeatedly, and starts to watch
// the computing runs. A host whose store is not in its folder does not watch: another host may have the store open.
// Neither does a host with a copy, in which no run computes.
func (h *Host) openWatch(ctx context.Context) (*quarantine.Watch, error) {
	if !h.ownStore || h.copied {
		return nil, nil //nolint:nilnil // a nil watch watches nothing
	}
	progress := func(run store.RunKey) (quarantine.Progress, error) { return h.progress(ctx, run) }
	watch, convicted, err := quarantine.Open(h.cfg.Dir, suspectTimes, h.cfg.Logger, progress)
	if err != nil {
		return nil, err
	}
	h.suspects = watch
	for i := range convicted {
		if err := h.makeStuck(ctx, &convicted[i]); err != nil {
			return nil, err
		}
	}
	return watch, nil
}

// progress returns the progress of a run. A run that cannot be read does not run.
func (h *Host) progress(ctx context.Context, run store.RunKey) (quarantine.Progress, error) {
	st, entries, err := h.store.Run(ctx, run)
	switch {
	case err == nil:
		return quarantine.ProgressOf(&st, entries), nil
	case errors.Is(err, store.ErrNotFound):
		return quarantine.Progress{}, err
	}
	h.cfg.Logger.Error("run cannot be read", "run", run.ID, "cause", err)
	return quarantine.Progress{Over: true}, nil
}

// makeStuck makes a run stuck, durable on return. It touches no other partition or run, and is called before any run
// computes.
func (h *Host) makeStuck(ctx context.Context, r *quarantine.Record) error {
	run := store.RunKey{Namespace: r.Namespace, ID: r.ID}
	p, err := h.store.Acquire(ctx, run.Partition(), owner(), 0)
	if err != nil {
		return fmt.Errorf("run %q, which %s, cannot be made stuck: %w", r.ID, r.Reason(), err)
	}
	st, err := h.store.State(ctx, run)
	if err == nil {
		st.Status, st.Reason, st.WakeUnixMs, st.UpdatedUnixMs = store.Stuck, r.Reason(), store.NoWake, h.cfg.Clock.Now().UnixMilli()
		err = p.Commit(ctx, []store.RunCommit{{Run: run, Expect: st.Length, State: st}})
	}
	err = errors.Join(err, p.Release(ctx))
	if err != nil {
		return fmt.Errorf("run %q, which %s, cannot be made stuck: %w", r.ID, r.Reason(), err)
	}
	h.cfg.Logger.Error("run is stuck", "run", r.ID, "workflow", st.Workflow, "reason", st.Reason)
	if f := h.cfg.Events.RunStuck; f != nil {
		f(h.runOf(st))
	}
	return nil
}
