package journal

import (
	"math"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// A wait that lasts for a time, rather than until an instant, is due at what the host's clock showed when it began, plus that
// time. A clock that was ahead for a moment would make such a wait last as long as it was ahead. So where the clock shows less
// than when the wait began, an entry of kind ClockSet says so, and the wait counts from there. Nobody knows whether the clock was
// ahead before or is behind now: where it shows what it did when the wait began, without the wait being over, the wait is due
// again when it was at first. A wait that began after the clock was set back counts from the time of the entry with which it
// began, once the clock shows that again: it had been behind. So no wait is shorter than it says, whichever was wrong, as far as
// the journal knows what the clock showed before.
//
// What waits until an instant of the calendar stays: sleep_until, the deadline of the run, the instant of its start.

// SleepsUntil is the Code of a sleep until an instant. Runs of older rules do not say so of theirs, and keep all instants.
const SleepsUntil = 1

// setBack is what a journal knows of a clock that was set back.
type setBack struct {
	restoreMs int64 // the first instant from which a wait counts from elsewhere, if the clock had been behind; 0 = there is none
	// Nothing had to be moved when the clock showed soughtMs, and the journal had so many entries.
	soughtMs  int64
	soughtLen int
	pollMs    int64 // what the poll in which the guest waits counts from; 0 = nobody knows, it was loaded
	pollWasMs int64 // what the host's clock showed before it was set back, as the guest knows it; 0 = it was not
}

// count is a wait of a handle that lasts for a time: from when it counts, when it is due, and the entry with which it began.
type count struct {
	from, due *int64
	began     *store.Entry
}

// counted returns the count of an open handle, false if it has none.
func (j *Journal) counted(h *Handle) (c count, ok bool) {
	switch s := h.Step; {
	case s != nil && s.RetryMs != 0 && !s.InFlight:
		return count{&s.RetryFrom, &s.RetryMs, &j.entries[s.RetrySeq]}, true
	case h.Kind != store.KindSleep && h.Kind != store.KindSignalWait || !h.HasDue || j.started.Rules < RulesMarkers:
		return c, false
	}
	c = count{&h.FromMs, &h.DueUnixMs, &j.entries[h.CallSeq]}
	return c, c.began.Code != SleepsUntil
}

// clockWasSet appends an entry if waits have to be moved, or moved back, since the host's clock shows now.
func (j *Journal) clockWasSet(now int64) error {
	back, restores := now < j.LastHostMs()-abi.MaxLagMs, j.restoreMs != 0 && now >= j.restoreMs
	sought := j.soughtLen == len(j.entries) && now >= j.soughtMs
	if !restores && (!back || sought) || j.CallRoom() != nil {
		return nil
	}
	any, restore := j.moveCounts(now, false)
	if !any {
		j.soughtMs, j.soughtLen, j.restoreMs = now, len(j.entries), restore
		return nil
	}
	_, err := j.append(store.Entry{Kind: store.KindClockSet}, now)
	return err
}

// counts notes that a wait counts from the instant of an entry: it is sought again once the clock shows what it did before it was
// set back.
func (j *Journal) counts(e *store.Entry) {
	if e.BehindMs > abi.MaxLagMs && (j.restoreMs == 0 || e.UnixMs < j.restoreMs) {
		j.restoreMs = e.UnixMs
	}
}

// from returns what a wait that began with an entry counts from where the host's clock shows now, if it counted from an instant
// before; and the next instant at which that may change, 0 if there is none.
func from(began *store.Entry, before, now int64) (fromMs, restoreMs int64) {
	first, was := began.HostMs(), began.UnixMs
	if began.BehindMs <= abi.MaxLagMs {
		was = first
	}
	switch {
	case now < before:
		before = now
	case now >= was:
		before = was
	case now >= first:
		before = max(before, first)
	}
	switch {
	case before < first:
		return before, first
	case before < was:
		return before, was
	}
	return before, 0
}

// moveCounts moves what counts from a later instant than now, and moves back what was moved and began before now. It reports
// whether there is anything, and does it if told so. It returns the next instant at which there may be something, 0 if there is
// none.
func (j *Journal) moveCounts(now int64, do bool) (any bool, restoreMs int64) {
	next := int64(math.MaxInt64)
	move := func(began *store.Entry, counts *int64) (to int64) {
		to, restore := from(began, *counts, now)
		if restore != 0 {
			next = min(next, restore)
		}
		any = any || to != *counts
		if do {
			*counts = to
		}
		return to
	}
	for _, id := range j.open.all {
		h := j.Handle(id)
		if h.Step != nil {
			move(&j.entries[h.CallSeq], &h.Step.FirstMs)
		}
		c, ok := j.counted(h)
		if !ok {
			continue
		}
		to := move(c.began, c.from)
		if due := min(c.began.DueUnixMs-(c.began.HostMs()-to), abi.MaxUnixMs); do && due != *c.due {
			*c.due = due
			if h.Step == nil {
				j.timers.Remove(h.ID)
				j.timers.Put(h.ID, due)
			} else {
				j.open.delayed(h)
			}
		}
	}
	if next == math.MaxInt64 {
		next = 0
	}
	if do {
		j.restoreMs = next
	}
	return any, next
}

// PollCounts says what the poll counts from in which the guest waits, and what the host's clock showed before it was set back, 0
// if it was not.
func (j *Journal) PollCounts(fromMs, wasMs int64) { j.pollMs, j.pollWasMs = max(fromMs, 1), wasMs }

// PollMoves reports whether the guest waits in a poll whose clock counts from a later instant than the host's clock shows now, or
// from an earlier one than that showed before it was set back, which it shows again: the guest has to come there anew, which the
// replay machine notes.
func (j *Journal) PollMoves(now int64) bool {
	if !j.waiting || !j.wait.Poll || !j.wait.PollDue || j.wait.Seq == 0 || j.CallRoom() != nil {
		return false
	}
	from, was := j.pollMs, j.pollWasMs
	if from == 0 {
		e := &j.entries[min(int(j.wait.Seq), len(j.entries))-1]
		from = e.HostMs()
		if e.BehindMs > 0 {
			was = e.UnixMs
		}
	}
	return now < from-abi.MaxLagMs || was != 0 && now >= was
}
