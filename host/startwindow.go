package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/limits"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// StartWindow merges starts of a workflow that have the same key into one run. It has a debounce or a throttle. It
// applies to Start and StartRaw, and so to the command and HTTP. Runs of schedules, children and restarts are never
// merged: their schedule, parent or caller knows their ids.
type StartWindow struct {
	Workflow string `json:"workflow"`
	// Debounce is a quiet time: "10s" for the workflow, or "10s per input.customer" for starts with the same value at
	// that place. A run begins when no start has come for that long. It has the input, the version and the options of
	// the newest start, and each start returns this run. From 1 ms to 366 days.
	Debounce string `json:"debounce,omitempty"`
	// Longest is how long after the first start a debounced run begins at the latest, as duration text. Default: 10
	// times the quiet time, at most 366 days.
	Longest string `json:"longest,omitempty"`
	// Throttle is a window, such as "1h per input.customer": a start opens a window, and further starts within it
	// return its run, with Run.Throttled. From 1 ms to 366 days.
	Throttle string `json:"throttle,omitempty"`
}

func (w *StartWindow) policy() (p limits.StartPolicy, err error) {
	switch {
	case (w.Debounce == "") == (w.Throttle == ""):
		return p, abi.Errorf(abi.InvalidArgument, "the starts of workflow %q have either a debounce or a throttle", w.Workflow)
	case w.Throttle != "" && w.Longest != "":
		return p, abi.Errorf(abi.InvalidArgument, "a throttle has no longest wait, got %q", w.Longest)
	}
	p, err = limits.ParseStartPolicy(w.Throttle != "", cmp.Or(w.Debounce, w.Throttle))
	if err != nil || p.Throttle {
		return p, err
	}
	p.LongestMs = min(limits.DefaultLongest*p.Ms, limits.MaxWindowMs)
	if w.Longest != "" {
		p.LongestMs, err = abi.ParseDuration(w.Longest)
		if err != nil || p.LongestMs < p.Ms || p.LongestMs > limits.MaxWindowMs {
			return p, abi.Errorf(abi.InvalidArgument, "the longest wait of a debounce is from its quiet time, %s, to %s, got %q",
				abi.FormatDuration(p.Ms), abi.FormatDuration(limits.MaxWindowMs), w.Longest)
		}
	}
	return p, nil
}

func windowOf(workflow string, p *limits.StartPolicy) StartWindow {
	if p.Throttle {
		return StartWindow{Workflow: workflow, Throttle: p.String()}
	}
	return StartWindow{Workflow: workflow, Debounce: p.String(), Longest: abi.FormatDuration(p.LongestMs)}
}

// Set replaces the start window of a workflow, for starts from now on. The instants at which waiting runs
// begin stay. Durable on return. ErrInvalid if the window is empty or invalid, ErrLimit if the namespace has too
// many.
func (s StartWindows) Set(ctx context.Context, w StartWindow) (StartWindow, error) {
	p, err := w.policy()
	if err != nil {
		return StartWindow{}, translate(err)
	}
	if err := s.setWindow(ctx, w.Workflow, &p); err != nil {
		return StartWindow{}, err
	}
	return windowOf(w.Workflow, &p), nil
}

func (s *nsRef) setWindow(ctx context.Context, workflow string, p *limits.StartPolicy) error {
	err := abi.CheckWorkflow(workflow)
	if err == nil {
		err = s.h.refuseCopy()
	}
	if err != nil {
		return translate(err)
	}
	ns, err := s.id(ctx, false)
	if err == nil {
		err = s.h.windows.Set(ctx, ns, workflow, p)
	}
	return translate(err)
}

// Delete removes the start window of a workflow, so that each start is a run again. Durable on return.
// ErrNotFound if there is none.
func (s StartWindows) Delete(ctx context.Context, workflow string) error {
	list, err := s.List(ctx)
	if err != nil {
		return err
	}
	for _, w := range list {
		if w.Workflow == workflow {
			return s.setWindow(ctx, workflow, nil)
		}
	}
	return translate(fmt.Errorf("the start window of workflow %q: %w", workflow, store.ErrNotFound))
}

// List returns the start windows of the namespace, sorted by workflow.
func (s StartWindows) List(ctx context.Context) ([]StartWindow, error) {
	ns, err := s.id(ctx, false)
	if err != nil {
		return nil, translate(err)
	}
	list, err := s.h.windows.All(ctx, ns)
	out := []StartWindow{}
	for i := range list {
		out = append(out, windowOf(list[i].Workflow, &list[i].StartPolicy))
	}
	return out, translate(err)
}

// WindowOwner is Owner for the run into which the debounce of a workflow merges a start with an input. ok is false, too, if there
// is no such run.
func (s *scope) WindowOwner(ctx context.Context, workflow string, input []byte) (owner HostInfo, ok bool, err error) {
	ns, err := s.id(ctx, false)
	if err != nil || s.h.member == nil {
		return HostInfo{}, false, translate(err)
	}
	p, err := s.h.windows.Of(ctx, ns, workflow)
	if err != nil || p == nil || p.Throttle {
		return HostInfo{}, false, translate(err)
	}
	x, err := s.h.windows.Window(ctx, ns, workflow, p, input)
	if err != nil || x.Run == "" {
		return HostInfo{}, false, translate(err)
	}
	return s.h.member.ownerOf(store.RunKey{Namespace: ns, ID: x.Run}.Partition())
}

// startWithin starts a run if the workflow has a start window. It returns is = false, without an error, if the start
// must proceed without a window.
func (s *nsRef) startWithin(ctx context.Context, key store.RunKey, workflow string, input []byte, o *start,
	at int64) (r Run, is bool, err error) {
	if o.schedule != "" {
		return Run{}, false, nil
	}
	p, err := s.h.windows.Of(ctx, key.Namespace, workflow)
	if err != nil || p == nil {
		return Run{}, err != nil, translate(err)
	}
	if err := fitsWindow(p, workflow, o, at); err != nil {
		return Run{}, true, translate(err)
	}
	k, err := s.h.windows.Lock(ctx, key.Namespace, workflow, p, input)
	if err != nil {
		return Run{}, true, translate(err)
	}
	defer k.Unlock()
	if o.named && o.id != k.Window.Run { // a repeated start
		if st, err := s.h.rt.Runs.State(ctx, key); err == nil && !st.Deleted {
			return Run{}, false, nil
		}
	}
	for {
		if err := k.ClockSet(ctx, s.h.cfg.Clock.Now().UnixMilli()); err != nil {
			return Run{}, true, translate(err)
		}
		if p.Throttle {
			r, is, err = s.throttled(ctx, k, key, workflow, input, o, at, p)
		} else {
			r, is, err = s.debounced(ctx, k, key, workflow, input, o, p)
		}
		if !errors.Is(err, errStartAgain) {
			return r, is, err
		}
	}
}

// fitsWindow returns an error if an option of the start does not work with the window.
func fitsWindow(p *limits.StartPolicy, workflow string, o *start, at int64) error {
	switch {
	case o.conflict != ConflictExisting:
		return abi.Errorf(abi.InvalidArgument, "the starts of workflow %q are put together: a start cannot say what happens to "+
			"another run of its id", workflow)
	case !p.Throttle && at != 0:
		return abi.Errorf(abi.InvalidArgument, "workflow %q has a debounce, which says when a run begins: a start cannot", workflow)
	case !p.Throttle && o.signal != nil:
		return abi.Errorf(abi.InvalidArgument, "workflow %q has a debounce: send the signal when its run has begun", workflow)
	}
	return nil
}

// throttled returns the run of the key's window, or opens a window with the run of this start.
func (s *nsRef) throttled(ctx context.Context, k *limits.StartKey, key store.RunKey, workflow string, input []byte,
	o *start, at int64, p *limits.StartPolicy) (Run, bool, error) {
	now := s.h.cfg.Clock.Now().UnixMilli()
	if x := k.Window; x.Run != "" && now < x.EndMs {
		st, err := s.h.rt.Runs.State(ctx, store.RunKey{Namespace: key.Namespace, ID: x.Run})
		switch {
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return Run{}, true, translate(err)
		case err != nil || st.Deleted: // the window has no run
		case x.Run == key.ID: // the start is a repetition
			return Run{}, false, nil
		default:
			r := s.h.runOf(st)
			r.Existed, r.Throttled = true, abi.TimeOf(x.EndMs)
			return r, true, nil
		}
	}
	if err := beginWindow(ctx, k, key.ID, now, p.Ms); err != nil {
		return Run{}, true, translate(err)
	}
	r, err := s.startOf(ctx, key, workflow, input, o, at) // the key stays locked: until the run exists, the window has none
	return r, true, err
}

// debounced moves the waiting run of a key, or starts one.
func (s *nsRef) debounced(ctx context.Context, k *limits.StartKey, key store.RunKey, workflow string, input []byte, o *start,
	p *limits.StartPolicy) (Run, bool, error) {
	now := s.h.cfg.Clock.Now().UnixMilli()
	moves := *o
	moves.conflict = run.ConflictMove
	x := k.Window
	if x.Run != "" && x.Run != o.id { // a deleted run with a generated id leaves no record
		if _, err := s.h.store.State(ctx, store.RunKey{Namespace: key.Namespace, ID: x.Run}); errors.Is(err, store.ErrNotFound) {
			x.Run = ""
		} else if err != nil {
			return Run{}, true, translate(err)
		}
	}
	if x.Run != "" && now < x.EndMs {
		key := store.RunKey{Namespace: key.Namespace, ID: x.Run}
		r, err := s.startOnce(ctx, key, workflow, input, &moves, min(now+p.Ms, x.EndMs))
		if !errors.Is(err, ErrConflict) {
			r.Existed = err == nil && x.Run != o.id
			return r, true, err
		}
		if o.named && o.id == x.Run { // it has begun
			return Run{}, false, nil
		}
	}
	if err := beginWindow(ctx, k, key.ID, now, p.LongestMs); err != nil {
		return Run{}, true, translate(err)
	}
	r, err := s.startOnce(ctx, key, workflow, input, &moves, now+p.Ms)
	return r, true, err
}

// beginWindow opens a window with a run, for ms milliseconds from now, durable on return. It returns errStartAgain if
// another host opened one first.
func beginWindow(ctx context.Context, k *limits.StartKey, run string, now, ms int64) error {
	end, err := abi.AddMs(now, ms)
	if err != nil {
		return err
	}
	ok, err := k.Open(ctx, limits.StartWindow{Run: run, FirstMs: now, EndMs: end})
	if err == nil && !ok {
		return errStartAgain
	}
	return err
}
