package host

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/check"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/shard"
	"github.com/wfhost/wfhost/store"
)

// MigrateOptions says which runs continue under which version. To is required.
type MigrateOptions struct {
	To   uint32   // the version to continue under
	From uint32   // only runs of this version; 0 = of any other version
	Runs []string // only these runs; nil = all live runs
	// DryRun only replays: reports say compatible instead of migrated, and nothing changes.
	DryRun bool
	// CPU, Parallel, Each and Progress are like those of CheckOptions.
	CPU      time.Duration
	Parallel int
	Each     func(RunCheck) error
	Progress func(done, total int64)
	// Elsewhere migrates a run at the host of the cluster that owns it, with Part. Nil: such runs are not checked. Package
	// httpapi sets it.
	Elsewhere func(ctx context.Context, owner HostInfo, id string) (RunCheck, error)
	// Part says that this is the part of a migration at another host, which counts as one there.
	Part bool
}

// Migrate moves the live runs of a workflow that are compatible with another version to that version. It replays each
// run as Check does. If the run has not advanced during the replay, an entry in its journal moves it, atomically. A
// run that has advanced is replayed again. Runs reported as migrated are durable. Other runs stay as they are.
//
// Runs that sleep, wait or are paused continue to do so; stuck runs resume. Attempts of steps in flight are finished
// by the version that began them. A version without runs can be deleted. To go back, migrate to the previous version:
// runs that did what only the newer version does stay on the newer one.
//
// ErrInvalid if To is 0, ErrNotFound if the workflow has no such version.
func (s Workflows) Migrate(ctx context.Context, workflow string, opts MigrateOptions) (CheckSummary, error) {
	sum := CheckSummary{Workflow: workflow, Version: opts.To}
	o := CheckOptions{CPU: opts.CPU, Parallel: opts.Parallel, Each: opts.Each, Progress: opts.Progress}
	if err := o.check(); err != nil {
		return sum, err
	}
	if opts.To == 0 {
		return sum, &joined{errors.New("to which version runs are migrated must be said: numbers begin at 1"), ErrInvalid}
	}
	for _, id := range opts.Runs {
		if err := checkRunID(id); err != nil {
			return sum, err
		}
	}
	ns, err := s.id(ctx, false)
	if err != nil {
		return sum, translate(err)
	}
	to, err := s.h.store.Modules().Version(ctx, ns, workflow, opts.To)
	if err != nil {
		return sum, translate(err)
	}
	if !opts.Part {
		end, err := s.h.checks.begin(ns)
		if err != nil {
			return sum, err
		}
		defer end()
	}
	sum.Module = to.Module.String()
	if err := s.h.refuseCopy(); err != nil && !opts.DryRun {
		return sum, translate(err)
	}
	p := pass{s: s.nsRef, ns: ns, workflow: workflow, runs: opts.Runs, from: opts.From, opts: o, sum: &sum}
	p.do = func(ctx context.Context, key store.RunKey) (RunCheck, error) {
		return s.migrate(ctx, key, &opts, &to, o.fuel())
	}
	err = p.all(ctx)
	return sum, err
}

// How often a run that has advanced is replayed again, and the first and the longest pause before that. A run that
// advances all the time for a second is busy: migrate it later.
const (
	migrateTries    = 20
	migratePause    = time.Millisecond
	migrateMaxPause = 100 * time.Millisecond
)

// migrate replays one run and moves it to another version.
func (s *nsRef) migrate(ctx context.Context, key store.RunKey, opts *MigrateOptions, to *store.Version,
	fuel int64) (c RunCheck, err error) {
	pause := migratePause
	var lost error // of the newest try
	for range migrateTries {
		st, err := s.h.rt.Runs.Durable(ctx, key)
		if err != nil {
			c = RunCheck{RunID: key.ID}
			err = asReason(&c, err)
			return c, err
		}
		c = RunCheck{RunID: key.ID, Version: st.Version, Status: st.Status, Iteration: st.Iteration, Entries: uint64(st.Length)}
		c.Outcome, c.Reason = unfit(&st, opts, to)
		if c.Outcome != "" {
			return c, nil
		}
		if owner, other, err := s.ownerOf(key); other && err == nil && opts.Elsewhere != nil && !opts.DryRun {
			return opts.Elsewhere(ctx, owner, key.ID)
		}
		mod, err := s.h.rt.Checks.Module(to.Module)
		if err != nil {
			return c, err
		}
		r, err := s.h.rt.Checks.Run(ctx, key, mod, fuel)
		c = reportOf(key, &r)
		if err != nil || r.Outcome != check.Compatible || opts.DryRun {
			return c, err
		}
		err = s.goOn(ctx, key, &r, opts.To)
		if err == nil {
			c.Outcome = CheckMigrated
			return c, nil
		}
		gone := errors.Is(err, shard.ErrNotOwned) && opts.Elsewhere != nil // another host has taken it over
		if lost = nil; gone {
			lost = err
		}
		if !errors.Is(err, run.ErrMoved) && !gone {
			err = asReason(&c, err)
			return c, err
		}
		if err := sleep(ctx, pause); err != nil {
			return c, err
		}
		pause = min(2*pause, migrateMaxPause)
	}
	if lost != nil { // it has no owner for longer
		err = asReason(&c, lost)
		return c, err
	}
	c.Outcome, c.Reason = CheckNotChecked, fmt.Sprintf("it has moved %d times while it was checked: try again when it is less busy",
		migrateTries)
	return c, nil
}

// ownerOf returns the host of the cluster that owns a run, false if it is this one.
func (s *nsRef) ownerOf(key store.RunKey) (HostInfo, bool, error) {
	if s.h.member == nil {
		return HostInfo{}, false, nil
	}
	return s.h.member.ownerOf(key.Partition())
}

// unfit returns why a run is not migrated, independent of its journal; the outcome is empty if it may be migrated.
func unfit(st *store.RunState, opts *MigrateOptions, to *store.Version) (CheckOutcome, string) {
	switch {
	case st.Workflow != to.Workflow:
		return CheckNotChecked, fmt.Sprintf("it is a run of workflow %q", st.Workflow)
	case st.Version == to.Number:
		return CheckUnchanged, ""
	case st.Aside != store.NotAside:
		return CheckNotChecked, fmt.Sprintf("nothing happens to it here: %s", st.Aside)
	case st.Status.Terminal():
		return CheckNotChecked, fmt.Sprintf("it has ended: %s", st.Status)
	case opts.From != 0 && st.Version != opts.From:
		return CheckNotChecked, fmt.Sprintf("it has version %d, not %d", st.Version, opts.From)
	}
	return "", ""
}

// goOn moves a replayed run to another version. It reads the version again, as it may have been deleted.
func (s *nsRef) goOn(ctx context.Context, key store.RunKey, r *check.Result, to uint32) error {
	free := s.h.rt.Versions.LockDeletions()
	v, err := s.h.store.Modules().Version(ctx, key.Namespace, r.State.Workflow, to)
	if err != nil {
		free()
		if errors.Is(err, store.ErrNotFound) { // the version was not found, not the run
			err = &joined{fmt.Errorf("%s@%d was deleted meanwhile", r.State.Workflow, to), ErrNotFound}
		}
		return err
	}
	m := run.Migrate{Version: v, Checked: run.Checked{Incarnation: r.State.Incarnation, Iteration: r.State.Iteration,
		Length: r.State.Length, Version: r.State.Version}}
	_, err = s.h.rt.Runs.Migrate(ctx, key, m, free)
	return err
}

// asReason turns an error that concerns only this run into its reason.
func asReason(c *RunCheck, err error) error {
	_, own := errors.AsType[*abi.Error](err) // its journal has no room
	for _, e := range []error{run.ErrTerminal, run.ErrIllegal, run.ErrAside, store.ErrFenced, store.ErrCorrupt, store.ErrVersion,
		shard.ErrNotOwned} {
		own = own || errors.Is(err, e)
	}
	if !own {
		return err
	}
	c.Outcome, c.Reason = CheckNotChecked, err.Error()
	return nil
}

// sleep waits by the machine's clock: runs take real time, even if sleeps are skipped.
func sleep(ctx context.Context, d time.Duration) error {
	t := clock.System().NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func digestOf(wasm []byte) store.Digest { return sha256.Sum256(wasm) }
