package journal

import (
	"encoding/json"
	"slices"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// FireDue appends the deliveries of all timers with a deadline at or before the given time, in the order (deadline, handle). It
// includes the clock of a waiting poll if the poll can take nothing else, and the deadline of the run. nowUnixMs is the host's
// clock. It may be less than the time of the newest entry: timers set after the clock was set back are due by the host's clock.
func (j *Journal) FireDue(nowUnixMs int64) error {
	if j.end != store.KindInvalid || j.why != store.NotAside {
		return nil
	}
	if err := j.clockWasSet(nowUnixMs); err != nil {
		return err
	}
	for {
		e, ok := j.firstDue()
		if !ok || e.DueUnixMs > nowUnixMs {
			return nil
		}
		if e.Kind == store.KindFailed { // the run's deadline, which ends it
			e.DueUnixMs, e.HasDue = 0, false
			_, err := j.append(e, nowUnixMs)
			return err
		}
		if e.Kind == store.KindTimer || e.Kind == store.KindSignalTimeout || e.Kind == store.KindCancel {
			e.DueUnixMs, e.HasDue = 0, false // the call entry has the deadline
		}
		if _, err := j.append(e, nowUnixMs); err != nil {
			return j.unlessEnded(err)
		}
	}
}

// Deadline returns when the run's own deadline next cancels or fails the run; false if there is none, or
// the run has ended or is set aside.
func (j *Journal) Deadline() (unixMs int64, ok bool) {
	if j.end != store.KindInvalid || j.why != store.NotAside {
		return 0, false
	}
	e, ok := j.runDeadline()
	return e.DueUnixMs, ok
}

// unlessEnded returns nil if the run has ended because there was no room for an entry, else err.
func (j *Journal) unlessEnded(err error) error {
	if j.end != store.KindInvalid {
		return nil
	}
	return err
}

// firstDue returns the delivery of the earliest timer, poll clock or run deadline. At the same instant, a timer goes before a
// poll's clock, because a poll gets the clock only if it can take nothing else.
func (j *Journal) firstDue() (e store.Entry, ok bool) {
	if id, due, has := j.timers.First(); has {
		e, ok = store.Entry{Kind: store.KindTimer, Handle: id, DueUnixMs: due}, true
		if j.Handle(id).Kind == store.KindSignalWait {
			e.Kind = store.KindSignalTimeout
		}
	}
	if due, has := j.pollClock(); has && (!ok || due < e.DueUnixMs) {
		e, ok = store.Entry{Kind: store.KindClock, DueUnixMs: due, HasDue: true}, true
	}
	if d, has := j.runDeadline(); has && (!ok || d.DueUnixMs < e.DueUnixMs) {
		e, ok = d, true
	}
	return e, ok
}

// runDeadline returns the entry to append when the run's own deadline has passed. A run that handles cancellation is
// cancelled, and fails after another abi.CancelGraceMs. Other runs, and runs that have not begun their first iteration, fail at
// once.
func (j *Journal) runDeadline() (e store.Entry, ok bool) {
	due := j.started.DeadlineUnixMs
	if due == 0 {
		return e, false
	}
	if j.policy == abi.CancelCooperative && (j.activeMs != 0 || j.started.Iteration > 0) {
		if j.cancelMs == 0 {
			return store.Entry{Kind: store.KindCancel, DueUnixMs: due}, true
		}
		due = max(due, j.cancelMs) + abi.CancelGraceMs
	}
	e = store.Entry{Kind: store.KindFailed, DueUnixMs: due}
	e.Data, _ = json.Marshal(&abi.Error{Code: abi.Timeout, Kind: abi.KindTimeout, // strings always encode
		Message: "the run did not end within the time that its start gave it"})
	return e, true
}

// pollClock returns the deadline of the waiting poll, if it has one and can take nothing else.
func (j *Journal) pollClock() (int64, bool) {
	if !j.waiting || !j.wait.Poll || !j.wait.PollDue || j.Deliverable() {
		return 0, false
	}
	return j.wait.PollDueUnixMs, true
}

// Deliverable reports whether the waiting guest can take an entry after the suspension. It is false while the guest does not
// wait.
func (j *Journal) Deliverable() bool {
	if !j.waiting {
		return false
	}
	for ; j.looked < len(j.entries); j.looked++ {
		if j.takes(&j.entries[j.looked]) {
			return true
		}
	}
	return false
}

func (j *Journal) takes(e *store.Entry) bool {
	switch {
	case !e.Kind.Delivery():
		return false
	case e.Kind == store.KindCancel:
		return !j.wait.Poll || j.wait.Events
	case e.Kind == store.KindClock:
		return j.wait.Poll
	case j.wait.Poll:
		return j.wait.Events && !j.Handle(e.Handle).Withdrawn
	case len(j.wait.Awaited) == 0:
		return !j.Handle(e.Handle).Withdrawn
	}
	return slices.Contains(j.wait.Awaited, e.Handle)
}

// Wake returns the earliest deadline of the run: of a timer, a delayed attempt, the clock of the waiting poll, or the run
// itself.
func (j *Journal) Wake() (unixMs int64, ok bool) {
	if j.end != store.KindInvalid {
		return 0, false
	}
	if e, has := j.firstDue(); has {
		unixMs, ok = e.DueUnixMs, true
	}
	if _, due, has := j.open.retries.First(); has && (!ok || due < unixMs) {
		unixMs, ok = due, true
	}
	return unixMs, ok
}

// WakeAfter returns the earliest deadline of the run after the given instant. Deadlines up to then were appended, or do not
// wait for time.
func (j *Journal) WakeAfter(afterUnixMs int64) (unixMs int64, ok bool) {
	if j.end != store.KindInvalid {
		return 0, false
	}
	if e, has := j.firstDue(); has && e.DueUnixMs > afterUnixMs {
		unixMs, ok = e.DueUnixMs, true
	}
	if at, has := j.retry(afterUnixMs); has && (!ok || at < unixMs) {
		unixMs, ok = at, true
	}
	return unixMs, ok
}

// Skip resolves open sleeps before their deadline and returns the number of resolved timers. With a name, it resolves the
// sleeps of that name; without, it resolves all sleeps and the poll's clock.
//
// Without a name, Skip skips time: the entries hold their deadlines, and the run's monotonic clock moves by the skipped time.
// With a name, only those sleeps end: their entries hold no deadline, and other timers come no nearer. If the run waits for
// the instant of its start and there is no name, Skip records its activation, which counts as one timer.
func (j *Journal) Skip(name string, nowUnixMs int64) (int, error) {
	if err := j.FireDue(nowUnixMs); err != nil {
		return 0, err
	}
	n := 0
	if name == "" && j.activeMs == 0 && j.started.AtUnixMs > nowUnixMs {
		_, err := j.append(store.Entry{Kind: store.KindActivated}, nowUnixMs)
		return 1, j.unlessEnded(err)
	}
	for h := range j.Sleeps {
		if name != "" && h.Name != name {
			continue
		}
		e := store.Entry{Kind: store.KindTimer, Handle: h.ID, Skipped: true}
		if name == "" {
			e.DueUnixMs, e.HasDue = h.DueUnixMs, true
		}
		if _, err := j.append(e, nowUnixMs); err != nil {
			return n, j.unlessEnded(err)
		}
		n++
	}
	if due, ok := j.pollClock(); ok && name == "" {
		e := store.Entry{Kind: store.KindClock, DueUnixMs: due, HasDue: true, Skipped: true}
		if _, err := j.append(e, nowUnixMs); err != nil {
			return n, j.unlessEnded(err)
		}
		n++
	}
	return n, nil
}
