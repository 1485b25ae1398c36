// Package busy counts runs that were woken and have not come to rest, and says when the next one may be woken.
package busy

// ForMs is how long a run that was woken keeps others from being woken. One that computes for long, or whose disk is slow,
// does not hold them up: they are woken as if it had come to rest.
const ForMs = 20

// Set is the runs that were woken and have not come to rest. Its zero value has none.
type Set struct {
	Limit int // of those that were woken within ForMs

	count int
	fresh int      // of them, those that were woken within ForMs
	since []newest // of those, the one woken first at the front; some have come to rest meanwhile
}

type newest struct {
	mark *Mark
	ms   int64
}

// Mark is what a set knows of a run. Its zero value is that of one that is not in the set.
type Mark struct {
	in, fresh bool
	ms        int64 // when it was woken
}

// In reports whether the run is in the set, and Fresh whether it still keeps others from being woken.
func (m *Mark) In() bool    { return m.in }
func (m *Mark) Fresh() bool { return m.fresh }

// Len returns how many runs are in the set, and Fresh how many of them keep others from being woken.
func (s *Set) Len() int   { return s.count }
func (s *Set) Fresh() int { return s.fresh }

// Add adds a run that is woken now, in milliseconds.
func (s *Set) Add(nowMs int64, m *Mark) {
	if m.in {
		return
	}
	s.expire(nowMs)
	m.in, m.fresh, m.ms = true, true, nowMs
	s.count++
	s.fresh++
	s.since = append(s.since, newest{m, nowMs})
}

// Remove removes a run that comes to rest, if it is in the set.
func (s *Set) Remove(m *Mark) {
	if m.in {
		m.in = false
		s.count--
	}
	s.stale(m)
}

func (s *Set) stale(m *Mark) {
	if m.fresh {
		m.fresh = false
		s.fresh--
	}
}

// expire forgets since when runs are in the set that have been for long, or no longer are. Those of a clock that was set back
// are forgotten, too.
func (s *Set) expire(nowMs int64) {
	for len(s.since) > 0 {
		f := s.since[0]
		current := f.mark.fresh && f.mark.ms == f.ms
		if current && nowMs >= f.ms && nowMs < f.ms+ForMs {
			return
		}
		if current {
			s.stale(f.mark)
		}
		s.since[0] = newest{}
		s.since = s.since[1:]
	}
}

// Full reports whether no other run may be woken.
func (s *Set) Full(nowMs int64) bool {
	if s.fresh >= s.Limit {
		s.expire(nowMs)
	}
	return s.fresh >= s.Limit
}

// Next returns the instant at which another run may be woken though none comes to rest, false if one may be now.
func (s *Set) Next() (ms int64, full bool) {
	if s.fresh < s.Limit {
		return 0, false
	}
	return s.since[0].ms + ForMs, true // at the latest, and then the one behind it is looked at
}
