package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/limit"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/window"
	"github.com/wfhost/wfhost/store"
)

// StartWindow puts the starts of a workflow together that have the same key. It has a debounce or a throttle. It concerns
// Start and StartRaw, and so the command and HTTP; the runs of schedules, children and restarts have ids that others know,
// and are started each.
type StartWindow struct {
	Workflow string `json:"workflow"`
	// Debounce is a quiet time: "10s" of the workflow, or "10s per input.customer" of the starts with the same value there. All
	// starts until none has come for so long are one run, which has the input, the version and the options of the newest one and
	// begins then. 1 ms to 366 days. Each start returns this run.
	Debounce string `json:"debounce,omitempty"`
	// Longest is how long after the first start the run of a debounce begins at the latest, as duration text. Default: 10 times the
	// quiet time, at most 366 days.
	Longest string `json:"longest,omitempty"`
	// Throttle is a window, "1h per input.customer": a start begins one, and others within it return its run, with
	// Run.Throttled. 1 ms to 366 days.
	Throttle string `json:"throttle,omitempty"`
}

func (w *StartWindow) policy() (p window.Policy, err error) {
	switch {
	case (w.Debounce == "") == (w.Throttle == ""):
		return p, abi.Errorf(abi.InvalidArgument, "the starts of workflow %q have either a debounce or a throttle", w.Workflow)
	case w.Throttle != "" && w.Longest != "":
		return p, abi.Errorf(abi.InvalidArgument, "a throttle has no longest wait, got %q", w.Longest)
	}
	p, err = window.Parse(w.Throttle != "", cmp.Or(w.Debounce, w.Throttle))
	if err != nil || p.Throttle {
		return p, err
	}
	p.LongestMs = min(window.DefaultLongest*p.Ms, limit.MaxWindowMs)
	if w.Longest != "" {
		p.LongestMs, err = abi.ParseDuration(w.Longest)
		if err != nil || p.LongestMs < p.Ms || p.LongestMs > limit.MaxWindowMs {
			return p, abi.Errorf(abi.InvalidArgument, "the longest wait of a debounce is from its quiet time, %s, to %s, got %q",
				abi.FormatDuration(p.Ms), abi.FormatDuration(limit.MaxWindowMs), w.Longest)
		}
	}
	return p, nil
}

func windowOf(workflow string, p *window.Policy) StartWindow {
	if p.Throttle {
		return StartWindow{Workflow: workflow, Throttle: p.String()}
	}
	return StartWindow{Workflow: workflow, Debounce: p.String(), Longest: abi.FormatDuration(p.LongestMs)}
}

// SetStartWindow puts the starts of a workflow together from now on, in place of what was set before. Runs that wait begin
// when they were to. Durable on return. It returns ErrInvalid for what says nothing, and ErrLimit if the namespace has too many.
func (s *scope) SetStartWindow(ctx context.Context, w StartWindow) (StartWindow, error) {
	p, err := w.policy()
	if err != nil {
		return StartWindow{}, translate(err)
	}
	if err := s.setWindow(ctx, w.Workflow, &p); err != nil {
		return StartWindow{}, err
	}
	return windowOf(w.Workflow, &p), nil
}

func (s *scope) setWindow(ctx context.Context, workflow string, p *window.Policy) error {
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

// DeleteStartWindow has each start of a workflow be a run of its own again. Durable on return. ErrNotFound if that was so.
func (s *scope) DeleteStartWindow(ctx context.Context, workflow string) error {
	list, err := s.StartWindows(ctx)
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

// StartWindows returns how starts are put together in the namespace, by workflow.
func (s *scope) StartWindows(ctx context.Context) ([]StartWindow, error) {
	ns, err := s.id(ctx, false)
	if err != nil {
		return nil, translate(err)
	}
	list, err := s.h.windows.All(ctx, ns)
	out := []StartWindow{}
	for i := range list {
		out = append(out, windowOf(list[i].Workflow, &list[i].Policy))
	}
	return out, translate(err)
}

// startWithin makes a start of a workflow whose starts are put together, or says that it is none of these.
func (s *scope) startWithin(ctx context.Context, key store.RunKey, workflow string, input []byte, o *start,
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
	if o.named && o.id != k.Window.Run { // a start that is repeated
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

// fitsWindow returns what of a start cannot be put together with others.
func fitsWindow(p *window.Policy, workflow string, o *start, at int64) error {
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

// throttled returns the run that the window of a key has, or begins a window with the run of this start.
func (s *scope) throttled(ctx context.Context, k *window.Key, key store.RunKey, workflow string, input []byte, o *start, at int64,
	p *window.Policy) (Run, bool, error) {
	now := s.h.cfg.Clock.Now().UnixMilli()
	if x := k.Window; x.Run != "" && now < x.EndMs {
		st, err := s.h.rt.Runs.State(ctx, store.RunKey{Namespace: key.Namespace, ID: x.Run})
		switch {
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return Run{}, true, translate(err)
		case err != nil || st.Deleted: // the window has no run
		case x.Run == key.ID: // repeated
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
	r, err := s.startOf(ctx, key, workflow, input, o, at) // the key stays locked: until it is there, the window has no run
	return r, true, err
}

// debounced moves the run that waits for a key, or begins one.
func (s *scope) debounced(ctx context.Context, k *window.Key, key store.RunKey, workflow string, input []byte, o *start,
	p *window.Policy) (Run, bool, error) {
	now := s.h.cfg.Clock.Now().UnixMilli()
	moves := *o
	moves.conflict = run.ConflictMove
	x := k.Window
	if x.Run != "" && x.Run != o.id { // of one that the host has named, nothing is left once it is deleted
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

// beginWindow begins a window with a run, of so many milliseconds from now, durable on return. It returns errStartAgain if
// another host was quicker.
func beginWindow(ctx context.Context, k *window.Key, run string, now, ms int64) error {
	end, err := abi.AddMs(now, ms)
	if err != nil {
		return err
	}
	ok, err := k.Open(ctx, window.Window{Run: run, FirstMs: now, EndMs: end})
	if err == nil && !ok {
		return errStartAgain
	}
	return err
}
