package partition

import "github.com/wfhost/wfhost/store"

// starts is the new runs that wait for a place. Some of them have asked for one, with all of their state in memory. Those
// beyond that wait as keys, and are invited to ask when there is room.
type starts struct {
	limit   int                       // of those that have asked
	most    int64                     // bytes of their journals, about
	asked   int                       // those that have asked, by slot.asked
	bytes   int64                     // of their journals, by slot.bytes
	invited int                       // those that are read, to ask then, by slot.invited
	later   []store.RunKey            // those that wait as keys
	waits   map[store.RunKey]struct{} // the same, to be found
}

// full reports whether no other run may ask.
func (s *starts) full() bool { return s.asked+s.invited >= s.limit || s.bytes >= s.most }

// ask counts a run that asks for its first place, with the bytes of its journal, unless it has asked before. It reports false if
// there is no room: then it waits as a key.
func (s *starts) ask(sl *slot, bytes int64) bool {
	if sl.asked {
		return true
	}
	if s.asked >= s.limit || s.bytes >= s.most {
		if _, waits := s.waits[sl.Key]; !waits {
			if s.waits == nil {
				s.waits = map[store.RunKey]struct{}{}
			}
			s.waits[sl.Key] = struct{}{}
			s.later = append(s.later, sl.Key)
		}
		return false
	}
	sl.asked, sl.bytes = true, bytes
	s.asked++
	s.bytes += bytes
	return true
}

// leave counts a run that no longer waits for its first place.
func (s *starts) leave(sl *slot) {
	if sl.asked {
		sl.asked = false
		s.asked--
		s.bytes -= sl.bytes
	}
}

// next returns the first of those that wait as keys, and takes it out, false if there is none or no room for it.
func (s *starts) next() (key store.RunKey, ok bool) {
	if s.full() || len(s.later) == 0 {
		return key, false
	}
	key = s.later[0]
	s.later = s.later[1:]
	delete(s.waits, key)
	return key, true
}

// invite counts a run that has to be read before it asks as if it had asked.
func (s *starts) invite(sl *slot) {
	if !sl.invited {
		sl.invited = true
		s.invited++
	}
}

// arrived counts a run that was invited, and has been read.
func (s *starts) arrived(sl *slot) {
	if sl.invited {
		sl.invited = false
		s.invited--
	}
}

// len returns the number of runs that wait.
func (s *starts) len() int { return s.asked + len(s.later) }
