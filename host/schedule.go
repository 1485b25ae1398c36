package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	_ "time/tzdata" // zones are there also where the system has none

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/cron"
	"github.com/wfhost/wfhost/host/internal/budget"
	"github.com/wfhost/wfhost/host/internal/limit"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/schedule"
	"github.com/wfhost/wfhost/host/internal/wake"
	"github.com/wfhost/wfhost/store"
)

// Limits of schedules.
const (
	// MaxScheduleID bounds the id of a schedule, in bytes. The ids of its runs are made of it.
	MaxScheduleID = schedule.MaxIDBytes
	// MaxScheduleInput bounds the input that a schedule gives to its runs, in bytes.
	MaxScheduleInput = schedule.MaxInputBytes
	// DefaultCatchUp is how long after its time an instant is made up for, unless a schedule says otherwise.
	DefaultCatchUp = schedule.DefaultCatchUp
	// MaxScheduleNext bounds what ScheduleNext and ScheduleSpec.Next return.
	MaxScheduleNext = 1000
	// MaxSchedules bounds a page of Schedules.
	MaxSchedules = store.MaxPage
)

// Overlap says what a schedule does at an instant when its previous run has not ended, such as OverlapSkip.
type Overlap = schedule.Overlap

// The policies.
const (
	OverlapSkip           = schedule.Skip           // nothing is started; the default
	OverlapBufferOne      = schedule.BufferOne      // one start waits for the end of the run, others are skipped
	OverlapBufferAll      = schedule.BufferAll      // all starts wait, up to 1,000, one after the other
	OverlapAllow          = schedule.AllowAll       // it is started beside the others
	OverlapCancelOther    = schedule.CancelOther    // the run is cancelled, and the start waits for its end
	OverlapTerminateOther = schedule.TerminateOther // the run is terminated
)

// ScheduleSpec says what a schedule starts when.
type ScheduleSpec struct {
	// Workflow is started, in its latest version at each start, or in Version. It need not exist yet.
	Workflow string
	Version  uint32
	// Input is that of each run, as StartRaw takes it; at most MaxScheduleInput bytes.
	Input []byte
	// Attributes are those of each run.
	Attributes map[string]string
	Memo       json.RawMessage // of each run: see WithMemo
	// Timeout bounds each run: see WithTimeout. 0 = none.
	Timeout time.Duration
	// When is a cron expression, an interval, an instant, or an ISO 8601 duration or repeating interval: see cron.Parse.
	When string
	// Zone is the time zone of When, such as "Europe/Berlin"; empty = UTC.
	Zone string
	// Jitter delays each start by up to this long, and less than until the next instant. It is the same for the same schedule and
	// instant. At most 24 h; 0 = none.
	Jitter time.Duration
	// Overlap is the policy for instants that come before a run has ended. Default OverlapSkip.
	Overlap Overlap
	// CatchUp is how long after its time an instant is still started, if the host was down or the start was refused. Later than
	// that it is missed, which the schedule lists. At least 10 s; 0 = DefaultCatchUp.
	CatchUp time.Duration
	// From and Until bound the instants, both included; zero = from now, and for ever.
	From, Until time.Time
	// Runs is how many instants are started, those of triggers and backfills not counted; 0 = any number.
	Runs int64
	// Priority is that of each run among those that wait for a slot: see WithPriority.
	Priority int
	// Revision is the number of the spec: 1 is the one with which the schedule was created. UpdateSchedule replaces the spec with
	// this number, and no other one; 0 = any. So what was read, changed and written undoes no change of others. CreateSchedule
	// ignores it.
	Revision uint64
}

// Schedule is a schedule as it stands. Instants are zero where there is none.
type Schedule struct {
	Namespace string // empty in the default namespace
	ID        string
	Spec      ScheduleSpec
	Created   time.Time
	Updated   time.Time // the spec
	Paused    bool
	Note      string // of the newest Pause or Resume
	Ended     bool   // it starts nothing any more by itself
	// Next is the next instant, and Wake when something is done next: the jitter later, or when a refused start is retried.
	Next, Wake time.Time
	// Started is how many runs it has started, Skipped how many instants its overlap policy has left out, and Missed how many others
	// were not started.
	Started, Skipped, Missed int64
	Running                  []string           // runs that have not ended, the newest 100
	Waiting                  []time.Time        // instants that wait for the end of a run
	Recent                   []ScheduledRun     // the newest 10 runs
	NotStarted               []ScheduleMiss     // the newest 20 that were skipped or missed
	Backfills                []ScheduleBackfill // ranges that are being filled
	Error                    string             // of the newest start, if it was refused
}

// ScheduledRun is a run that a schedule has started.
type ScheduledRun struct {
	Nominal time.Time `json:"nominal"`        // the instant for which it was started
	Kind    string    `json:"kind,omitempty"` // trigger or backfill; empty for the others
	Run     string    `json:"run"`
	Started time.Time `json:"started"`
}

// ScheduleMiss is one or more instants in a row that were not started for the same reason.
type ScheduleMiss struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Count  int64     `json:"count"`
	More   bool      `json:"more,omitempty"` // there were more than were counted
	Reason string    `json:"reason"`
	Policy bool      `json:"policy,omitempty"` // they were skipped by the overlap policy
}

// ScheduleBackfill is a range that is being filled: the instants after one, up to another one.
type ScheduleBackfill struct {
	After time.Time `json:"after"`
	To    time.Time `json:"to"`
	All   bool      `json:"all,omitempty"` // beside each other
}

// ScheduleInstant is one at which a schedule is due.
type ScheduleInstant struct {
	Nominal time.Time `json:"nominal"`
	Start   time.Time `json:"start"` // later by the jitter
}

// definition returns what the inside takes.
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

// Check returns ErrInvalid for a spec that cannot be, as CreateSchedule does. Whether it is ever due is not looked at.
func (s ScheduleSpec) Check() error {
	d := s.definition()
	if err := d.Check(); err != nil {
		return translate(err)
	}
	return translate(limit.CheckPriority(d.Priority))
}

// Next returns at most n instants after one at which a schedule with this spec is due, without jitter. ErrInvalid if the spec is
// wrong. n is at most MaxScheduleNext.
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

// roundedUp returns the first millisecond that is not before an instant.
func roundedUp(t time.Time) int64 { return t.Add(time.Millisecond - 1).UnixMilli() }

func instantOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return abi.TimeOf(ms)
}

// scheduleOf shows a schedule.
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

// scheduleKey returns the key of a schedule, if its id can be one and the host may act.
func (s *scope) scheduleKey(ctx context.Context, id string, acts bool) (store.RunKey, error) {
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

// shown shows what a call has returned.
func (s *scope) shown(x *schedule.Stored, err error) (Schedule, error) {
	if err != nil {
		return Schedule{}, translate(err)
	}
	return s.h.scheduleOf(x), nil
}

// CreateSchedule makes a schedule under an id of at most MaxScheduleID of A-Z a-z 0-9 . _ : ~ -. It starts what is due from
// now on. Durable on return. ErrInvalid if the spec is wrong or never due, also a *SchemaError if the input does not fit the
// workflow as it is, ErrConflict if there is a schedule of the id, ErrBusy if the namespace has as many as its
// quota allows, ErrDiskFull if the disk has no room for new work.
func (s *scope) CreateSchedule(ctx context.Context, id string, spec ScheduleSpec) (Schedule, error) {
	began := budget.Clock.Now()
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

// UpdateSchedule replaces the whole spec of a schedule. If When, Zone or From are others,
// only instants from now on are started by the new spec; otherwise nothing is left out. What waits, counts and pauses stays.
// Durable on return. ErrNotFound if there is no such schedule, ErrConflict if its spec has another revision than spec.Revision.
func (s *scope) UpdateSchedule(ctx context.Context, id string, spec ScheduleSpec) (Schedule, error) {
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

// startable reports that a schedule could not start runs as things are, since the input does not fit the workflow's schema.
// Both may change before it is due, so its starts are checked again. A workflow may be uploaded later than its schedule is made.
func (s *scope) startable(ctx context.Context, spec *ScheduleSpec) error {
	if err := limit.CheckPriority(spec.Priority); err != nil {
		return translate(err)
	}
	v, err := s.Workflow(ctx, spec.Workflow, spec.Version)
	if err != nil {
		return nil //nolint:nilerr // the definition, or the start, says what is wrong with the workflow
	}
	return s.fitting(ctx, &run.NewRun{Workflow: spec.Workflow, Input: spec.Input}, v.Module, &start{})
}

// PauseSchedule stops a schedule until ResumeSchedule, with a note of at most 1,024 bytes that says why. Instants that come
// meanwhile are left out, and are not listed as missed. Its runs continue. Triggers and backfills are started. Durable on return.
func (s *scope) PauseSchedule(ctx context.Context, id, note string) (Schedule, error) {
	key, err := s.scheduleKey(ctx, id, true)
	if err != nil {
		return Schedule{}, translate(err)
	}
	return s.shown(s.h.keeper.Pause(ctx, key, note))
}

// ResumeSchedule lets a paused schedule continue with what is due from now on. Durable on return.
func (s *scope) ResumeSchedule(ctx context.Context, id, note string) (Schedule, error) {
	key, err := s.scheduleKey(ctx, id, true)
	if err != nil {
		return Schedule{}, translate(err)
	}
	return s.shown(s.h.keeper.Resume(ctx, key, note))
}

// DeleteSchedule removes a schedule. Its runs continue. Durable on return. ErrNotFound if there is none.
func (s *scope) DeleteSchedule(ctx context.Context, id string) error {
	key, err := s.scheduleKey(ctx, id, true)
	if err == nil {
		err = s.h.keeper.Delete(ctx, key)
	}
	return translate(err)
}

// GetSchedule returns a schedule as it stands. ErrNotFound if there is none.
func (s *scope) GetSchedule(ctx context.Context, id string) (Schedule, error) {
	key, err := s.scheduleKey(ctx, id, false)
	if err != nil {
		return Schedule{}, translate(err)
	}
	return s.shown(s.h.keeper.Get(ctx, key))
}

// ScheduleNext returns the next instants of a schedule, at most n, or MaxScheduleNext.
func (s *scope) ScheduleNext(ctx context.Context, id string, n int) ([]ScheduleInstant, error) {
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
	// There is a run of the id: perhaps this start was made before.
	if found, err := h.Find(ctx, key, run); err == nil && found != nil && found.AtMs == in.AtMs {
		return found.Live, nil
	}
	return false, &joined{fmt.Errorf("the id %s is taken by another run", run), schedule.ErrNever}
}

// refusedStart returns the error of a start as a schedule takes it.
func refusedStart(err error) error {
	switch {
	case err == nil:
	case errors.Is(err, ErrBusy): // a quota, or the disk is full
		return &joined{err, schedule.ErrLater}
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrInvalid), errors.Is(err, ErrLimit),
		errors.Is(err, store.ErrCorrupt):
		return &joined{err, schedule.ErrNever}
	}
	return err
}

// Startable returns why a run of a definition cannot be started: its version is not there, or the input does not fit.
func (h *scheduler) Startable(ctx context.Context, key store.RunKey, d *schedule.Definition) error {
	s := (*Host)(h).scopeOf(key.Namespace)
	v, err := h.store.Modules().Version(ctx, key.Namespace, d.Workflow, d.Version)
	if err == nil {
		err = s.fitting(ctx, &run.NewRun{Key: key, Workflow: d.Workflow, Input: d.Input}, v.Module, &start{})
	}
	return refusedStart(translate(err))
}

// Find returns a run that a schedule has started, nil if that of the id is none, or there is none. A deleted one was there.
func (h *scheduler) Find(ctx context.Context, key store.RunKey, run string) (*schedule.Found, error) {
	st, err := h.store.State(ctx, store.RunKey{Namespace: key.Namespace, ID: run})
	if errors.Is(err, store.ErrNotFound) || err == nil && st.Schedule != key.ID {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// A run that was imported was started by a schedule of the installation where it was.
	return &schedule.Found{AtMs: st.NominalUnixMs, CreatedMs: st.CreatedUnixMs,
		Live: !st.Deleted && !st.Status.Terminal() && st.Aside == store.NotAside && st.Import == ""}, nil
}

// scopeOf returns a namespace by its number.
func (h *Host) scopeOf(ns store.NamespaceID) *scope {
	s := &scope{h: h, name: h.nameOf(ns)}
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

// Arm has a schedule looked at when it is due.
func (h *scheduler) Arm(key store.RunKey, wakeMs int64, err error) {
	h.rt.Partitions.Arm(wake.Key{Kind: store.WakeSchedule, Run: key}, wakeMs, err)
}

// StoreFailed stops the host.
func (h *scheduler) StoreFailed(err error) { h.rt.Fail(err) }
