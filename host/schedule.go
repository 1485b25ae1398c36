package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	_ "time/tzdata" // for systems without a database of time zones

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/cron"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/limits"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/schedule"
	"github.com/wfhost/wfhost/host/internal/shard"
	"github.com/wfhost/wfhost/store"
)

// Limits of schedules.
const (
	// MaxScheduleID bounds the id of a schedule, in bytes. The ids of its runs contain it.
	MaxScheduleID = schedule.MaxIDBytes
	// MaxScheduleInput bounds the input of a schedule's runs, in bytes.
	MaxScheduleInput = schedule.MaxInputBytes
	// DefaultCatchUp is the default of ScheduleSpec.CatchUp.
	DefaultCatchUp = schedule.DefaultCatchUp
	// MaxScheduleNext bounds the results of Schedules.Next and ScheduleSpec.Next.
	MaxScheduleNext = 1000
	// MaxSchedules bounds a page of Schedules.
	MaxSchedules = store.MaxPage
)

// Overlap is the policy of a schedule for instants at which its previous run has not ended, such as OverlapSkip.
type Overlap = schedule.Overlap

// The policies.
const (
	OverlapSkip           = schedule.Skip           // starts nothing; the default
	OverlapBufferOne      = schedule.BufferOne      // one start waits for the end of the run; further ones are skipped
	OverlapBufferAll      = schedule.BufferAll      // all starts wait, up to 1,000, one after the other
	OverlapAllow          = schedule.AllowAll       // starts the run concurrently
	OverlapCancelOther    = schedule.CancelOther    // cancels the live run, and the start waits for its end
	OverlapTerminateOther = schedule.TerminateOther // terminates the live run
)

// ScheduleSpec says what a schedule starts, and when.
type ScheduleSpec struct {
	// Workflow is the workflow to start, in its latest version at each start, or in Version. It need not exist yet.
	Workflow string
	Version  uint32
	// Input is the input of each run, as StartRaw takes it; at most MaxScheduleInput bytes.
	Input []byte
	// Attributes are the attributes of each run.
	Attributes map[string]string
	Memo       json.RawMessage // of each run: see WithMemo
	// Timeout bounds each run: see WithTimeout. 0 = none.
	Timeout time.Duration
	// When is a cron expression, an interval, an instant, or an ISO 8601 duration or repeating interval: see cron.Parse.
	When string
	// Zone is the time zone of When, such as "Europe/Berlin"; empty = UTC.
	Zone string
	// Jitter delays each start by up to this long, but by less than the time to the next instant. It is deterministic
	// for a schedule and instant. At most 24 h; 0 = none.
	Jitter time.Duration
	// Overlap is the policy for instants that come before a run has ended. Default OverlapSkip.
	Overlap Overlap
	// CatchUp is how late an instant may still be started, if the host was down or the start was refused. After that
	// it is missed, and listed in Schedule.NotStarted. At least 10 s; 0 = DefaultCatchUp.
	CatchUp time.Duration
	// From and Until bound the instants, both inclusive; zero = from now, and without end.
	From, Until time.Time
	// Runs is the number of instants to start, not counting triggers and backfills; 0 = any number.
	Runs int64
	// Priority is the priority of each run in the queue for a slot: see WithPriority.
	Priority int
	// Revision is the number of the spec, from 1 at the creation of the schedule. Schedules.Update fails unless it is
	// the current revision; 0 = any. So a read-modify-write overwrites no concurrent change. Schedules.Create ignores
	// it.
	Revision uint64
}

// Schedule is the current state of a schedule. Instants that do not apply are zero.
type Schedule struct {
	Namespace string // empty in the default namespace
	ID        string
	Spec      ScheduleSpec
	Created   time.Time
	Updated   time.Time // of the spec
	Paused    bool
	Note      string // of the newest Pause or Resume
	Ended     bool   // starts no more runs by itself
	// Next is the next instant. Wake is when the schedule next acts: Next plus jitter, or the retry of a refused
	// start.
	Next, Wake time.Time
	// Started is how many runs it has started, Skipped how many instants the overlap policy skipped, and Missed how
	// many other instants were not started.
	Started, Skipped, Missed int64
	Running                  []string           // runs that have not ended, the newest 100
	Waiting                  []time.Time        // instants that wait for the end of a run
	Recent                   []ScheduledRun     // the newest 10 runs
	NotStarted               []ScheduleMiss     // the newest 20 skipped or missed instants
	Backfills                []ScheduleBackfill // ranges in progress
	Error                    string             // of the newest start, if it was refused
}

// ScheduledRun is a run that a schedule has started.
type ScheduledRun struct {
	Nominal time.Time `json:"nominal"`        // the instant that it was started for
	Kind    string    `json:"kind,omitempty"` // trigger or backfill; otherwise empty
	Run     string    `json:"run"`
	Started time.Time `json:"started"`
}

// ScheduleMiss is one or more instants in a row that were not started for the same reason.
type ScheduleMiss struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Count  int64     `json:"count"`
	More   bool      `json:"more,omitempty"` // some more instants were not counted
	Reason string    `json:"reason"`
	Policy bool      `json:"policy,omitempty"` // skipped by the overlap policy
}

// ScheduleBackfill is a backfill in progress: the instants after After, up to To.
type ScheduleBackfill struct {
	After time.Time `json:"after"`
	To    time.Time `json:"to"`
	All   bool      `json:"all,omitempty"` // concurrently
}

// ScheduleInstant is an instant at which a schedule is due.
type ScheduleInstant struct {
	Nominal time.Time `json:"nominal"`
	Start   time.Time `json:"start"` // Nominal plus jitter
}

// definition converts the spec to an internal definition.
func (s *ScheduleSpec) definition() schedule.Definition {
	ms := func(t time.Time) int64 {
		if t.IsZero() {
			return 0
		}
		return t.UnixMilli()
	}
	from := ms(s.From)
	if from != 0 {
		from = roundedUp(s.From)
	}
	return schedule.Definition{Workflow: s.Workflow, Version: s.Version, Input: s.Input, Attributes: s.Attributes,
		Memo: s.Memo, TimeoutMs: abi.Milliseconds(s.Timeout), When: s.When, Zone: s.Zone, JitterMs: abi.Milliseconds(s.Jitter),
		Overlap: s.Overlap, CatchUpMs: abi.Milliseconds(s.CatchUp), FromMs: from, UntilMs: ms(s.Until), Runs: s.Runs,
		Priority: s.Priority}
}

// Check returns ErrInvalid for an invalid spec, as Schedules.Create does. It does not check whether the spec is ever
// due.
func (s ScheduleSpec) Check() error {
	d := s.definition()
	if err := d.Check(); err != nil {
		return translate(err)
	}
	return translate(limits.CheckPriority(d.Priority))
}

// Next returns up to n instants, later than after, at which a schedule with this spec is due, without jitter. ErrInvalid
// if the spec is invalid. n is at most MaxScheduleNext.
func (s ScheduleSpec) Next(after time.Time, n int) ([]time.Time, error) {
	times, err := cron.Parse(s.When, s.Zone)
	if err != nil {
		return nil, &joined{err, ErrInvalid}
	}
	var list []time.Time
	if before := s.From.Add(-1); !s.From.IsZero() && before.After(after) {
		after = before
	}
	for len(list) < min(n, MaxScheduleNext) {
		at, ok := times.Next(after)
		if !ok || !s.Until.IsZero() && at.After(s.Until) || s.Runs > 0 && int64(len(list)) == s.Runs {
			break
		}
		list, after = append(list, at), at
	}
	return list, nil
}

// roundedUp rounds an instant up to milliseconds.
func roundedUp(t time.Time) int64 { return t.Add(time.Millisecond - 1).UnixMilli() }

func instantOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return abi.TimeOf(ms)
}

// scheduleOf converts a stored schedule.
func (h *Host) scheduleOf(x *schedule.Stored) Schedule {
	d := &x.Definition
	out := Schedule{Namespace: h.nameOf(x.Key.Namespace), ID: x.Key.ID, Created: abi.TimeOf(x.CreatedMs),
		Updated: abi.TimeOf(x.UpdatedMs), Paused: x.Paused, Note: x.Note, Ended: x.Ended(),
		Started: x.Started, Skipped: x.Skipped, Missed: x.Lost, Running: x.Running, Error: x.Error}
	out.Spec = ScheduleSpec{Workflow: d.Workflow, Version: d.Version, Input: d.Input, Attributes: d.Attributes,
		Memo: d.Memo, Timeout: abi.Duration(d.TimeoutMs), When: d.When, Zone: d.Zone, Jitter: abi.Duration(d.JitterMs),
		Overlap: d.Overlap, CatchUp: abi.Duration(d.CatchUpMs), From: instantOf(d.FromMs), Until: instantOf(d.UntilMs), Runs: d.Runs,
		Priority: d.Priority, Revision: x.Revision}
	if next := x.Upcoming(x.Key.ID, h.cfg.Clock.Now().UnixMilli(), 1); len(next) > 0 && !x.Paused {
		out.Next = abi.TimeOf(next[0][0])
	}
	if wake := x.Wake(x.Key.ID, h.cfg.Clock.Now().UnixMilli()); wake != store.NoWake {
		out.Wake = abi.TimeOf(wake)
	}
	for _, in := range x.Buffer {
		out.Waiting = append(out.Waiting, abi.TimeOf(in.AtMs))
	}
	for _, f := range x.Recent {
		out.Recent = append(out.Recent, ScheduledRun{abi.TimeOf(f.AtMs), string(f.Kind), f.Run, abi.TimeOf(f.StartedMs)})
	}
	for _, m := range x.State.Missed {
		out.NotStarted = append(out.NotStarted, ScheduleMiss{abi.TimeOf(m.AtMs), abi.TimeOf(m.LastMs), m.Count, m.More, m.Reason,
			m.Skip})
	}
	for _, b := range x.State.Backfills {
		out.Backfills = append(out.Backfills, ScheduleBackfill{abi.TimeOf(b.AfterMs), abi.TimeOf(b.ToMs), b.All})
	}
	return out
}

// scheduleKey returns the key of a schedule. It checks the id and, if acts is set, that the host may act.
func (s *nsRef) scheduleKey(ctx context.Context, id string, acts bool) (store.RunKey, error) {
	if err := schedule.CheckID(id); err != nil {
		return store.RunKey{}, err
	}
	if acts {
		if err := s.h.refuseCopy(); err != nil {
			return store.RunKey{}, err
		}
	}
	return s.key(ctx, id)
}

// shown converts a stored schedule and its error for the caller.
func (s *nsRef) shown(x *schedule.Stored, err error) (Schedule, error) {
	if err != nil {
		return Schedule{}, translate(err)
	}
	return s.h.scheduleOf(x), nil
}

// Create creates a schedule under an id of at most MaxScheduleID of A-Z a-z 0-9 . _ : ~ -. It starts instants
// from now on. Durable on return. ErrInvalid if the spec is invalid or never due, also as a *SchemaError if the input
// does not fit the current workflow, ErrConflict if the id is taken, ErrBusy if the namespace has used up its quota
// of schedules, ErrDiskFull if the disk has no room for new work.
func (s Schedules) Create(ctx context.Context, id string, spec ScheduleSpec) (Schedule, error) {
	began := clock.System().Now()
	if err := s.h.roomOnDisk(len(spec.Input)); err != nil {
		return Schedule{}, err
	}
	key, err := s.scheduleKey(ctx, id, true)
	if err != nil {
		return Schedule{}, translate(err)
	}
	if err := s.startable(ctx, &spec); err != nil {
		return Schedule{}, err
	}
	leave, err := s.admitSchedule(ctx, key)
	if err != nil {
		return Schedule{}, s.slowly(ctx, began, err)
	}
	defer leave()
	return s.shown(s.h.keeper.Create(ctx, key, spec.definition(), "", false))
}

// Update replaces the whole spec of a schedule. If When, Zone or From change, the new spec starts only
// instants from now on; otherwise no instant is lost. Waiting starts, counts and pauses stay. Durable on return.
// ErrNotFound if there is no such schedule, ErrConflict if its spec has another revision than spec.Revision.
func (s Schedules) Update(ctx context.Context, id string, spec ScheduleSpec) (Schedule, error) {
	key, err := s.scheduleKey(ctx, id, true)
	if err != nil {
		return Schedule{}, translate(err)
	}
	if err := s.startable(ctx, &spec); err != nil {
		return Schedule{}, err
	}
	return s.shown(s.h.keeper.Update(ctx, key, spec.Revision, func(d *schedule.Definition) error {
		*d = spec.definition()
		return nil
	}))
}

// startable returns an error if a run would be refused now, because the input does not fit the workflow's schema.
// Input and schema may change before the schedule is due, so each start is checked again. The workflow may be
// uploaded later.
func (s *nsRef) startable(ctx context.Context, spec *ScheduleSpec) error {
	if err := limits.CheckPriority(spec.Priority); err != nil {
		return translate(err)
	}
	v, err := (Workflows{s}).Version(ctx, spec.Workflow, spec.Version)
	if err != nil {
		return nil //nolint:nilerr // the definition, or the start, says what is wrong with the workflow
	}
	return s.fitting(ctx, &run.NewRun{Workflow: spec.Workflow, Input: spec.Input}, v.Module, &start{})
}

// Pause pauses a schedule until Schedules.Resume, with a note of at most 1,024 bytes that says why. Instants
// during the pause are skipped, and not listed as missed. Its runs continue, and triggers and backfills still start
// runs. Durable on return.
func (s Schedules) Pause(ctx context.Context, id, note string) (Schedule, error) {
	key, err := s.scheduleKey(ctx, id, true)
	if err != nil {
		return Schedule{}, translate(err)
	}
	return s.shown(s.h.keeper.Pause(ctx, key, note))
}

// Resume resumes a paused schedule, with instants from now on. Durable on return.
func (s Schedules) Resume(ctx context.Context, id, note string) (Schedule, error) {
	key, err := s.scheduleKey(ctx, id, true)
	if err != nil {
		return Schedule{}, translate(err)
	}
	return s.shown(s.h.keeper.Resume(ctx, key, note))
}

// Delete removes a schedule. Its runs continue. Durable on return. ErrNotFound if there is none.
func (s Schedules) Delete(ctx context.Context, id string) error {
	key, err := s.scheduleKey(ctx, id, true)
	if err == nil {
		err = s.h.keeper.Delete(ctx, key)
	}
	return translate(err)
}

// Get returns the current state of a schedule. ErrNotFound if there is none.
func (s Schedules) Get(ctx context.Context, id string) (Schedule, error) {
	key, err := s.scheduleKey(ctx, id, false)
	if err != nil {
		return Schedule{}, translate(err)
	}
	return s.shown(s.h.keeper.Get(ctx, key))
}

// Next returns the next instants of a schedule: at most n, and at most MaxScheduleNext.
func (s Schedules) Next(ctx context.Context, id string, n int) ([]ScheduleInstant, error) {
	key, err := s.scheduleKey(ctx, id, false)
	if err != nil {
		return nil, translate(err)
	}
	x, err := s.h.keeper.Get(ctx, key)
	if err != nil {
		return nil, translate(err)
	}
	list := []ScheduleInstant{}
	for _, at := range x.Upcoming(id, s.h.cfg.Clock.Now().UnixMilli(), min(n, MaxScheduleNext)) {
		list = append(list, ScheduleInstant{abi.TimeOf(at[0]), abi.TimeOf(at[1])})
	}
	return list, nil
}

// scheduler is the host as its schedules see it.
type scheduler Host

// StartRun starts a run of a schedule.
func (h *scheduler) StartRun(ctx context.Context, key store.RunKey, d *schedule.Definition, run string,
	in schedule.Instant) (live bool, err error) {
	r, err := (*Host)(h).scopeOf(key.Namespace).StartRaw(ctx, d.Workflow, d.Input, func(o *start) {
		*o = start{id: run, version: d.Version, timeoutMs: d.TimeoutMs, attributes: d.Attributes, schedule: key.ID,
			nominalMs: in.AtMs, priority: d.Priority, memo: d.Memo}
	})
	if err != nil && !errors.Is(err, ErrConflict) {
		return false, refusedStart(err)
	}
	if err == nil && !r.Existed {
		return !r.Status.Terminal(), nil
	}
	// The id is taken, perhaps by an earlier try of this start.
	if found, err := h.Find(ctx, key, run); err == nil && found != nil && found.AtMs == in.AtMs {
		return found.Live, nil
	}
	return false, &joined{fmt.Errorf("the id %s is taken by another run", run), schedule.ErrNever}
}

// refusedStart converts the error of a start for its schedule.
func refusedStart(err error) error {
	switch {
	case err == nil:
	case errors.Is(err, ErrBusy): // over a quota, or the disk is full
		return &joined{err, schedule.ErrLater}
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrInvalid), errors.Is(err, ErrLimit),
		errors.Is(err, store.ErrCorrupt):
		return &joined{err, schedule.ErrNever}
	}
	return err
}

// Startable returns why a run of a definition cannot be started: its version is missing, or the input does not fit.
func (h *scheduler) Startable(ctx context.Context, key store.RunKey, d *schedule.Definition) error {
	s := (*Host)(h).scopeOf(key.Namespace)
	v, err := h.store.Modules().Version(ctx, key.Namespace, d.Workflow, d.Version)
	if err == nil {
		err = s.fitting(ctx, &run.NewRun{Key: key, Workflow: d.Workflow, Input: d.Input}, v.Module, &start{})
	}
	return refusedStart(translate(err))
}

// Find returns the run of an id if the schedule started it, including deleted runs; otherwise nil.
func (h *scheduler) Find(ctx context.Context, key store.RunKey, run string) (*schedule.Found, error) {
	st, err := h.store.State(ctx, store.RunKey{Namespace: key.Namespace, ID: run})
	if errors.Is(err, store.ErrNotFound) || err == nil && st.Schedule != key.ID {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// An imported run was started by a schedule of another installation.
	return &schedule.Found{AtMs: st.NominalUnixMs, CreatedMs: st.CreatedUnixMs,
		Live: !st.Deleted && !st.Status.Terminal() && st.Aside == store.NotAside && st.Import == ""}, nil
}

// scopeOf returns a namespace by its number.
func (h *Host) scopeOf(ns store.NamespaceID) *scope {
	s := &scope{nsRef{h: h, name: h.nameOf(ns)}}
	s.number.Store(uint64(ns) + 1)
	return s
}

// Live reports whether a run has not ended, and has not moved elsewhere.
func (h *scheduler) Live(ctx context.Context, run store.RunKey) (bool, error) {
	st, err := h.store.State(ctx, run)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil && !st.Deleted && !st.Status.Terminal() && st.Aside == store.NotAside, err
}

// CancelRun cancels a run that has not ended.
func (h *scheduler) CancelRun(ctx context.Context, key store.RunKey) error {
	_, err := h.rt.Runs.Change(ctx, key, run.Cancel{})
	return unlessEnded(err)
}

// TerminateRun terminates a run that has not ended.
func (h *scheduler) TerminateRun(ctx context.Context, key store.RunKey) error {
	_, err := h.rt.Runs.Change(ctx, key, run.Terminate{})
	return unlessEnded(err)
}

func unlessEnded(err error) error {
	if isEnded(translate(err)) {
		return nil
	}
	return err
}

// Owned returns a partition.
func (h *scheduler) Owned(p store.PartitionID) store.Partition { return h.rt.Partitions.Get(p) }

// Arm sets the wake of a schedule.
func (h *scheduler) Arm(key store.RunKey, wakeMs int64, err error) {
	h.rt.Partitions.Arm(shard.TimerKey{Kind: store.WakeSchedule, Run: key}, wakeMs, err)
}

// StoreFailed stops the host.
func (h *scheduler) StoreFailed(err error) { h.rt.Fail(err) }
