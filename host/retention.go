package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/retention"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

const (
	// MinRetention is the least time that a retention can keep a run: a caller that waits for its result needs a
	// moment.
	MinRetention = time.Minute
	// MaxRetentionKeep is the greatest number of runs in a retention: more than a store holds.
	MaxRetentionKeep = 1_000_000_000
	// firstSweep is the delay of the first sweep after a start, which has more urgent work.
	firstSweep = time.Minute
)

// Retention says how long the ended runs of a workflow are kept, and the past iterations of its live runs. All bounds
// that are not zero apply: a run is deleted as soon as it passes one of them. The zero value keeps all runs.
type Retention struct {
	// Workflow is the workflow; empty = all workflows of the namespace that have no retention of their own.
	Workflow string
	// How long a run with this status is kept after its end. 0 = no bound; at least MinRetention otherwise.
	Completed, Failed, Cancelled, Terminated time.Duration
	// Keep is how many ended runs of the workflow are kept, whatever their status: the runs that were created last.
	// Zero means any number; at most MaxRetentionKeep.
	Keep int
	// Like Keep, but for each status, so that many runs with one status do not push out runs with another.
	KeepCompleted, KeepFailed, KeepCancelled, KeepTerminated int
	// KeepIterations is how many past iterations a run that continues as new keeps, with their journals and with
	// large payloads that no later iteration has. 0 = DefaultIterations, AllIterations = all; at most MaxIterations.
	// Older iterations are removed when the run continues as new, some at a time; output and log stay.
	KeepIterations int
	// KeepIterationsFor is how long after its end a past iteration is kept. 0 = no bound; at least MinRetention
	// otherwise.
	KeepIterationsFor time.Duration
	// KeepIDsFor is how long the id of a run stays taken after the run's deletion, so that a start that is repeated by
	// mistake is refused. It holds for the whole namespace, and is refused with a Workflow. 0 = DefaultKeepIDs; at
	// least MinRetention otherwise. Ids that no caller can name again are free at once: generated ids, and ids that
	// the host made for the children of a run that is deleted.
	KeepIDsFor time.Duration
}

// DefaultKeepIDs is the default of Retention.KeepIDsFor: 30 days.
const DefaultKeepIDs = store.DefaultIDsMs * time.Millisecond

// Values of Retention.KeepIterations.
const (
	AllIterations     = -1 // keeps all iterations while the run lives
	DefaultIterations = store.DefaultIterations
	MaxIterations     = store.MaxPast
)

// of converts the retention for the store, or returns ErrInvalid.
func (r *Retention) of(ns store.NamespaceID) (store.Retention, error) {
	out := store.Retention{Namespace: ns, Workflow: r.Workflow}
	for _, x := range []struct {
		name   string
		number int
		set    *int64
	}{
		{"keep", r.Keep, &out.Keep}, {"keep_completed", r.KeepCompleted, &out.KeepCompleted},
		{"keep_failed", r.KeepFailed, &out.KeepFailed}, {"keep_cancelled", r.KeepCancelled, &out.KeepCancelled},
		{"keep_terminated", r.KeepTerminated, &out.KeepTerminated},
	} {
		if x.number < 0 || x.number > MaxRetentionKeep {
			return out, &joined{fmt.Errorf("%s must be from 0 to %d, got %d", x.name, MaxRetentionKeep, x.number), ErrInvalid}
		}
		*x.set = int64(x.number)
	}
	if r.KeepIterations < AllIterations || r.KeepIterations > MaxIterations {
		return out, &joined{fmt.Errorf("keep_iterations must be from 1 to %d, or %d for all, got %d", MaxIterations, AllIterations,
			r.KeepIterations), ErrInvalid}
	}
	out.KeepIterations = int64(r.KeepIterations)
	if d := r.KeepIterationsFor; d != 0 && d < MinRetention {
		return out, &joined{fmt.Errorf("iterations must be kept for at least %v, got %v", MinRetention, d), ErrInvalid}
	}
	out.IterationsMs = abi.Milliseconds(r.KeepIterationsFor)
	switch d := r.KeepIDsFor; {
	case d != 0 && r.Workflow != "":
		return out, &joined{fmt.Errorf("keep_ids_for is of a namespace: set it for all other workflows, not for workflow %q",
			r.Workflow), ErrInvalid}
	case d != 0 && d < MinRetention:
		return out, &joined{fmt.Errorf("ids of deleted runs must be kept for at least %v, got %v", MinRetention, d), ErrInvalid}
	}
	out.IDsMs = abi.Milliseconds(r.KeepIDsFor)
	for _, x := range []struct {
		status Status
		age    time.Duration
		ms     *int64
	}{{Completed, r.Completed, &out.CompletedMs}, {Failed, r.Failed, &out.FailedMs}, {Cancelled, r.Cancelled, &out.CancelledMs},
		{Terminated, r.Terminated, &out.TerminatedMs}} {
		if x.age != 0 && x.age < MinRetention {
			return out, &joined{fmt.Errorf("%v runs must be kept for at least %v, got %v", x.status, MinRetention, x.age), ErrInvalid}
		}
		*x.ms = abi.Milliseconds(x.age)
	}
	return out, nil
}

// keep converts Config.Retention for the store.
func (c *Config) keep() (store.Retention, error) {
	keep, err := c.Retention.of(0)
	if err == nil && keep.Workflow != "" {
		err = &joined{fmt.Errorf("its Workflow must be empty, got %q", keep.Workflow), ErrInvalid}
	}
	if err != nil {
		return keep, fmt.Errorf("Config.Retention: %w", err)
	}
	return keep, nil
}

func (h *Host) newSweeper(keep store.Retention) *retention.Sweeper {
	return retention.New(retention.Config{Store: h.store, Owned: h.swept, Delete: h.rt.Runs.Delete, Default: keep})
}

// keepsIterations returns which iterations of a workflow's runs are kept.
func (h *Host) keepsIterations(ctx context.Context, of store.NamespaceID, workflow string) (run.Keep, error) {
	r, err := h.iterations.Of(ctx, of, workflow, h.cfg.Clock.Now().UnixMilli())
	if err != nil {
		return run.Keep{}, err
	}
	return run.Keep{Iterations: r.KeepIterations, ForMs: r.IterationsMs}, nil
}

// keepsIDsMs returns for how many milliseconds the ids of deleted runs stay taken in a namespace.
func (h *Host) keepsIDsMs(ctx context.Context, of store.NamespaceID) (int64, error) {
	r, err := h.iterations.Of(ctx, of, "", h.cfg.Clock.Now().UnixMilli())
	if err != nil {
		return 0, err
	}
	return r.IDs(), nil
}

// swept returns the partitions to sweep: the partitions that the host owns. In a copy, which owns none, it is all
// partitions, to report what would be deleted.
func (h *Host) swept() []store.PartitionID {
	if !h.IsCopy() {
		return h.rt.Partitions.Owned()
	}
	all := make([]store.PartitionID, NumPartitions)
	for i := range all {
		all[i] = store.PartitionID(i)
	}
	return all
}

// Set sets the retention of a workflow and replaces the earlier one, if any. The workflow need not exist.
// Runs that are too old are deleted within about an hour, by Run or by Sweep. Durable on return. ErrInvalid for a
// retention that bounds nothing, ErrLimit if the store has too many retentions.
func (s Retentions) Set(ctx context.Context, r Retention) error {
	if r.Workflow != "" {
		if err := abi.CheckWorkflow(r.Workflow); err != nil {
			return translate(err)
		}
	}
	ns, err := s.id(ctx, false)
	if err != nil {
		return translate(err)
	}
	x, err := r.of(ns)
	if err != nil {
		return err
	}
	if x.None() {
		return &joined{errors.New("the retention bounds nothing: give an age, or a number of runs or iterations to keep; " +
			"to remove one, delete it"),
			ErrInvalid}
	}
	err = s.h.store.SetRetention(ctx, x)
	s.h.iterations.Changed()
	if errors.Is(err, store.ErrTooLarge) {
		return &joined{err, ErrLimit}
	}
	return translate(err)
}

// Delete removes the retention of a workflow, or with the empty name, that of all other workflows of the
// namespace. The more general retention then applies. Durable on return. ErrNotFound if there is none.
func (s Retentions) Delete(ctx context.Context, workflow string) error {
	ns, err := s.id(ctx, false)
	if err != nil {
		return translate(err)
	}
	list, err := s.h.store.Retentions(ctx)
	if err != nil {
		return translate(err)
	}
	for _, x := range list {
		if x.Namespace == ns && x.Workflow == workflow {
			defer s.h.iterations.Changed()
			return translate(s.h.store.SetRetention(ctx, store.Retention{Namespace: ns, Workflow: workflow}))
		}
	}
	return translate(fmt.Errorf("retention of workflow %q: %w", workflow, store.ErrNotFound))
}

// List returns the retentions of the namespace, sorted by workflow. The one for all other
// workflows, if any, is first.
func (s Retentions) List(ctx context.Context) ([]Retention, error) {
	ns, err := s.id(ctx, false)
	if err != nil {
		return nil, translate(err)
	}
	list, err := s.h.store.Retentions(ctx)
	var out []Retention
	for _, x := range list {
		if x.Namespace == ns {
			out = append(out, Retention{Workflow: x.Workflow, Completed: abi.Duration(x.CompletedMs), Failed: abi.Duration(x.FailedMs),
				Cancelled: abi.Duration(x.CancelledMs), Terminated: abi.Duration(x.TerminatedMs), Keep: int(x.Keep),
				KeepCompleted: int(x.KeepCompleted), KeepFailed: int(x.KeepFailed), KeepCancelled: int(x.KeepCancelled),
				KeepTerminated: int(x.KeepTerminated), KeepIterations: int(x.KeepIterations),
				KeepIterationsFor: abi.Duration(x.IterationsMs), KeepIDsFor: abi.Duration(x.IDsMs)})
		}
	}
	return out, translate(err)
}

// Swept reports what a sweep has deleted, or would delete.
type Swept struct {
	Deleted   int   `json:"deleted"`   // runs
	Held      int   `json:"held"`      // children old enough to delete, kept because a live run waits for their end
	Forgotten int   `json:"forgotten"` // runs deleted so long ago that their ids are free now
	Failed    int   `json:"failed"`    // runs that could not be read or deleted: tried again after a day, or by the next host
	Runs      []Run `json:"runs"`      // the first runs that were deleted, or would be: at most MaxSweptRuns
}

// MaxSweptRuns is how many runs a Swept lists at most.
const MaxSweptRuns = retention.MaxListed

// Sweep deletes the runs of the namespace that are past their retention, as Run does once an hour. With dryRun it
// only reports them. Deletions are durable on return, also with an error. Sweep covers the partitions that this host
// owns; the HTTP API has all hosts of a cluster sweep. In a copy it returns ErrCopy unless dryRun is set.
func (s Retentions) Sweep(ctx context.Context, dryRun bool) (Swept, error) {
	ns, err := s.id(ctx, false)
	if err != nil {
		return Swept{}, translate(err)
	}
	if !dryRun {
		if err := s.h.refuseCopy(); err != nil {
			return Swept{}, translate(err)
		}
	}
	report, err := s.h.sweeper.Sweep(ctx, s.h.cfg.Clock.Now().UnixMilli(), &ns, dryRun)
	out := Swept{Deleted: report.Deleted, Held: report.Held, Forgotten: report.Forgotten, Failed: report.Failed, Runs: []Run{}}
	for _, st := range report.First {
		out.Runs = append(out.Runs, s.h.runOf(st))
	}
	return out, translate(err)
}

// keepSwept sweeps all namespaces until ctx is done: first after a minute, then every Config.SweepEvery. With
// SkipSleeps it waits by the machine's clock: sweeps must not make time skip, nor skipped time cause sweeps.
func (h *Host) keepSwept(ctx context.Context) {
	c := h.cfg.Clock
	if h.skip != nil {
		c = clock.System()
	}
	defer h.nextSweep.Store(nil)
	t, next := sweepTimer(c, min(firstSweep, h.cfg.SweepEvery))
	for {
		h.setNextSweep(next)
		select {
		case <-t.C():
		case <-ctx.Done():
			t.Stop()
			return
		}
		// Set the timer before the sweep: a test that moves a fake clock right after the sweep then moves it past the
		// next one.
		t, next = sweepTimer(c, h.cfg.SweepEvery)
		if !h.IsCopy() {
			h.sweepAll(ctx)
		}
	}
}

func (h *Host) setNextSweep(at time.Time) { h.nextSweep.Store(&at) }

// sweepTimer starts a timer and returns it with the instant at which it fires.
func sweepTimer(c clock.Clock, d time.Duration) (clock.Timer, time.Time) {
	now := c.Now()
	return c.NewTimer(d), now.Add(d)
}

// sweepAll deletes the runs of all namespaces that are past their retention.
func (h *Host) sweepAll(ctx context.Context) {
	report, err := h.sweeper.Sweep(ctx, h.cfg.Clock.Now().UnixMilli(), nil, false)
	if ctx.Err() != nil {
		return
	}
	err = errors.Join(err, report.Err)
	if err != nil {
		h.cfg.Logger.Error("runs that are too old could not all be deleted", "failed", report.Failed, "cause", err)
	}
	if report.Deleted+report.Forgotten > 0 {
		h.cfg.Logger.Info("deleted what was kept long enough", "runs", report.Deleted, "held", report.Held, "ids", report.Forgotten)
	}
}
