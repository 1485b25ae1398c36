package host

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/limits"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

const (
	// DefaultMaxRuns is the default limit of live runs in a namespace. It stops runs that start runs, at some
	// kilobytes of disk each; a million sleepers are ordinary use.
	DefaultMaxRuns = 10_000_000
	// MaxQuota is the greatest limit in a quota, far above what a host can reach.
	MaxQuota = 1_000_000_000_000_000
)

// Quota limits what a namespace may use. 0 is no limit; at most MaxQuota. Beyond a limit, new work is refused with a
// sentence that gives limit and use; work in progress continues. Each host of a Cluster has a part of MaxInstances and of what is
// counted per second, in proportion to its weight and at least 1. The parts are set anew when a host comes or goes.
type Quota struct {
	// MaxRuns limits the live runs. A start beyond it is ErrBusy. The start of a child beyond it fails the child,
	// with LIMIT for the parent workflow. A retry makes a run live again, and is not refused.
	MaxRuns int64 `json:"max_runs,omitempty"`
	// MaxBytes limits what the runs store, including ended runs: entries of their journals, output and lines of their
	// logs, before compression, each run rounded up to 4 KiB. Modules and indexes do not count. Beyond it starts are
	// refused as for MaxRuns, until runs are deleted; existing runs may continue to write.
	MaxBytes int64 `json:"max_bytes,omitempty"`
	// MaxInstances limits the concurrently computing guests. Further guests wait, and guests of other namespaces
	// overtake them.
	MaxInstances int64 `json:"max_instances,omitempty"`
	// StartsPerSecond limits starts, with a burst of the same number. Beyond it they are refused as for MaxRuns. A
	// run that continues as new counts as a start, and is never refused.
	StartsPerSecond int64 `json:"starts_per_second,omitempty"`
	// RequestsPerSecond limits the requests that the HTTP API answers for the namespace, with a burst of the same
	// number, except requests with the local token. Methods of this package do not count.
	RequestsPerSecond int64 `json:"requests_per_second,omitempty"`
	// WakesPerSecond limits the due timers of runs, with a burst of the same number: sleeps, timeouts, and delays of
	// retries. Beyond it runs wake later, in the order of their deadlines. Other namespaces are not delayed.
	WakesPerSecond int64 `json:"wakes_per_second,omitempty"`
	// BytesPerSecond limits what runs write: what MaxBytes counts, and some hundred bytes for each commit, with a
	// burst of the same number. Beyond it guests wait, and starts are refused as for MaxRuns, until the debt is paid;
	// a computing guest continues to its next wait.
	BytesPerSecond int64 `json:"bytes_per_second,omitempty"`
	// MaxSchedules limits the schedules, including ended ones. Beyond it a new schedule is ErrBusy; existing
	// schedules continue. Hosts that share a store may exceed it by one each.
	MaxSchedules int64 `json:"max_schedules,omitempty"`
	// MaxVersions limits the versions of all workflows. A version has a module of at most abi.MaxModuleBytes. Beyond
	// it uploads, and imports that bring a module, are ErrBusy. Hosts that share a store may exceed it by an upload
	// each.
	MaxVersions int64 `json:"max_versions,omitempty"`
}

// Usage is what a namespace uses.
type Usage struct {
	Runs      int64 `json:"runs"`      // live runs
	Bytes     int64 `json:"bytes"`     // as Quota.MaxBytes counts them
	Instances int   `json:"instances"` // guests that compute on this host
}

// of converts the quota for the store, or returns ErrInvalid.
func (q *Quota) of(ns store.NamespaceID) (store.Quota, error) {
	for _, x := range []struct {
		what  string
		limit int64
	}{{"runs", q.MaxRuns}, {"bytes", q.MaxBytes}, {"instances", q.MaxInstances}, {"starts a second", q.StartsPerSecond},
		{"requests a second", q.RequestsPerSecond}, {"wakes a second", q.WakesPerSecond},
		{"bytes a second", q.BytesPerSecond},
		{"schedules", q.MaxSchedules}, {"versions", q.MaxVersions}} {
		if x.limit < 0 || x.limit > MaxQuota {
			return store.Quota{}, &joined{fmt.Errorf("a quota of %s must be from 0 to %d, got %d", x.what, int64(MaxQuota), x.limit),
				ErrInvalid}
		}
	}
	return store.Quota{Namespace: ns, Runs: q.MaxRuns, Bytes: q.MaxBytes, Instances: q.MaxInstances, Starts: q.StartsPerSecond,
		Requests: q.RequestsPerSecond, Schedules: q.MaxSchedules, Wakes: q.WakesPerSecond,
		Versions: q.MaxVersions, Written: q.BytesPerSecond}, nil
}

func quotaOf(q store.Quota) Quota {
	return Quota{MaxRuns: q.Runs, MaxBytes: q.Bytes, MaxInstances: q.Instances, StartsPerSecond: q.Starts,
		RequestsPerSecond: q.Requests, MaxSchedules: q.Schedules, WakesPerSecond: q.Wakes,
		MaxVersions: q.Versions, BytesPerSecond: q.Written}
}

// openQuotas reads the quotas from the store.
func (h *Host) openQuotas(ctx context.Context) error {
	otherwise := Quota{MaxRuns: DefaultMaxRuns}
	if h.cfg.Quota != nil {
		otherwise = *h.cfg.Quota
	}
	all, err := otherwise.of(0)
	if err != nil {
		return fmt.Errorf("Config.Quota: %w", err)
	}
	set, err := h.store.Quotas(ctx)
	if err != nil {
		return err
	}
	used := func(ns store.NamespaceID) (store.Usage, error) { return h.store.Used(context.Background(), ns) }
	h.quotas = limits.NewQuotas(all, set, used)
	return nil
}

// SetQuota replaces the quota of a namespace, and creates the namespace if it does not exist. The zero Quota removes
// the quota, so that Config.Quota applies again. It is durable on return, and applies at once, on all hosts of a Cluster. Hosts
// that share the store otherwise apply it when they are opened. ErrInvalid for a limit out of range, ErrLimit if the store
// has quotas for too many namespaces.
func (h *Host) SetQuota(ctx context.Context, namespace string, q Quota) error {
	if _, err := q.of(0); err != nil {
		return err
	}
	n, err := h.Namespace(ctx, namespace)
	if err != nil {
		return err
	}
	ns, err := n.id(ctx, q != Quota{})
	if err != nil {
		return translate(err)
	}
	x, err := q.of(ns)
	if err != nil {
		return err
	}
	if err := h.setQuota(ctx, x); err != nil {
		if errors.Is(err, store.ErrTooLarge) {
			return &joined{err, ErrLimit}
		}
		return translate(err)
	}
	return translate(h.member.barrier(ctx))
}

func (h *Host) setQuota(ctx context.Context, x store.Quota) error {
	h.setting.Lock()
	defer h.setting.Unlock()
	if err := h.store.SetQuota(ctx, x); err != nil {
		return err
	}
	h.quotas.Set(x)
	h.rt.QuotasChanged()
	return nil
}

// applySettings reads again what another host may have changed.
func (h *Host) applySettings(ctx context.Context) error {
	h.setting.Lock()
	defer h.setting.Unlock()
	list, err := h.store.Quotas(ctx)
	if err != nil {
		return err
	}
	h.quotas.Replace(list)
	h.rt.QuotasChanged()
	h.iterations.Changed()
	if err := h.handlerLimiter.Reload(ctx); err != nil {
		return err
	}
	return h.openNamespaces(ctx)
}

// Quota returns the quota of the namespace: the one of SetQuota, or else Config.Quota.
func (s *scope) Quota(ctx context.Context) (Quota, error) {
	ns, err := s.id(ctx, false)
	if err != nil {
		return Quota{}, translate(err)
	}
	return quotaOf(s.h.quotas.Of(ns)), nil
}

// RequestsPerSecond returns how many requests a second the HTTP API of this host may answer for the namespace: its part of
// Quota.RequestsPerSecond. 0 means that there is no limit.
func (s *scope) RequestsPerSecond(ctx context.Context) (int64, error) {
	ns, err := s.id(ctx, false)
	if err != nil {
		return 0, translate(err)
	}
	return s.h.quotas.Requests(ns), nil
}

// Name returns the name of the namespace, "default" for the namespace of Host's own methods.
func (s *scope) Name() string { return s.title() }

func (s *nsRef) title() string {
	if s.name == "" {
		return store.DefaultNamespace
	}
	return s.name
}

// Usage returns what the namespace uses. The numbers are maintained as runs change, so the call takes constant time.
func (s *scope) Usage(ctx context.Context) (Usage, error) {
	ns, err := s.id(ctx, false)
	if err != nil {
		return Usage{}, translate(err)
	}
	return s.h.usageOf(ctx, ns)
}

func (h *Host) usageOf(ctx context.Context, ns store.NamespaceID) (Usage, error) {
	u, err := h.store.Used(ctx, ns)
	return Usage{Runs: u.Runs, Bytes: u.Bytes, Instances: h.quotas.Computing(ns)}, translate(err)
}

// admit admits a new run, or returns an *abi.Error that names the exceeded quota.
func (h *Host) admit(ns store.NamespaceID) (leave func(), err error) {
	return h.quotas.Start(ns, h.cfg.Clock.Now())
}

// admitStart is admit for a start from outside. It always admits a start that only returns the existing run or
// replaces a live run.
func (h *Host) admitStart(ctx context.Context, key store.RunKey, conflict ConflictPolicy) (leave func(), err error) {
	leave, err = h.admit(key.Namespace)
	if err == nil {
		return leave, nil
	}
	st, missing := h.rt.Runs.State(ctx, key)
	there := missing == nil && !st.Deleted
	if there && (conflict == ConflictExisting || conflict == run.ConflictMove ||
		conflict == ConflictTerminate && !st.Status.Terminal()) {
		return func() {}, nil
	}
	return nil, translate(busy(err))
}

// slowly returns err, delayed if it is the refusal of a quota, so that callers which retry in a loop take little from
// other callers. began is when the request began. The caller must hold no locks or slots.
func (s *nsRef) slowly(ctx context.Context, began time.Time, err error) error {
	if e, ok := errors.AsType[*abi.Error](err); ok && e.Kind == limits.QuotaKind {
		s.h.refusals.Delay(ctx, s.name, clock.System().Now().Sub(began))
	}
	return err
}

// continued counts continue-as-new as a start.
func (h *Host) continued(c *store.RunCommit) {
	if c.Before != nil {
		h.quotas.Continued(c.Run.Namespace, h.cfg.Clock.Now())
	}
}

// admitSchedule admits a new schedule. It returns an error if the quota is exhausted, or if ctx ended while other
// schedules of the namespace were created. The caller calls leave once the creation has succeeded or failed.
func (s *nsRef) admitSchedule(ctx context.Context, key store.RunKey) (leave func(), err error) {
	limit := s.h.quotas.Of(key.Namespace).Schedules
	if limit == 0 {
		return func() {}, nil
	}
	lock := s.h.scheduling[int(key.Namespace)%len(s.h.scheduling)]
	if err := lock.Acquire(ctx, 1); err != nil {
		return nil, translate(err)
	}
	n, err := int64(0), error(nil)
	for after := ""; err == nil && n < limit; {
		var page []store.Schedule
		page, err = s.h.store.Schedules(ctx, store.ScheduleQuery{Namespace: key.Namespace, After: after, Limit: store.MaxPage})
		if len(page) == 0 {
			break
		}
		n, after = n+int64(len(page)), page[len(page)-1].Key.ID
	}
	if err == nil && n >= limit {
		if _, there := s.h.store.Schedule(ctx, key); there != nil { // a conflict is the better error for a second creation
			err = busy(limits.QuotaRefusal("the namespace has %d schedules or more, its quota is %d; delete some", n, limit))
		}
	}
	if err != nil {
		lock.Release(1)
		return nil, translate(err)
	}
	return func() { lock.Release(1) }, nil
}

// roomForModule returns an error if the namespace has used up its quota of versions and the module is new, so that it
// need not be compiled. A module that the store has may belong to an existing version.
func (s *nsRef) roomForModule(ctx context.Context, wasm []byte) error {
	ns, err := s.id(ctx, false)
	quota := s.h.quotas.Of(ns).Versions
	switch {
	case errors.Is(err, store.ErrNotFound) || err == nil && quota == 0:
		return nil
	case err != nil:
		return err
	}
	_, err = s.h.store.Modules().Info(ctx, sha256.Sum256(wasm))
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return s.moreVersions(ctx, ns, quota, 1)
}

// roomForVersions returns an error if the versions would exceed the quota of a namespace. Existing versions do not
// count.
func (s *nsRef) roomForVersions(ctx context.Context, ns store.NamespaceID, specs []store.VersionSpec) error {
	quota := s.h.quotas.Of(ns).Versions
	if quota == 0 {
		return nil
	}
	m, more := s.h.store.Modules(), int64(0)
	for _, x := range specs {
		v, err := m.Version(ctx, ns, x.Workflow, 0)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if err != nil || x.Imported || v.Module != x.Module || !v.Grants.Equal(x.Grants) {
			more++
		}
	}
	return s.moreVersions(ctx, ns, quota, more)
}

// moreVersions returns an error if this many more versions would exceed the quota of a namespace.
func (s *nsRef) moreVersions(ctx context.Context, ns store.NamespaceID, limit, more int64) error {
	if more == 0 {
		return nil
	}
	n, err := s.h.store.Modules().Count(ctx, ns)
	if err != nil || n+more <= limit {
		return err
	}
	return busy(limits.QuotaRefusal("more versions would pass the quota of %d that the namespace has; delete some that no run "+
		"needs", limit))
}
