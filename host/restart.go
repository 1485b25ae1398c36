package host

import (
	"context"

	"github.com/wfhost/wfhost/host/internal/check"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/runtime"
	"github.com/wfhost/wfhost/store"
)

// RestartOptions says which part of a run a new run repeats. The zero value repeats all of it, under a new id.
type RestartOptions struct {
	// NewID is the id of the new run. Default: a generated id, as for any run.
	NewID string
	// From is the name of the first step, sleep or child to repeat; the new run keeps everything before it. Empty:
	// the new run repeats everything.
	From string
	// Iteration is the iteration to repeat, for a run that has continued as new. Nil is the newest iteration that has
	// From, or the first one if From is empty.
	Iteration *uint32
	// Version is the version of the workflow for the new run; 0 is the version of the old run.
	Version uint32
	// KeepUndone keeps results that the run has undone since, as by a saga, and children that were cancelled with it.
	// Without it, such a restart is refused.
	KeepUndone bool
	// Elsewhere restarts the run with the same options at another host of the cluster, which owns NewID. The host that owns the old
	// run calls it. Nil: such a restart gets ErrFenced. Package httpapi sets it.
	Elsewhere func(ctx context.Context, owner HostInfo) error
}

// RestartPlan says what a restart does.
type RestartPlan struct {
	Run       string `json:"run"` // the run to repeat
	From      string `json:"from,omitempty"`
	Iteration uint32 `json:"iteration"`
	Version   uint32 `json:"version"` // of the new run
	// Refused is a sentence that says why the restart is refused; empty if it is allowed.
	Refused string `json:"refused,omitempty"`
	// Signal is the name of the signal in the start of the old run, if the new run starts with it, too.
	Signal string `json:"signal,omitempty"`
	// Kept are the calls whose outcomes the new run keeps. Repeated are the later calls of the old run, and earlier
	// steps without an outcome. The new run may make other calls instead, for example under another version.
	Kept     []RestartCall `json:"kept"`
	Repeated []RestartCall `json:"repeated"`
}

// RestartCall is a call of the run that is repeated.
type RestartCall struct {
	Seq    uint64 `json:"seq"`              // of its entry
	Kind   string `json:"kind"`             // as in the journal, such as step
	Name   string `json:"name,omitempty"`   // some calls have none
	Target string `json:"target,omitempty"` // handler, workflow, run, or token of a hook
	Note   string `json:"note,omitempty"`   // a remark, such as what has undone the call
}

// Restart starts a new run that repeats a run: see RestartWith. newID and from may be empty.
func (s *scope) Restart(ctx context.Context, id, newID, from string) (Run, error) {
	return s.RestartWith(ctx, id, RestartOptions{NewID: newID, From: from})
}

// RestartWith starts a new run that repeats a run: the same workflow, version, input, signal of the start and random
// numbers. With From, the new run keeps what the old run did before its step, sleep or child of that name, and
// repeats the rest. It keeps outcomes, signals, updates, attributes and output, and claims the tokens of hooks. A
// step that had no outcome when the old run ended is repeated, under a new idempotency key. The old run stays as it
// is.
//
// The workflow sees the schedule and the nominal instant of the old run, but no schedule counts the new run. With
// From, it also sees the version with which the old run began. Durable on return.
//
// ErrNotFound if the run, iteration or version does not exist, or no call is named From. ErrConflict, with a
// sentence, if the new run would keep results that were undone (see KeepUndone), if a child that began before From is
// still running or was cancelled with the old run, if another run holds the token of a hook, if the version does not
// fit what would be kept, or if NewID is taken. ErrDiskFull as in Start.
func (s *scope) RestartWith(ctx context.Context, id string, opts RestartOptions) (Run, error) {
	began := clock.System().Now()
	drawn := opts.NewID == ""
	if drawn {
		var err error
		if opts.NewID, err = s.ownRunID(ctx); err != nil {
			return Run{}, err
		}
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
	to := store.RunKey{Namespace: key.Namespace, ID: opts.NewID}
	var elsewhere func() error
	if opts.Elsewhere != nil && s.h.member != nil {
		if owner, other, err := s.h.member.ownerOf(to.Partition()); other && err == nil {
			elsewhere = func() error { return opts.Elsewhere(ctx, owner) }
		}
	}
	st, err := s.h.rt.Runs.Restart(ctx, &x, to, elsewhere)
	return s.h.runOf(st), translate(err)
}

// PlanRestart says what RestartWith would do, and changes nothing. A restart that would be refused is no error: see
// RestartPlan.Refused. ErrNotFound as in RestartWith.
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

// planRestart plans a restart. Under another version, and for a stuck run, whose version may not fit its journal, it replays the
// kept part against the version.
func (s *nsRef) planRestart(ctx context.Context, key store.RunKey, opts *RestartOptions) (x runtime.Restart, err error) {
	q := runtime.RestartRequest{Of: key, From: opts.From, Iteration: opts.Iteration, KeepUndone: opts.KeepUndone}
	st, err := s.h.rt.Runs.State(ctx, key)
	if err != nil {
		return x, err
	}
	if opts.Version != 0 {
		v, err := s.h.store.Modules().Version(ctx, key.Namespace, st.Workflow, opts.Version)
		if err != nil {
			return x, err
		}
		q.Version = &v
	}
	x, err = s.h.rt.Runs.PlanRestart(ctx, q)
	if err != nil || x.Refused != nil || opts.From == "" || q.Version == nil && st.Status != store.Stuck {
		return x, err
	}
	x.Refused, err = s.fitsKept(ctx, key, &x)
	return x, err
}

// fitsKept replays the kept part of a journal against the version of the new run. refused says where they diverge;
// nil if they do not.
func (s *nsRef) fitsKept(ctx context.Context, key store.RunKey, x *runtime.Restart) (refused, err error) {
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

// planned is the journal of a run that does not exist yet.
type planned struct {
	state   store.RunState
	entries []store.Entry
}

func (p planned) State(context.Context, store.RunKey) (store.RunState, error) { return p.state, nil }

func (p planned) Run(context.Context, store.RunKey) (store.RunState, []store.Entry, error) {
	return p.state, p.entries, nil
}
