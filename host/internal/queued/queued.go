// Package queued counts the new runs that wait for a place.
package queued

import "github.com/wfhost/wfhost/store"

// Set is the new runs that wait for a place. Some of them have asked for one, with all of their state in memory. Those beyond
// that wait as keys, and are invited to ask when there is room, one of each workflow in turn.
//
// Those of a workflow that have asked, and those of a namespace, are no more than a part of all: they may be held for as long
// as they would make journals longer for which there is no memory, and others are not held then.
type Set struct {
	Limit int   // of those that have asked
	Most  int64 // bytes of their journals, about

	all    use
	of     map[Group]*use // of workflows, and of namespaces with no workflow named, that have any
	lines  map[Group]*line
	spaces map[store.NamespaceID]*space
	turns  []*space              // those that have keys; the first one is next
	waits  map[store.RunKey]bool // the runs that wait as keys
}

// Group is whose runs they are.
type Group struct {
	Namespace store.NamespaceID
	Workflow  string
}

// space returns the group of all runs of the namespace.
func (g Group) space() Group { return Group{Namespace: g.Namespace} }

// The parts that a workflow and a namespace have at most.
const (
	workflowShare = 4
	spaceShare    = 2
)

// use is what some runs take.
type use struct {
	asked   int   // runs that have asked
	bytes   int64 // of their journals
	invited int   // runs that are read, to ask then
}

// below reports whether another one may ask, of those that have a part of the set; invited says that those count that are read.
func (u *use) below(s *Set, share int, invited bool) bool {
	if u == nil {
		return true
	}
	n := u.asked
	if invited {
		n += u.invited
	}
	return n < max(s.Limit/share, 1) && u.bytes < max(s.Most/int64(share), 1)
}

// line is the runs of a workflow that wait as keys.
type line struct {
	of   Group
	keys []store.RunKey
}

// space is the lines of a namespace that have keys; the first one is next. Few of them have their part, and few spaces, so that
// it is soon found who is next, however many there are.
type space struct {
	turns []*line
}

// toBack moves element i behind the others, or takes it out.
func toBack[E any](list []E, i int, stays bool) []E {
	e := list[i]
	list = append(list[:i], list[i+1:]...)
	if stays {
		list = append(list, e)
	}
	return list
}

// Mark is what a set knows of a run. Its zero value is that of one that does not wait.
type Mark struct {
	of      Group
	asked   bool  // it has not begun, and waits for its first place
	bytes   int64 // of its journal then
	invited bool  // it waited as a key, and is read
	read    bool  // it was invited, and is to ask now: its place is kept for it
}

// Asked reports whether the run waits with its state in memory.
func (m *Mark) Asked() bool { return m.asked }

// room reports whether another run of a group may ask.
func (s *Set) room(of Group, invited bool) bool {
	return s.all.below(s, 1, invited) && s.of[of].below(s, workflowShare, invited) && s.of[of.space()].below(s, spaceShare, invited)
}

// count counts a run of a group.
func (s *Set) count(of Group, asked int, bytes int64, invited int) {
	add := func(u *use) {
		u.asked, u.bytes, u.invited = u.asked+asked, u.bytes+bytes, u.invited+invited
	}
	add(&s.all)
	if s.of == nil {
		s.of = map[Group]*use{}
	}
	for _, g := range [...]Group{of, of.space()} {
		u := s.of[g]
		if u == nil {
			u = &use{}
			s.of[g] = u
		}
		if add(u); *u == (use{}) {
			delete(s.of, g)
		}
	}
}

// Ask counts a run that asks for its first place, with the bytes of its journal, unless it has asked before. It reports false if
// there is no room: then it waits as a key.
func (s *Set) Ask(of Group, key store.RunKey, m *Mark, bytes int64) bool {
	if m.asked {
		return true
	}
	read := m.read
	m.read = false
	if !s.room(of, !read) {
		if !s.waits[key] {
			s.push(of, key)
		}
		return false
	}
	m.of, m.asked, m.bytes = of, true, bytes
	s.count(of, 1, bytes, 0)
	return true
}

// push has a run wait as a key.
func (s *Set) push(of Group, key store.RunKey) {
	if s.waits == nil {
		s.waits, s.lines, s.spaces = map[store.RunKey]bool{}, map[Group]*line{}, map[store.NamespaceID]*space{}
	}
	s.waits[key] = true
	l := s.lines[of]
	if l == nil {
		l = &line{of: of}
		s.lines[of] = l
		in := s.spaces[of.Namespace]
		if in == nil {
			in = &space{}
			s.spaces[of.Namespace] = in
			s.turns = append(s.turns, in)
		}
		in.turns = append(in.turns, l)
	}
	l.keys = append(l.keys, key)
}

// Leave counts a run that no longer waits for its first place.
func (s *Set) Leave(m *Mark) {
	m.read = false
	if m.asked {
		m.asked = false
		s.count(m.of, -1, -m.bytes, 0)
	}
}

// Next returns the next one of those that wait as keys, and takes it out, false if there is none or no room for any.
func (s *Set) Next() (of Group, key store.RunKey, ok bool) {
	if !s.all.below(s, 1, true) {
		return of, key, false
	}
	for i, in := range s.turns {
		if !s.of[in.turns[0].of.space()].below(s, spaceShare, true) {
			continue
		}
		for j, l := range in.turns {
			if s.of[l.of].below(s, workflowShare, true) {
				return l.of, s.take(i, j), true
			}
		}
	}
	return of, key, false
}

// take takes the first key of a line of a space out. Both have had their turn.
func (s *Set) take(i, j int) store.RunKey {
	in := s.turns[i]
	l := in.turns[j]
	key := l.keys[0]
	l.keys = l.keys[1:]
	delete(s.waits, key)
	if len(l.keys) == 0 {
		delete(s.lines, l.of)
	}
	in.turns = toBack(in.turns, j, len(l.keys) > 0)
	if len(in.turns) == 0 {
		delete(s.spaces, l.of.Namespace)
	}
	s.turns = toBack(s.turns, i, len(in.turns) > 0)
	return key
}

// Invite counts a run of a group that has to be read before it asks as if it had asked.
func (s *Set) Invite(of Group, m *Mark) {
	if !m.invited {
		m.of, m.invited = of, true
		s.count(of, 0, 0, 1)
	}
}

// Arrived counts a run that was invited, and has been read. It asks before anything else is asked.
func (s *Set) Arrived(m *Mark) {
	if m.invited {
		m.invited, m.read = false, true
		s.count(m.of, 0, 0, -1)
	}
}

// Len returns the number of runs that wait.
func (s *Set) Len() int { return s.all.asked + len(s.waits) }

// Asking returns the number of those that have asked.
func (s *Set) Asking() int { return s.all.asked }

// Waits reports whether a run waits as a key.
func (s *Set) Waits(key store.RunKey) bool { return s.waits[key] }
