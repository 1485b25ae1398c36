package journal

import (
	"math"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// A wait for a duration is due at its start by the host's clock, plus the duration. If the clock was ahead at the start and is
// then set back, the wait would be too long by the difference. So when the clock shows less than at the start of a wait, an entry
// of kind ClockSet moves the wait: it now counts from the clock at that entry.
//
// The host cannot tell whether the clock was ahead before or is behind now. So the move is undone if the clock again shows the
// start of the wait before the wait is over: the wait gets its first deadline back. A wait that began while the clock was behind
// counts from the journal time of its first entry once the clock shows that time. So no wait is shorter than requested,
// whichever reading was wrong, as far as the journal knows earlier readings.
//
// Waits until an instant of the calendar do not move: sleep_until, the deadline of the run, the instant of its start.

// SleepsUntil is the Code of a sleep until an instant. Runs before RulesMarkers do not set it; their sleeps and signal waits
// never move.
const SleepsUntil = 1

// setBack tracks a host clock that was set back.
type setBack struct {
	restoreMs int64 // earliest instant at which moved waits must be moved back; 0 = none
	// The newest search found no wait to move, at clock soughtMs with soughtLen entries.
	soughtMs  int64
	soughtLen int
	pollMs    int64 // instant from which the waiting poll counts; 0 = unknown until PollCounts
	pollWasMs int64 // host's clock before it was set back, as the guest knows it; 0 = not set back
}

// count is a handle's wait for a duration: the instant from which it counts, its deadline, and its first entry.
type count struct {
	from, due *int64
	began     *store.Entry
}

// counted returns the count of an open handle; false if the handle waits for no duration.
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

// clockWasSet appends a ClockSet entry if waits must be moved, or moved back, for a host clock that shows now. It does nothing
// while the journal has no room for calls.
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

// counts notes a wait that begins at an entry. If the clock was behind there, waits are searched again when the clock shows the
// entry's journal time.
func (j *Journal) counts(e *store.Entry) {
	if e.BehindMs > abi.MaxLagMs && (j.restoreMs == 0 || e.UnixMs < j.restoreMs) {
		j.restoreMs = e.UnixMs
	}
}

// from returns the instant from which a wait must count when the host's clock shows now. began is the wait's first entry, before
// the instant from which it counted so far. restoreMs is the next instant at which the answer may change, 0 if none.
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

// moveCounts moves waits that count from a later instant than now to now, and moves back moved waits that began before now. any
// reports whether a wait has to move. Waits move only if do is set. restoreMs is the next instant at which moveCounts must be
// called again, 0 if none.
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

// PollCounts sets the instant from which the waiting poll counts, and the host's clock before it was set back; wasMs is 0 if it
// was not.
func (j *Journal) PollCounts(fromMs, wasMs int64) { j.pollMs, j.pollWasMs = max(fromMs, 1), wasMs }

// PollMoves reports whether the guest must compute up to its poll again because the host's clock was set: the clock is now before
// the instant from which the poll counts, or shows again what it showed before it was set back. The replay machine then moves
// the guest's clock.
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
