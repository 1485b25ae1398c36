// Package queued counts the new runs that wait for a place.
package queued

import "github.com/wfhost/wfhost/store"

// Set is the new runs that wait for a place. Some of them have asked for one, with all of their state in memory. Those beyond
// that wait as keys, and are invited to ask when there is room.
type Set struct {
	Limit int   // of those that have asked
	Most  int64 // bytes of their journals, about

	asked   int                       // those that have asked
	bytes   int64                     // of their journals
	invited int                       // those that are read, to ask then
	later   []store.RunKey            // those that wait as keys
	waits   map[store.RunKey]struct{} // the same, to be found
}

// Mark is what a set knows of a run. Its zero value is that of one that does not wait.
type Mark struct {
	asked   bool  // it has not begun, and waits for its first place
	bytes   int64 // of its journal then
	invited bool  // it waited as a key, and is read
}

// Asked reports whether the run waits with its state in memory.
func (m *Mark) Asked() bool { return m.asked }

// full reports whether no other run may ask.
func (s *Set) full() bool { return s.asked+s.invited >= s.Limit || s.bytes >= s.Most }

// Ask counts a run that asks for its first place, with the bytes of its journal, unless it has asked before. It reports false if
// there is no room: then it waits as a key.
func (s *Set) Ask(key store.RunKey, m *Mark, bytes int64) bool {
	if m.asked {
		return true
	}
	if s.asked >= s.Limit || s.bytes >= s.Most {
		if _, waits := s.waits[key]; !waits {
			if s.waits == nil {
				s.waits = map[store.RunKey]struct{}{}
			}
			s.waits[key] = struct{}{}
			s.later = append(s.later, key)
		}
		return false
	}
	m.asked, m.bytes = true, bytes
	s.asked++
	s.bytes += bytes
	return true
}

// Leave counts a run that no longer waits for its first place.
func (s *Set) Leave(m *Mark) {
	if m.asked {
		m.asked = false
		s.asked--
		s.bytes -= m.bytes
	}
}

// Next returns the first of those that wait as keys, and takes it out, false if there is none or no room for it.
func (s *Set) Next() (key store.RunKey, ok bool) {
	if s.full() || len(s.later) == 0 {
		return key, false
	}
	key = s.later[0]
	s.later = s.later[1:]
	delete(s.waits, key)
	return key, true
}

// Invite counts a run that has to be read before it asks as if it had asked.
func (s *Set) Invite(m *Mark) {
	if !m.invited {
		m.invited = true
		s.invited++
	}
}

// Arrived counts a run that was invited, and has been read.
func (s *Set) Arrived(m *Mark) {
	if m.invited {
		m.invited = false
		s.invited--
	}
}

// Len returns the number of runs that wait.
func (s *Set) Len() int { return s.asked + len(s.later) }

// Asking returns the number of those that have asked.
func (s *Set) Asking() int { return s.asked }

// Waits reports whether a run waits as a key.
func (s *Set) Waits(key store.RunKey) bool {
	_, waits := s.waits[key]
	return waits
}
