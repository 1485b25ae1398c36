package schedule

import (
	"slices"

	"github.com/wfhost/wfhost/abi"
)

// maxAsked bounds the triggers whose starts are not known to be durable. They accumulate only after crashes, or while an
// earlier trigger is refused.
const maxAsked = 100

// Asked is a trigger whose run must start at once.
type Asked struct {
	Instant
	Terminate bool `json:"terminate,omitempty"` // terminate the runs that have not ended first
}

// asked returns the action for a trigger.
func asked(a Asked, running []string) Do {
	do := Do{Start: &a.Instant}
	if a.Terminate {
		do.Terminate = slices.Clone(running)
	}
	return do
}

// triggered returns the instant of a trigger: now, or 1 ms after the newest trigger if that is not earlier. So each trigger
// has a run of its own.
func triggered(newest, now int64) Instant {
	if ahead := newest - now; ahead >= 0 && ahead < maxRetryMs { // otherwise the clock was set back
		now = newest + 1
	}
	return Instant{AtMs: now, Kind: Triggered}
}

// Trigger decides about a trigger, under a policy. If the policy starts nothing, it returns an error, and the state must not
// be committed. With Do.Start, the instant is in Asked, which must be committed before the start. Otherwise the instant is
// buffered once the runs in Do.Cancel have been cancelled.
func (s *State) Trigger(id string, policy Overlap, now int64) (do Do, err error) {
	if policy == "" {
		policy = s.Overlap
	}
	if err := CheckOverlap(policy); err != nil {
		return do, err
	}
	in, skipped, lost := triggered(s.TriggerMs, now), s.Skipped, s.Lost
	s.TriggerMs = in.AtMs
	do, _ = s.overlap(in, policy)
	switch {
	case s.Lost > lost:
		return do, abi.Errorf(abi.Limit, "%d starts of schedule %q wait already, the limit", MaxBuffered, id)
	case s.Skipped > skipped:
		return do, abi.Errorf(abi.Conflict, "schedule %q starts no run: %s, and the overlap policy is %q", id,
			s.Missed[len(s.Missed)-1].Reason, policy)
	case do.Start != nil && len(s.Asked) >= maxAsked:
		return do, abi.Errorf(abi.Limit, "%d triggers of schedule %q have not come to a start yet, the limit", maxAsked, id)
	case do.Start != nil:
		s.Asked = append(s.Asked, Asked{in, len(do.Terminate) > 0})
	}
	return do, nil
}

// fill decides about the first backfill.
func (s *State) fill(idle bool) (do Do, ok bool) {
	for len(s.Backfills) > 0 {
		b := &s.Backfills[0]
		if !b.All && (!idle || s.waiting() > 0) {
			return do, false
		}
		if at, has := s.after(b.AfterMs); has && at <= b.ToMs {
			return Do{Start: &Instant{AtMs: at, Kind: Filled}}, true
		}
		s.Backfills = s.Backfills[1:]
	}
	return do, false
}

// checkFill refuses a backfill with more than MaxFill instants.
func (s *State) checkFill(afterMs, toMs int64) error {
	last := afterMs
	for range MaxFill {
		at, ok := s.after(last)
		if !ok || at > toMs {
			return nil
		}
		last = at
	}
	if at, ok := s.after(last); !ok || at > toMs {
		return nil
	}
	return abi.Errorf(abi.InvalidArgument, "a backfill has at most %d instants, and from %s to %s there are more: fill the range "+
		"in parts, the first of them to %s", MaxFill, instant(afterMs+1), instant(toMs), instant(last))
}

// Found notes that an instant already has a run. Either a crash prevented the commit after its start, or the run is older
// than the backfill.
func (s *State) Found(in Instant, run string, f *Found, now int64) {
	if in.Kind == Filled && len(s.Backfills) > 0 && f.CreatedMs < s.Backfills[0].AskedMs {
		s.advance(in)
		s.RunLives(run, f.Live)
		return
	}
	s.Fired(in, run, f.Live, now)
}
