package shard

import (
	"github.com/wfhost/wfhost/host/internal/fairqueue"
	"github.com/wfhost/wfhost/store"
)

// startBacklog holds the new runs that wait for their first place: the right to compute. Up to Limit of them have asked
// for one, with all of their state in memory. The others wait as keys. When there is room, they are invited to ask:
// namespaces take turns, and so do the workflows of a namespace.
//
// A workflow may use a quarter of the set, and a namespace half of it. Their runs may be held up for a long time when
// there is no memory for their journals; the runs of other workflows and namespaces still get their places then.
type startBacklog struct {
	Limit int   // runs that have asked, at most
	Most  int64 // bytes of the journals of runs that have asked, roughly at most

	all        use                                     // of all runs
	of         map[backlogGroup]*use                   // by workflow, and by namespace with Workflow empty; zero entries are removed
	workflows  map[backlogGroup]*waitingKeys           // by workflow; only workflows with waiting keys
	namespaces map[store.NamespaceID]*waitingWorkflows // only namespaces with waiting keys
	turns      fairqueue.Turns[*waitingWorkflows]
	waits      map[store.RunKey]bool // the runs that wait as keys
}

// backlogGroup identifies a workflow, or a namespace if Workflow is empty.
type backlogGroup struct {
	Namespace store.NamespaceID
	Workflow  string
}

// namespace returns the group of all runs of the namespace.
func (g backlogGroup) namespace() backlogGroup { return backlogGroup{Namespace: g.Namespace} }

// A workflow may use 1/workflowShare of Limit and Most, and a namespace 1/namespaceShare.
const (
	workflowShare  = 4
	namespaceShare = 2
)

// use is what a group uses of the set.
type use struct {
	asked   int   // runs that have asked
	bytes   int64 // of the journals of the runs that have asked
	invited int   // invited runs that are still being read
}

// below reports whether a group that uses u may have another run, where the group's limits are 1/share of the set's. If
// invited is true, invited runs count too.
func (u *use) below(s *startBacklog, share int, invited bool) bool {
	if u == nil {
		return true
	}
	n := u.asked
	if invited {
		n += u.invited
	}
	return n < max(s.Limit/share, 1) && u.bytes < max(s.Most/int64(share), 1)
}

// waitingKeys holds the runs of a workflow that wait as keys.
type waitingKeys struct {
	of   backlogGroup
	keys []store.RunKey
	in   *waitingWorkflows
	turn fairqueue.Turn[*waitingKeys] // in its namespace
}

// waitingWorkflows orders the workflows of a namespace with waiting runs. Few workflows and namespaces use their whole part at
// any time, so the search for the next one is short however many there are.
type waitingWorkflows struct {
	of    backlogGroup
	turns fairqueue.Turns[*waitingKeys]
	turn  fairqueue.Turn[*waitingWorkflows]
}

// backlogState is the state of a run in a startBacklog. The zero backlogState does not wait.
type backlogState struct {
	of      backlogGroup
	asked   bool  // it waits for its first place with its state in memory
	bytes   int64 // of its journal when it asked
	invited bool  // it waited as a key, and is being read
	read    bool  // it was invited and has been read; it asks next, and Ask does not count other invited runs against it
}

// Asked reports whether the run waits with its state in memory.
func (m *backlogState) Asked() bool { return m.asked }

// room reports whether another run of a group may ask.
func (s *startBacklog) room(of backlogGroup, invited bool) bool {
	return s.all.below(s, 1, invited) && s.of[of].below(s, workflowShare, invited) &&
		s.of[of.namespace()].below(s, namespaceShare, invited)
}

// count adds to the use of a workflow, of its namespace, and of the whole set.
func (s *startBacklog) count(of backlogGroup, asked int, bytes int64, invited int) {
	add := func(u *use) {
		u.asked, u.bytes, u.invited = u.asked+asked, u.bytes+bytes, u.invited+invited
	}
	add(&s.all)
	if s.of == nil {
		s.of = map[backlogGroup]*use{}
	}
	for _, g := range [...]backlogGroup{of, of.namespace()} {
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

// Ask counts a run that asks for its first place, with the bytes of its journal, unless it has asked before. It returns
// false if there is no room; the run then waits as a key.
func (s *startBacklog) Ask(of backlogGroup, key store.RunKey, m *backlogState, bytes int64) bool {
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

// push adds a run to the keys of its workflow.
func (s *startBacklog) push(of backlogGroup, key store.RunKey) {
	if s.waits == nil {
		s.waits = map[store.RunKey]bool{}
	}
	if s.workflows == nil {
		s.workflows, s.namespaces = map[backlogGroup]*waitingKeys{}, map[store.NamespaceID]*waitingWorkflows{}
	}
	s.waits[key] = true
	l := s.workflows[of]
	if l == nil {
		l = &waitingKeys{of: of, in: s.namespaces[of.Namespace]}
		l.turn.Group = l
		s.workflows[of] = l
		if l.in == nil {
			l.in = &waitingWorkflows{of: of.namespace()}
			l.in.turn.Group = l.in
			s.namespaces[of.Namespace] = l.in
			s.turns.Join(&l.in.turn)
		}
		l.in.turns.Join(&l.turn)
	}
	l.keys = append(l.keys, key)
}

// Leave counts a run that no longer waits for its first place.
func (s *startBacklog) Leave(m *backlogState) {
	m.read = false
	if m.asked {
		m.asked = false
		s.count(m.of, -1, -m.bytes, 0)
	}
}

// Next removes and returns the key of the next run to invite. It returns false if no run waits as a key or there is no room.
func (s *startBacklog) Next() (of backlogGroup, key store.RunKey, ok bool) {
	if !s.all.below(s, 1, true) {
		return of, key, false
	}
	var l *fairqueue.Turn[*waitingKeys]
	if s.turns.First(func(in *waitingWorkflows) bool {
		if s.of[in.of].below(s, namespaceShare, true) {
			l = in.turns.First(func(l *waitingKeys) bool { return s.of[l.of].below(s, workflowShare, true) })
		}
		return l != nil
	}) == nil {
		return of, key, false
	}
	return l.Group.of, s.take(l.Group), true
}

// take removes the first key of a workflow. This is a turn of the workflow and of its namespace.
func (s *startBacklog) take(l *waitingKeys) store.RunKey {
	key := l.keys[0]
	l.keys[0] = store.RunKey{} // else its id would stay in memory
	l.keys = l.keys[1:]
	if delete(s.waits, key); len(s.waits) == 0 {
		s.waits = nil // a map never shrinks
	}
	l.in.turns.Had(&l.turn)
	s.turns.Had(&l.in.turn)
	if len(l.keys) == 0 {
		delete(s.workflows, l.of)
		l.in.turns.Leave(&l.turn)
	}
	if l.in.turns.Len() == 0 {
		delete(s.namespaces, l.of.Namespace)
		s.turns.Leave(&l.in.turn)
	}
	return key
}

// Invite counts a run that must be read before it can ask. Until it has been read, it takes room as if it had asked.
func (s *startBacklog) Invite(of backlogGroup, m *backlogState) {
	if !m.invited {
		m.of, m.invited = of, true
		s.count(of, 0, 0, 1)
	}
}

// Arrived counts an invited run that has been read. The caller calls Ask for it before it makes any other call.
func (s *startBacklog) Arrived(m *backlogState) {
	if m.invited {
		m.invited, m.read = false, true
		s.count(m.of, 0, 0, -1)
	}
}

// Len returns the number of waiting runs.
func (s *startBacklog) Len() int { return s.all.asked + len(s.waits) }

// Asking returns the number of runs that have asked.
func (s *startBacklog) Asking() int { return s.all.asked }

// Waits reports whether a run waits as a key.
func (s *startBacklog) Waits(key store.RunKey) bool { return s.waits[key] }
