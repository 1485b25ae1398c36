package journal

import (
	"encoding/json"
	"slices"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// FireDue appends the deliveries of all timers whose deadline is at most the given time, in the order (deadline, handle). The
// clock of a waiting poll is one of them if its deadline is the first and the poll can take nothing else. The time is that of the
// host's clock, which may be less than that of the newest entry: a timer that was set after the clock was set back is due by it.
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

// Deadline returns when the run's own deadline tells its guest to end, or ends it; false if it has none, or has ended.
func (j *Journal) Deadline() (unixMs int64, ok bool) {
	if j.end != store.KindInvalid || j.why != store.NotAside {
		return 0, false
	}
	e, ok := j.runDeadline()
	return e.DueUnixMs, ok
}

// unlessEnded returns an error, unless it says that the run ended: by an entry for which there was no room.
func (j *Journal) unlessEnded(err error) error {
	if j.end != store.KindInvalid {
		return nil
	}
	return err
}

// firstDue gives the delivery of the earliest timer. A timer goes before a poll's clock of the same instant,
// since the clock is only given when nothing else can be taken.
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

// runDeadline returns the entry that follows when the run's own deadline has passed. A run that handles cancellation is
// cancelled, and fails a minute later; any other fails at once, as does one that has not begun its first iteration.
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

// pollClock gives the deadline of the poll in which the guest waits, if it has one and can take nothing else.
func (j *Journal) pollClock() (int64, bool) {
	if !j.waiting || !j.wait.Poll || !j.wait.PollDue || j.Deliverable() {
		return 0, false
	}
	return j.wait.PollDueUnixMs, true
}

// Deliverable tells whether an entry after the suspension is one that the waiting guest would take. It is
// false while the guest does not wait.
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

// Wake gives the earliest instant at which something of this run comes due by itself: a timer, the delay of
// a retry, or the clock of the poll in which the guest waits.
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

// WakeAfter returns the earliest instant after the given one at which something of this run comes due by itself. What is
// due by then was appended, or waits for something else than time.
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

// Skip resolves pending sleeps before their time: those of the given name, or all and the poll's clock if the
// name is empty. It returns the number of timers that it resolved.
//
// Without a name, time is skipped: the entries hold their deadlines, and the run's monotonic clock moves by what was left. With
// one, that sleep alone ends: its entry holds no deadline, and no other timer of the run comes nearer. A run that waits for the
// instant of its start begins, if there is no name: its activation is recorded, and counts as one timer.
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
