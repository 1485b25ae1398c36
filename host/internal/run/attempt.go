package run

import (
	"maps"
	"slices"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/step"
)

// Attempt is a try of a step that goes on.
type Attempt struct {
	step.Try
	// Fork is the guest that waits for nothing but this body, and whose instance may execute it; nil if there is none.
	Fork *Lease

	// Performer is for whoever performs the attempt.
	Performer any

	told bool // the workflow has cancelled it
}

// attempts are those that go on, and what has still to be said to who performs them.
type attempts struct {
	going     map[int64]*Attempt // by the handle of the step
	seen      int64              // the newest step that was considered for an attempt
	cancelled []*Attempt         // by the workflow
	dropped   []*Attempt         // since nobody is interested in their outcome any more
}

// Attempts returns the attempts that go on, in the order of their steps.
func (s *attempts) Attempts() (list []*Attempt) {
	for _, handle := range slices.Sorted(maps.Keys(s.going)) {
		list = append(list, s.going[handle])
	}
	return list
}

// Has reports whether an attempt is one that goes on.
func (s *attempts) Has(a *Attempt) bool { return s.going[a.Handle] == a }

// cancel reports whether an attempt of a step has begun whose outcome the guest has to learn, known or not: it may have
// had its effect. It is told that the workflow has cancelled it.
func (s *attempts) cancel(h *journal.Handle) bool {
	if h == nil || h.Step == nil {
		return false
	}
	a := s.going[h.ID]
	if a == nil {
		return h.Resolved
	}
	if !a.told {
		a.told = true
		s.cancelled = append(s.cancelled, a)
	}
	return true
}

// dropAll gives up what goes on.
func (s *attempts) dropAll() {
	s.dropped = append(s.dropped, s.Attempts()...)
	clear(s.going)
}

// withdrawFork takes back the attempts that were to be made in the instance of a guest that has none.
func (s *attempts) withdrawFork(l *Lease) {
	for _, a := range s.Attempts() {
		if a.Fork == l {
			delete(s.going, a.Handle)
		}
	}
}

// quiet reports whether nothing has to be said.
func (s *attempts) quiet() bool { return len(s.cancelled) == 0 && len(s.dropped) == 0 }

// untold returns to which attempts it has to be said that they were cancelled, or dropped, and does so once.
func (s *attempts) untold() (cancelled, dropped []*Attempt) {
	cancelled, dropped = s.cancelled, s.dropped
	s.cancelled, s.dropped = nil, nil
	return cancelled, dropped
}
