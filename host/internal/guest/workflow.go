package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// workflow is a guest that executes a workflow under the lease of its run.
type workflow struct {
	guest
	lease *run.Lease
}

// logLine stores a log line that the workflow's code wrote, unless it was stored before.
func (w *workflow) logLine(n uint64, level int32, text string) {
	w.lease.Log().Write(n, w.Passed(), store.LogLine{UnixMs: w.Time(), Level: int8(level), Text: text})
}

// handlerError returns an *abi.Error if a step may not use a handler. A granted handler that is not registered is no
// error: the step waits, since the host may be restarted with it.
func (w *workflow) handlerError(handler string) error {
	name, isHost := strings.CutPrefix(handler, abi.HandlerPrefix)
	if !isHost {
		if !w.mod.HasStep(handler) {
			return abi.Errorf(abi.UnknownHandler, "the module has no step function %q", handler)
		}
		return nil
	}
	if slices.Contains(w.grants.Steps, name) || slices.Contains(w.grants.Steps, "*") {
		return nil
	}
	st := &w.lease.State
	if !w.r.cfg.Handled(name) {
		return abi.Errorf(abi.UnknownHandler, "no handler %q is registered in this host, and %s@%d is not allowed to call it",
			handler, st.Workflow, st.Version)
	}
	return abi.Errorf(abi.Denied, "%s@%d is not allowed to call %q: upload it with that step allowed",
		st.Workflow, st.Version, handler)
}

// end returns what the end of the guest means for its run. An entry that ends the run says how many deliveries the guest had
// taken, for a retry.
func (w *workflow) end(ctx context.Context, err error) run.End {
	end := w.meaning(ctx, err)
	if end.Entry != nil && w.Machine != nil {
		end.Entry.Consumed = w.Consumed()
	}
	return end
}

// meaning returns what the guest's error, or its return as an *endEntry, means for its run.
func (w *workflow) meaning(ctx context.Context, err error) run.End {
	var trap *engine.Trap
	var mismatch *replay.Mismatch
	var refused *replay.RefusedError
	var ended *endEntry
	switch {
	case errors.As(err, &ended):
		return run.End{Entry: &ended.entry}
	case errors.Is(err, replay.ErrContinue):
		return w.continues(ctx)
	case errors.As(err, &mismatch):
		return run.End{Mismatch: mismatch.Error()}
	case errors.As(err, &refused):
		return run.End{Entry: &store.Entry{Kind: store.KindFailed, Data: refused.JSON}}
	case errors.As(err, &trap):
		return failed(&abi.Error{Code: abi.StepFailed, Kind: trap.Failure(), Message: trap.Message, Details: stack(trap)})
	case errors.Is(err, ErrFuel):
		limit := time.Duration(w.r.cfg.MaxFuel) // a unit of fuel is about a nanosecond
		return failed(&abi.Error{Code: abi.Limit, Kind: "cpu", Message: fmt.Sprintf("%v: the limit is about %v", err, limit)})
	case errors.Is(err, ErrCalls):
		return failed(&abi.Error{Code: abi.Limit, Kind: "calls", Message: err.Error()})
	case errors.Is(err, replay.ErrDeadlock):
		if data := w.Outcome().Failure; len(data) > 0 {
			return run.End{Entry: &store.Entry{Kind: store.KindFailed, Data: data}}
		}
		return failed(&abi.Error{Code: abi.StepFailed, Kind: "deadlock", Message: err.Error()})
	}
	return run.End{Fault: err}
}

// failed returns the end of a run that failed with an error of the host.
func failed(e *abi.Error) run.End {
	data, err := json.Marshal(e)
	if err != nil {
		data = []byte(`{"code":"STEP_FAILED","message":"the error cannot be shown"}`)
	}
	return run.End{Entry: &store.Entry{Kind: store.KindFailed, Data: data}}
}

func stack(t *engine.Trap) any {
	if t.Stack == "" {
		return nil
	}
	return map[string]string{"stack": t.Stack}
}

// endEntry reports that the guest ended its run, with the entry for the journal.
type endEntry struct{ entry store.Entry }

func (e *endEntry) Error() string { return "the run has " + e.entry.Kind.String() }

// finish returns the error for the guest's return.
func (w *workflow) finish(code int32) error {
	if err := w.LeftOver(); err != nil {
		return err
	}
	return &endEntry{replay.EndEntry(w.Outcome(), code, w.Printed(), w.Explain)}
}

// continues returns the end of a run that continues as new, with its version.
func (w *workflow) continues(ctx context.Context) run.End {
	if err := w.LeftOver(); err != nil {
		var mismatch *replay.Mismatch
		if errors.As(err, &mismatch) {
			return run.End{Mismatch: mismatch.Error()}
		}
		return run.End{Fault: err}
	}
	st := &w.lease.State
	out := w.Outcome()
	opts, err := abi.ParseContinueOptions(out.Continue.Options)
	if err != nil {
		return run.End{Fault: err}
	}
	c := &run.Continue{Input: out.Continue.Input, Version: st.Version, Module: st.Module, Cancelled: out.Cancelled, Told: w.Told}
	if opts.Version == abi.ContinueLatest {
		v, err := w.r.cfg.Store.Modules().Version(ctx, st.Run.Namespace, st.Workflow, 0)
		if err != nil {
			return run.End{Fault: err}
		}
		c.Version, c.Module = v.Number, v.Module
	}
	if w.r.cfg.Keep != nil {
		c.Keep, err = w.r.cfg.Keep(ctx, st.Run.Namespace, st.Workflow)
		if err != nil {
			return run.End{Fault: err}
		}
	}
	return run.End{Continue: c}
}

// endOf returns the name of an activation's end for its report.
func endOf(e *run.End) string {
	switch {
	case e.Entry != nil:
		return e.Entry.Kind.String()
	case e.Continue != nil:
		return EndContinued
	case e.Mismatch != "":
		return EndMismatch
	}
	return EndFault
}
