package run

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
)

// startAttempts prepares the attempts that may begin now, appends their records, and starts them once these are
// durable. canFork reports whether the instance of the waiting guest can execute a body.
func (t *turn) startAttempts(canFork bool) error {
	if t.rec.Held() {
		return nil
	}
	t.rec.Waiting = ""
	first := len(t.fx.Start)
	for _, id := range t.mayBegin() {
		h := t.rec.Journal.Handle(id)
		if name, ok := strings.CutPrefix(h.Target, abi.HandlerPrefix); ok && !t.handled(name) {
			t.rec.Waiting = fmt.Sprintf("handler %q is not registered here", h.Target)
			t.fx.Missing = append(t.fx.Missing, name)
			continue
		}
		a, err := t.prepare(h)
		if t.rec.Held() { // by this attempt: its step is poison, or the journal has no room for its record
			return nil
		}
		if err != nil {
			return err
		}
		if a != nil {
			t.going[h.ID] = a
			t.fx.Start = append(t.fx.Start, a)
		}
	}
	// If an at-most-once step has just failed because its attempt was lost, the guest continues instead.
	if canFork && len(t.fx.Start) == first+1 && len(t.going) == 1 && !t.rec.Journal.Deliverable() {
		if a := t.fx.Start[first]; a.Alone() {
			a.Fork, t.stands = t.lease, guestForked
		}
	}
	return nil
}

// mostDue is how many due steps mayBegin checks one by one. If there are more, it walks all open steps.
const mostDue = 64

// mayBegin returns the open steps whose next attempt may begin now, in call order: none is in flight, and the delay
// has passed. Most events of a run with thousands of open steps find at most one such step, without a walk over all
// of them.
func (t *turn) mayBegin() (ids []int64) {
	j := t.rec.Journal
	idle := func(list []int64) {
		for _, id := range list {
			if t.going[id] == nil && j.Handle(id).Step.RetryMs <= t.now && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	due, later, few := j.DueSteps(t.now, mostDue)
	called := j.StepsAfter(t.seen)
	if len(called) > 0 {
		t.seen = called[len(called)-1]
	}
	if few && len(called) <= mostDue {
		idle(due)
		idle(called)
		if len(ids)+len(t.going)+later == j.OpenSteps() {
			slices.Sort(ids)
			return ids
		}
	}
	// Some steps have no handler here, or their attempts were given up.
	ids = nil
	for _, id := range j.StepsAfter(0) {
		if t.going[id] == nil && j.Handle(id).Step.RetryMs <= t.now {
			ids = append(ids, id)
		}
	}
	return ids
}

// prepare returns the next attempt of a step, or nil if there is none to make.
func (t *turn) prepare(h *journal.Handle) (*Attempt, error) {
	n := NextAttemptOf(h, t.rec.Restored)
	switch {
	case n.Lost:
		e, err := UnknownOutcome(t.rec.Journal, h)
		if err != nil {
			return nil, err
		}
		return nil, t.append(e)
	case n.Poison:
		t.stick("poison: the host stopped again and again while step " + h.Name + " was running")
		return nil, nil
	case n.Recorded:
		if err := t.append(n.Entry(h.ID)); err != nil {
			return nil, err
		}
	}
	of := AttemptSubject{Run: t.rec.Key, Incarnation: t.rec.State.Incarnation, Iteration: t.rec.Iteration,
		Workflow: t.rec.State.Workflow, Version: t.rec.Version, Module: t.rec.Module}
	return &Attempt{Try: NewTry(of, t.rec.Journal, h, n.Number, t.now)}, nil
}

// happen records the outcome of an attempt, unless the attempt was given up.
func (e AttemptEnds) happen(t *turn) error {
	a := e.Attempt
	if !t.Has(a) {
		return nil
	}
	delete(t.going, a.Handle)
	if t.forked(a.Fork) { // its instance ended with it
		t.leave()
	}
	if e.Outcome.Abandoned || t.rec.Ended() || !t.rec.Journal.Handle(a.Handle).Open() {
		return nil
	}
	entry, err := a.Entry(t.rec.Journal, e.Outcome, a.told, t.now)
	if err == nil {
		err = t.append(entry)
	}
	t.fx.Answer.Changed = err == nil
	if err != nil {
		t.fx.Unrecorded = fmt.Errorf("outcome of step %q: %w", a.Name, err)
	}
	return nil
}

// happen records the outcome of a body that ran in the guest's instance, and resumes the guest there.
func (e BodyEnds) happen(t *turn) error {
	t.back(e.Lease)
	forked := t.forked(e.Lease)
	if forked {
		t.stands = guestParked
	}
	if err := (AttemptEnds{e.Attempt, e.Outcome}).happen(t); err != nil {
		return err
	}
	switch {
	case !forked || t.lease != e.Lease: // the instance was left to the body, or the run has ended
		t.tell(e.Lease, OrderSuspend)
	case t.rec.Held() || !t.active || !t.rec.Journal.Deliverable():
		t.suspend()
	default:
		t.goOn(false)
	}
	return nil
}

// happen starts the body on a copy of the workflow instead.
func (e NotForked) happen(t *turn) error {
	if !t.Has(e.Attempt) {
		return nil
	}
	if t.forked(e.Lease) {
		t.leave()
	}
	e.Attempt.Fork = nil
	t.fx.Start = append(t.fx.Start, e.Attempt)
	return nil
}

// happen starts the attempts that are still in flight.
func (e Launch) happen(t *turn) error {
	for _, a := range e.Attempts {
		if t.Has(a) {
			t.fx.Start = append(t.fx.Start, a)
		}
	}
	return nil
}

// happen stores a line of a body or step function.
func (e AttemptLogs) happen(t *turn) error {
	if t.Has(e.Attempt) && !t.rec.Ended() {
		t.rec.Log.Add(e.Line)
	}
	return nil
}
