package check

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/guest"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/store"
)

// The kinds of failures that depend on the configuration of the host, or on events that did not come.
const (
	kindCPU      = "cpu"
	kindCalls    = "calls"
	kindDeadlock = "deadlock"
)

// finish is the end of a replay, as the journal would record it.
type finish struct {
	kind  store.Kind // KindInvalid: the workflow goes on
	data  []byte
	exact bool   // data comes from the workflow; if false, only the failure's code, kind and says are the same on each host
	says  string // a part of the failure's message
	got   string // what the workflow did, for error messages
}

// failure returns a finish with an error that the host made.
func failure(code abi.Code, kind, got string) finish {
	data, err := json.Marshal(&abi.Error{Code: code, Kind: kind})
	if err != nil {
		panic(err) // strings always encode
	}
	return finish{kind: store.KindFailed, data: data, got: got}
}

// finished returns the finish of a replay that returned err. It returns false if err does not come from the workflow.
func (p *player) finished(err error) (finish, bool) {
	var refused *replay.RefusedError
	var trap *engine.Trap
	switch suspended := errors.Is(err, replay.ErrSuspend); {
	// A live guest that was asked for its stacks ends there, even if it could proceed.
	case p.dumped && (suspended || errors.Is(err, replay.ErrDeadlock)):
		f := failure(abi.StepFailed, kindDeadlock, "a wait for what can never come")
		if out := p.Outcome(); len(out.Failure) > 0 {
			f.data, f.exact = out.Failure, true
		}
		return f, true
	case suspended && p.waits:
		return finish{got: "a wait for something that has not happened"}, true
	case suspended:
		return finish{got: "a call that the journal does not have"}, true
	case errors.Is(err, replay.ErrContinue):
		return finish{got: abi.FnContinueAsNew}, true
	case errors.As(err, &refused):
		return finish{kind: store.KindFailed, data: refused.JSON, got: "fail: " + refused.Error(),
			exact: refused.Call == abi.FnContinueAsNew}, true // the journal has this error
	case errors.As(err, &trap):
		return failure(abi.StepFailed, trap.Failure(), "break down: "+trap.Message), true
	case errors.Is(err, guest.ErrFuel):
		return failure(abi.Limit, kindCPU, err.Error()), true
	case errors.Is(err, guest.ErrCalls):
		return failure(abi.Limit, kindCalls, err.Error()), true
	case err != nil:
		return finish{}, false
	}
	e := replay.EndEntry(p.said, p.code, p.Printed(), p.Explain)
	f := finish{kind: e.Kind, data: e.Data, got: "its return, " + describe(&e)}
	f.exact = e.Kind == store.KindCompleted || p.said.Failed
	if !f.exact && p.code != 0 {
		f.says = fmt.Sprintf("returned %d", p.code)
	}
	return f, true
}

// describe describes the end of a run.
func describe(e *store.Entry) string {
	return fmt.Sprintf("%s with %d bytes", e.Kind, len(e.Data))
}

// judgeEnd compares the end of the journal with the end of a replay that returned err. It returns nil if they agree, a
// *replay.Mismatch if they differ, or the error that stopped the replay.
func (p *player) judgeEnd(ctx context.Context, err error) error {
	j := p.of.Journal()
	if differs := (*replay.Mismatch)(nil); errors.As(err, &differs) || ctx.Err() != nil || p.Machine == nil {
		return err
	}
	f, ok := p.finished(err)
	if !ok {
		if errors.Is(err, guest.ErrSlow) && (p.limited() || p.open() && p.LeftOver() == nil) {
			return nil
		}
		return err
	}
	if left := p.LeftOver(); left != nil && f.kind != store.KindInvalid {
		return left
	}
	end := newest(j)
	switch {
	case j.Ended() == store.KindInvalid && (f.kind == store.KindInvalid || err == nil):
		return nil
	case f.is(end):
		if kind := errorOf(end.Data).Kind; !f.exact && (kind == kindCPU || kind == kindCalls || kind == abi.KindStack) {
			return nil // a replay may reach these limits elsewhere
		}
		return p.judgeTaken(end, p.Consumed())
	case p.stopped():
		return p.judgeTaken(end, 0)
	case p.open() && (errors.Is(err, guest.ErrFuel) || errors.Is(err, guest.ErrCalls)):
		return nil
	case j.Ended() == store.KindInvalid: // the workflow failed, and only in the replay
		return err
	case j.Ended() == store.KindFailed && p.limited():
		if errorOf(end.Data).Code == abi.Timeout { // by the host
			return p.judgeTaken(end, 0)
		}
		return nil
	}
	if trap, ok := errors.AsType[*engine.Trap](err); ok && trap.Kind == engine.TrapStack {
		return err // the maximum depth of calls depends on the engine
	}
	if f.kind == end.Kind && f.exact && len(f.data) == len(end.Data) {
		f.got = fmt.Sprintf("it with %d other bytes", len(f.data))
	}
	return &replay.Mismatch{Seq: end.Seq, Want: describe(end), Got: f.got}
}

// judgeTaken returns a *replay.Mismatch if the end of the journal says that the workflow had taken another number of
// deliveries. The ends that older releases or the host made do not say how many.
func (p *player) judgeTaken(end *store.Entry, taken uint64) error {
	if end.Consumed == 0 || end.Consumed == taken {
		return nil
	}
	return &replay.Mismatch{Seq: end.Seq, Want: fmt.Sprintf("%s after %d deliveries", end.Kind, end.Consumed),
		Got: fmt.Sprintf("it after %d", taken)}
}

// is reports whether the journal has this end.
func (f *finish) is(end *store.Entry) bool {
	if f.kind != end.Kind || f.kind == store.KindInvalid {
		return false
	}
	if f.exact {
		return bytes.Equal(f.data, end.Data)
	}
	a, b := errorOf(f.data), errorOf(end.Data)
	return a.Code == b.Code && a.Kind == b.Kind && strings.Contains(b.Message, f.says)
}

// newest returns the last entry of a journal.
func newest(j *journal.Journal) *store.Entry {
	entries := j.Entries()
	return &entries[len(entries)-1]
}

// errorOf decodes the JSON of an error. Invalid JSON gives an error without a code.
func errorOf(data []byte) (e abi.Error) {
	if json.Unmarshal(data, &e) != nil {
		return abi.Error{}
	}
	return e
}

// stopped reports whether a user cancelled or terminated the run, perhaps while it computed.
func (p *player) stopped() bool {
	j := p.of.Journal()
	return (j.Ended() == store.KindCancelled || j.Ended() == store.KindTerminated) && len(newest(j).Data) == 0
}

// open reports whether the journal does not show how far the workflow has got, because it computed when the journal was read
// or when it was stopped. A waiting workflow has got to its wait.
func (p *player) open() bool {
	switch p.of.State().Status {
	case store.Running, store.Queued:
		return true
	}
	return p.stopped()
}

// limited reports whether the run failed for a reason that may differ in a replay: its deadline, the size of its journal, the
// limits of computing, calls or call depth, or a deadlock.
func (p *player) limited() bool {
	j := p.of.Journal()
	if j.Ended() != store.KindFailed {
		return false
	}
	end := newest(j)
	switch e := errorOf(end.Data); {
	case e.Code == abi.Timeout && e.Kind == abi.KindTimeout:
		due := j.Started().DeadlineUnixMs
		return due != 0 && end.UnixMs >= due
	case e.Code == abi.Limit:
		return e.Kind == abi.KindJournal || e.Kind == kindCPU || e.Kind == kindCalls
	case e.Code == abi.StepFailed && e.Kind == kindDeadlock:
		return p.waits
	case e.Code == abi.StepFailed:
		return e.Kind == abi.KindStack
	}
	return false
}

// dump asks a deadlocked guest for its stacks, if the host did so when the run ended in this wait: the run failed, or was
// cancelled after the workflow had learned of the cancel. If a user stopped the run, the host did not ask.
func (p *player) dump() bool {
	end := p.of.Journal().Ended()
	ended := end == store.KindFailed || end == store.KindCancelled && !p.stopped()
	if !ended || !p.strict || p.dumped || p.limited() {
		return false
	}
	p.dumped = p.Dump()
	return p.dumped
}
