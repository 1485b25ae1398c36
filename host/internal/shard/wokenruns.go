package shard

// freshMs is how long a woken run counts against the limit, in milliseconds. A run that computes longer, or whose disk is
// slow, does not hold up the next ones: after freshMs it counts as if it had come to rest.
const freshMs = 20

// wokenRuns holds the runs that were woken and have not come to rest, and limits how many more may be woken. A run is
// fresh until freshMs after it was woken, and counts against Limit while it is fresh. The zero wokenRuns is empty.
type wokenRuns struct {
	Limit int // fresh runs, at most

	count int        // all runs in the set
	fresh int        // fresh runs
	since []wokenRun // fresh runs, oldest first; also runs that have come to rest meanwhile
}

type wokenRun struct {
	state *wokenState
	ms    int64
}

// wokenState is the state of a run in a wokenRuns. The zero wokenState is not in the set.
type wokenState struct {
	in, fresh bool
	ms        int64 // when the run was woken
}

// In reports whether the run is in the set, and Fresh whether it counts against the limit.
func (m *wokenState) In() bool    { return m.in }
func (m *wokenState) Fresh() bool { return m.fresh }

// Len returns the number of runs in the set, and Fresh how many of them count against the limit.
func (s *wokenRuns) Len() int   { return s.count }
func (s *wokenRuns) Fresh() int { return s.fresh }

// Add adds a run that is woken at nowMs. It does nothing if the run is in the set.
func (s *wokenRuns) Add(nowMs int64, m *wokenState) {
	if m.in {
		return
	}
	s.expire(nowMs)
	m.in, m.fresh, m.ms = true, true, nowMs
	s.count++
	s.fresh++
	s.since = append(s.since, wokenRun{m, nowMs})
}

// Remove removes a run that comes to rest. It does nothing if the run is not in the set.
func (s *wokenRuns) Remove(m *wokenState) {
	if m.in {
		m.in = false
		s.count--
	}
	s.stale(m)
}

func (s *wokenRuns) stale(m *wokenState) {
	if m.fresh {
		m.fresh = false
		s.fresh--
	}
}

// expire removes from the front of since the runs that are no longer fresh. A run whose instant is after nowMs is
// removed too: the clock was set back.
func (s *wokenRuns) expire(nowMs int64) {
	for len(s.since) > 0 {
		f := s.since[0]
		current := f.state.fresh && f.state.ms == f.ms
		if current && nowMs >= f.ms && nowMs < f.ms+freshMs {
			return
		}
		if current {
			s.stale(f.state)
		}
		s.since[0] = wokenRun{}
		s.since = s.since[1:]
	}
}

// Full reports whether the limit is reached, so that no other run may be woken.
func (s *wokenRuns) Full(nowMs int64) bool {
	if s.fresh >= s.Limit {
		s.expire(nowMs)
	}
	return s.fresh >= s.Limit
}

// Next returns the instant at which another run may be woken even if no run comes to rest, and false if one may be woken now.
func (s *wokenRuns) Next() (ms int64, full bool) {
	if s.fresh < s.Limit {
		return 0, false
	}
	return s.since[0].ms + freshMs, true // too early if the front has come to rest; expire removes it then
}
