package host

import (
	"context"

	"github.com/wfhost/wfhost/host/internal/budget"
	"github.com/wfhost/wfhost/host/internal/check"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/runtime"
	"github.com/wfhost/wfhost/store"
)

// RestartOptions says what of a run a new run repeats. The zero value repeats all of it, under a new id.
type RestartOptions struct {
	// NewID is the id of the new run; by default it is made as that of any run.
	NewID string
	// From is the name of the first step, sleep or child that is done again; what the run did before is kept. Empty: all is done
	// again.
	From string
	// Iteration of a run that has continued as new. Nil is the newest one that has From, or without From the first one.
	Iteration *uint32
	// Version of the workflow under which the new run goes on; 0 is the one of the run.
	Version uint32
	// KeepUndone keeps results that the run has undone since, as by a saga, and children that were cancelled with it. Without it,
	// such a restart is refused.
	KeepUndone bool
}

// RestartPlan says what a restart does.
type RestartPlan struct {
	Run       string `json:"run"` // that is repeated
	From      string `json:"from,omitempty"`
	Iteration uint32 `json:"iteration"`
	Version   uint32 `json:"version"` // of the new run
	// Refused is a sentence that says why the restart is refused; empty if it is not.
	Refused string `json:"refused,omitempty"`
	// Signal is the name of the signal that the run was started with, if the new run is started with it, too.
	Signal string `json:"signal,omitempty"`
	// Kept are the calls whose outcomes the new run has, Repeated those that the run made from there on, and steps before that
	// have no outcome. The new run may do something else than these, as by another version.
	Kept     []RestartCall `json:"kept"`
	Repeated []RestartCall `json:"repeated"`
}

// RestartCall is a call of the run that is repeated.
type RestartCall struct {
	Seq    uint64 `json:"seq"`              // of its entry
	Kind   string `json:"kind"`             // as in the journal, such as step
	Name   string `json:"name,omitempty"`   // some calls have none
	Target string `json:"target,omitempty"` // handler, workflow, run, or token of a hook
	Note   string `json:"note,omitempty"`   // what is worth knowing, such as what has undone it
}

// Restart starts a new run like another one: see RestartWith. newID may be empty, and from, too.
func (s *scope) Restart(ctx context.Context, id, newID, from string) (Run, error) {
	return s.RestartWith(ctx, id, RestartOptions{NewID: newID, From: from})
}

// RestartWith starts a new run like another one: the same workflow, version, input, signal of the start and random numbers.
// With From, it begins with what the other one did before its step, sleep or child of that name, and does the rest again.
// What was done before is not repeated: it keeps outcomes, signals, updates, attributes and output, and claims the tokens of
// hooks. A step that had no outcome when the other run ended is made again, under a new idempotency key. The other run stays
// as it is.
//
// The workflow is told the schedule and the nominal instant of the other run, but no schedule counts it; with From, it is
// also told the version with which the other run began. Durable on return.
//
// ErrNotFound if there is no run, iteration or version as asked for, or no call named From. ErrConflict, with a sentence, if
// the new run would keep what was undone (see KeepUndone), if a child that began before From is still running, or was
// cancelled with the other run, if another run holds the token of a hook, if the version does something else than what would
// be kept, or if NewID is taken. ErrDiskFull as of Start.
func (s *scope) RestartWith(ctx context.Context, id string, opts RestartOptions) (Run, error) {
	began := budget.Clock.Now()
	drawn := opts.NewID == ""
	if drawn {
		opts.NewID = newRunID(s.h.cfg.Clock.Now())
	} else if err := checkRunID(opts.NewID); err != nil {
		return Run{}, err
	}
	if err := s.h.roomOnDisk(0); err != nil {
		return Run{}, err
	}
	key, err := s.key(ctx, id)
	if err != nil {
		return Run{}, translate(err)
	}
	leave, err := s.h.admit(key.Namespace)
	if err != nil {
		return Run{}, s.slowly(ctx, began, translate(busy(err)))
	}
	defer leave()
	x, err := s.planRestart(ctx, key, &opts)
	if err == nil {
		err = x.Refused
	}
	if err != nil {
		return Run{}, translate(err)
	}
	if drawn {
		x.New.ID = store.IDDrawn
	}
	st, err := s.h.rt.Runs.Restart(ctx, &x, store.RunKey{Namespace: key.Namespace, ID: opts.NewID})
	return s.h.runOf(st), translate(err)
}

// PlanRestart says what RestartWith would do, and does nothing. A restart that would be refused is no error: see
// RestartPlan.Refused. ErrNotFound as of RestartWith.
func (s *scope) PlanRestart(ctx context.Context, id string, opts RestartOptions) (RestartPlan, error) {
	key, err := s.key(ctx, id)
	if err != nil {
		return RestartPlan{}, translate(err)
	}
	x, err := s.planRestart(ctx, key, &opts)
	if err != nil {
		return RestartPlan{}, translate(err)
	}
	if err := s.h.rt.Runs.NoteChildren(ctx, key.Namespace, x.Plan, s.h.cfg.Clock.Now().UnixMilli()); err != nil {
		return RestartPlan{}, translate(err)
	}
	p := RestartPlan{Run: id, From: opts.From, Iteration: x.Plan.Copy.Started.Iteration, Version: x.New.Version,
		Kept: restartCalls(x.Plan.Kept), Repeated: restartCalls(x.Plan.Repeated)}
	if x.New.Signal != nil {
		p.Signal = x.New.Signal.Name
	}
	if x.Refused != nil {
		p.Refused = translate(x.Refused).Error()
	}
	return p, nil
}

func restartCalls(list []run.Call) []RestartCall {
	calls := make([]RestartCall, 0, len(list))
	for _, c := range list {
		calls = append(calls, RestartCall{Seq: uint64(c.Seq), Kind: c.Kind.String(), Name: c.Name, Target: c.Target, Note: c.Note})
	}
	return calls
}

// planRestart plans a restart. Under another version, what is kept is replayed against it.
func (s *scope) planRestart(ctx context.Context, key store.RunKey, opts *RestartOptions) (x runtime.Restart, err error) {
	q := runtime.RestartRequest{Of: key, From: opts.From, Iteration: opts.Iteration, KeepUndone: opts.KeepUndone}
	if opts.Version != 0 {
		st, err := s.h.rt.Runs.State(ctx, key)
		if err != nil {
			return x, err
		}
		v, err := s.h.store.Modules().Version(ctx, key.Namespace, st.Workflow, opts.Version)
		if err != nil {
			return x, err
		}
		q.Version = &v
	}
	x, err = s.h.rt.Runs.PlanRestart(ctx, q)
	if err != nil || x.Refused != nil || q.Version == nil || opts.From == "" {
		return x, err
	}
	x.Refused, err = s.fitsKept(ctx, key, &x)
	return x, err
}

// fitsKept replays what a new run keeps against its version, and returns how it differs; nil if it does not.
func (s *scope) fitsKept(ctx context.Context, key store.RunKey, x *runtime.Restart) (refused, err error) {
	n := x.New
	n.Key = key
	n.Draw(s.h.cfg.Random)
	j, err := n.Journal(s.h.cfg.Clock.Now().UnixMilli(), false)
	if err != nil {
		return nil, err
	}
	end, err := s.h.checks.begin(key.Namespace)
	if err != nil {
		return nil, err
	}
	defer end()
	mod, err := s.h.rt.Checks.Module(n.Module)
	if err != nil {
		return nil, err
	}
	st := store.RunState{Run: key, Incarnation: n.Incarnation, Workflow: n.Workflow, Version: n.Version, Module: n.Module,
		Status: store.Queued, Iteration: j.Started().Iteration, Length: store.Seq(j.Len()), JournalBytes: j.Bytes()}
	fuel := (&CheckOptions{CPU: DefaultCheckCPU}).fuel()
	r, err := s.h.rt.Checks.Over(planned{st, j.All()}, nil).Run(ctx, key, mod, fuel)
	if err != nil || r.Outcome != check.Diverges {
		return nil, err
	}
	return run.Refuse("run %q: version %d of %s does not fit what the new run would keep: it diverges at entry %d: the journal "+
		"has %s, the workflow did %s", key.ID, n.Version, n.Workflow, r.Seq, r.Want, r.Got), nil
}

// planned is the journal of a run that is not there.
type planned struct {
	state   store.RunState
	entries []store.Entry
}

func (p planned) State(context.Context, store.RunKey) (store.RunState, error) { return p.state, nil }

func (p planned) Run(context.Context, store.RunKey) (store.RunState, []store.Entry, error) {
	return p.state, p.entries, nil
}
