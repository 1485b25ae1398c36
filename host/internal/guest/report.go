package guest

import (
	"time"

	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// Report is what there is to say of an activation that has ended.
type Report struct {
	Run      store.RunKey
	Workflow string
	Version  uint32
	Replayed int           // entries of the journal where the workflow last waited
	Replay   time.Duration // from the beginning until the workflow was there; Total if it never was
	Total    time.Duration // from its first place to its end
	End      string        // see the constants
}

// The ends of activations, beside the kinds of the entries that end a run.
const (
	endSuspended = "suspended"
	endHalted    = "halted"
	endContinued = "continued"
	endMismatch  = "mismatch"
	endFault     = "fault"
)

// span is when an activation began, and when it had come to where its workflow last waited.
type span struct {
	began  time.Time
	passed time.Time // zero until then
	rested int       // entries of the journal there
}

// arrived notes when the workflow goes on beyond where it has been before. It is called at each of its calls.
func (a *Activation) arrived() {
	if a.span.passed.IsZero() && a.r.cfg.OnEnd != nil && !a.Passed() {
		a.span.passed = budgetClock.Now()
	}
}

// report reports the end of the activation.
func (a *Activation) report(r *Runner, end string) {
	if r.cfg.OnEnd == nil {
		return
	}
	st := &a.lease.State
	now := budgetClock.Now()
	rep := Report{Run: st.Run, Workflow: st.Workflow, Version: st.Version, Replayed: a.span.rested,
		Total: now.Sub(a.span.began), End: end}
	if rep.Replay = rep.Total; !a.span.passed.IsZero() {
		rep.Replay = a.span.passed.Sub(a.span.began)
	}
	r.cfg.OnEnd(rep)
}

// endOf names the end of an activation.
func endOf(e *run.End) string {
	switch {
	case e.Entry != nil:
		return e.Entry.Kind.String()
	case e.Continue != nil:
		return endContinued
	case e.Mismatch != "":
		return endMismatch
	}
	return endFault
}
