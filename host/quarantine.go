package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/wfhost/wfhost/host/internal/datadir"
	"github.com/wfhost/wfhost/host/internal/quarantine"
	"github.com/wfhost/wfhost/store"
)

// suspectTimes are the delays before runs that crash the process are tried again.
var suspectTimes = quarantine.DefaultTimes()

// Names of files in the data folder. That of the runs that compute has a suffix for a host of a cluster: hosts may share a
// folder.
const (
	runningName  = "running"
	suspectsName = "suspects.json"
)

// openWatch finds out how the previous process ended, makes runs stuck that crashed it repeatedly, and starts to watch the
// computing runs. Without a folder nothing is watched, nor by a host that is given a store and is alone: what computes is noted
// in the folder, and nothing says that the next host of the store has the same one. Neither does a host with a copy watch, in
// which no run computes.
func (h *Host) openWatch(ctx context.Context) error {
	cluster := h.cfg.Cluster
	if h.suspects != nil || h.copied || h.cfg.Dir == "" || !h.ownStore && cluster == nil {
		return nil
	}
	progress := func(run store.RunKey) (quarantine.Progress, error) { return h.progress(ctx, run) }
	cfg := quarantine.Config{Running: filepath.Join(h.cfg.Dir, runningName), Times: suspectTimes, Logger: h.cfg.Logger,
		Read: progress}
	if cluster == nil {
		cfg.Records = quarantine.File(filepath.Join(h.cfg.Dir, suspectsName), h.cfg.Logger)
	} else {
		name := sha256.Sum256([]byte(cluster.Name))
		cfg.Running += "-" + hex.EncodeToString(name[:8])
		cfg.Host, cfg.Records = cluster.Name, quarantine.Cells(h.store)
		lock, err := datadir.Lock(cfg.Running + ".lock")
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return &joined{fmt.Errorf("the notes of the host %q in the folder %s, which another process may have: %w", cluster.Name,
				h.cfg.Dir, err), ErrLocked}
		}
		h.watchLock = lock
	}
	watch, convicted, err := quarantine.Open(ctx, cfg)
	if err != nil {
		return err
	}
	h.suspects = watch
	for i := range convicted {
		if err := h.makeStuck(ctx, &convicted[i]); err != nil {
			return err
		}
	}
	return nil
}

// closeWatch says that the process has ended in order.
func (h *Host) closeWatch() error {
	err := h.suspects.Close()
	if h.watchLock != nil {
		err = errors.Join(err, h.watchLock.Close())
	}
	return err
}

// holdSuspects learns what other hosts of the cluster know of runs that crash hosts, before this host takes partitions, and makes
// those stuck there that have been convicted.
func (h *Host) holdSuspects(ctx context.Context, take []store.PartitionID) error {
	convicted, err := h.suspects.Refresh(ctx)
	if err != nil {
		return err
	}
	for i := range convicted {
		run := store.RunKey{Namespace: convicted[i].Namespace, ID: convicted[i].ID}
		if !slices.Contains(take, run.Partition()) {
			continue
		}
		if err := h.makeStuck(ctx, &convicted[i]); err != nil {
			return err
		}
		h.suspects.Forget(run)
	}
	return nil
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

// makeStuck makes a run stuck that makes no progress, durable on return. It touches no other partition or run, and is called
// before any run of the partition computes.
func (h *Host) makeStuck(ctx context.Context, r *quarantine.Record) error {
	run := store.RunKey{Namespace: r.Namespace, ID: r.ID}
	failed := func(err error) error {
		return fmt.Errorf("run %q, which %s, cannot be made stuck: %w", r.ID, r.Reason(), err)
	}
	name, ttl := owner(), time.Duration(0)
	if c := h.cfg.Cluster; c != nil {
		name, ttl = c.Name, c.Lease
	}
	p, err := h.store.Acquire(ctx, run.Partition(), name, ttl)
	if err != nil {
		return failed(err)
	}
	st, entries, err := h.store.Run(ctx, run)
	moved := err == nil && quarantine.ProgressOf(&st, entries) != r.At || errors.Is(err, store.ErrNotFound)
	if err == nil && !moved {
		st.Status, st.Reason, st.WakeUnixMs, st.UpdatedUnixMs = store.Stuck, r.Reason(), store.NoWake, h.cfg.Clock.Now().UnixMilli()
		err = p.Commit(ctx, []store.RunCommit{{Run: run, Expect: st.Length, State: st}})
	}
	if moved { // another host was faster, or somebody has deleted or repeated the run
		err = nil
	}
	if err := errors.Join(err, p.Release(ctx)); err != nil {
		return failed(err)
	}
	if moved {
		return nil
	}
	h.cfg.Logger.Error("run is stuck", "run", r.ID, "workflow", st.Workflow, "reason", st.Reason)
	if f := h.cfg.Events.RunStuck; f != nil {
		f(h.runOf(st))
	}
	return nil
}
