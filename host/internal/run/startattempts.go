package run

import (
	"fmt"
	"slices"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
)

// startAttempts prepares the attempts that may begin now, appends their records, and starts them once these are
// durable. canFork reports whether the instance of the waiting guest can execute a body, which needs no place then.
func (t *transition) startAttempts(canFork bool) error {
	if t.rec.Blocked() {
		return nil
	}
	first, ids := len(t.fx.Start), t.mayBegin()
	if canFork = canFork && len(ids) == 1 && len(t.going) == 0 && !t.rec.Journal.Deliverable(); canFork {
		try := NewTry(AttemptSubject{}, t.rec.Journal, t.rec.Journal.Handle(ids[0]), 1, t.now)
		canFork = try.Alone()
	}
	for _, id := range ids {
		h := t.rec.Journal.Handle(id)
		var place any
		if !canFork {
			var ok bool
			if place, ok = t.admit(h); !ok {
				continue
			}
		}
		err := t.begins(h, place)
		if t.rec.Blocked() { // by this attempt: its step is poison, or the journal has no room for its record
			return nil
		}
		if err != nil {
			return err
		}
	}
	// If an at-most-once step has just failed because its attempt was lost, the guest continues instead.
	if canFork && len(t.fx.Start) == first+1 && !t.rec.Journal.Deliverable() {
		t.fx.Start[first].Fork, t.stands = t.lease, guestForked
	}
	return nil
}

// begins begins the next attempt of a step, or returns its place if there is none to make.
func (t *transition) begins(h *journal.Handle, place any) error {
	a, err := t.prepare(h)
	if a == nil || err != nil || t.rec.Blocked() {
		if place != nil {
			t.fx.Return = append(t.fx.Return, place)
		}
		return err
	}
	a.Place = place
	t.going[h.ID] = a
	t.fx.Start = append(t.fx.Start, a)
	return nil
}

// mostDue is how many due steps mayBegin checks one by one. If there are more, it walks all open steps.
const mostDue = 64

// mayBegin returns the open steps whose next attempt may begin now, in call order: none is in flight or waits for a
// place, and the delay has passed. Most events of a run with thousands of open steps find at most one such step, without a
// walk over all of them.
func (t *transition) mayBegin() (ids []int64) {
	j := t.rec.Journal
	choose := func(list []int64) {
		for _, id := range list {
			if t.idle(id) && j.Handle(id).Step.RetryMs <= t.now && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	due, later, few := j.DueSteps(t.now, mostDue)
	called := j.StepsAfter(t.seen)
	if len(called) > 0 {
		t.seen = called[len(called)-1]
	}
	setBack := t.now < t.looked // then steps may wait for a place that count as later
	t.looked = max(t.looked, t.now)
	if few && len(called) <= mostDue && !setBack {
		choose(due)
		choose(called)
		if len(ids)+len(t.going)+len(t.verdicts)+later == j.OpenSteps() {
			slices.Sort(ids)
			return ids
		}
	}
	// The attempts of some steps were given up, or their places returned.
	ids = nil
	for _, id := range j.StepsAfter(0) {
		if t.idle(id) && j.Handle(id).Step.RetryMs <= t.now {
			ids = append(ids, id)
		}
	}
	return ids
}

// idle reports whether no attempt of a step is in flight or waits for a place.
func (s *attempts) idle(handle int64) bool {
	_, asks := s.verdicts[handle]
	return !asks && s.going[handle] == nil
}

// prepare returns the next attempt of a step, or nil if there is none to make.
func (t *transition) prepare(h *journal.Handle) (*Attempt, error) {
	n := NextAttemptOf(h, t.rec.Restored)
	if at := slices.Index(t.unknown, h.ID); at >= 0 {
		t.unknown = slices.Delete(t.unknown, at, at+1)
		e, err := failure(t.rec.Journal, h, n.Number-1, 0, &abi.Error{Code: abi.StepFailed, Kind: abi.KindUnknown,
			Message: "the host stopped during an attempt, and the step was cancelled before it was tried again; nobody knows the outcome"})
		if err != nil {
			return nil, err
		}
		return nil, t.append(e)
	}
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

// apply records the outcome of an attempt, unless the attempt was given up.
func (e AttemptEnds) apply(t *transition) error {
	a := e.Attempt
	if !t.Has(a) {
		return nil
	}
	delete(t.going, a.Handle)
	if t.forked(a.Fork) { // its instance ended with it
		t.dropGuest()
	}
	if e.Outcome.Abandoned {
		t.mayHaveBegun(a)
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
		t.mayHaveBegun(a)
		t.fx.Unrecorded = fmt.Errorf("outcome of step %q: %w", a.Name, err)
	}
	return nil
}

// mayHaveBegun notes that an attempt that may have begun was given up: once the run has been loaded again, its next attempt
// counts as another.
func (t *transition) mayHaveBegun(a *Attempt) { t.rec.givenUp = max(t.rec.givenUp, int(a.Seq)+1) }

// apply records the outcome of a body that ran in the guest's instance, and resumes the guest there.
func (e BodyEnds) apply(t *transition) error {
	t.back(e.Lease)
	forked := t.forked(e.Lease)
	if forked {
		t.stands = guestParked
	}
	if err := (AttemptEnds{e.Attempt, e.Outcome}).apply(t); err != nil {
		return err
	}
	switch {
	case !forked || t.lease != e.Lease: // the instance was left to the body, or the run has ended
		t.tell(e.Lease, OrderSuspend)
	case t.rec.Blocked() || !t.active || !t.rec.Journal.Deliverable():
		t.suspend()
	default:
		t.goOn(false)
	}
	return nil
}

// apply starts the body on a copy of the workflow instead.
func (e NotForked) apply(t *transition) error {
	if !t.Has(e.Attempt) {
		return nil
	}
	if t.forked(e.Lease) {
		t.dropGuest()
	}
	e.Attempt.Fork = nil
	t.fx.Start = append(t.fx.Start, e.Attempt)
	return nil
}

// apply starts the attempts that are still in flight.
func (e Launch) apply(t *transition) error {
	for _, a := range e.Attempts {
		if t.Has(a) {
			t.fx.Start = append(t.fx.Start, a)
		}
	}
	return nil
}

// apply stores a line of a body or step function.
func (e AttemptLogs) apply(t *transition) error {
	if t.Has(e.Attempt) && !t.rec.Ended() {
		t.rec.Log.Add(e.Line)
	}
	return nil
}
