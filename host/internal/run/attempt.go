package run

import (
	"maps"
	"slices"

	"github.com/wfhost/wfhost/host/internal/journal"
)

// Attempt is an attempt of a step in flight.
type Attempt struct {
	Try
	// Fork is the guest that waits only for this body and whose instance may execute it. nil if there is none.
	Fork *Lease

	// Performer belongs to the code that performs the attempt.
	Performer any

	told bool // the workflow has cancelled it
}

// attempts holds the attempts in flight, and the notices that their performers have not received yet.
type attempts struct {
	going     map[int64]*Attempt // by the handle of the step
	seen      int64              // the newest step considered for an attempt
	cancelled []*Attempt         // cancelled by the workflow
	dropped   []*Attempt         // given up, as their outcome is no longer needed
}

// Attempts returns the attempts in flight, in the order of their steps.
func (s *attempts) Attempts() (list []*Attempt) {
	for _, handle := range slices.Sorted(maps.Keys(s.going)) {
		list = append(list, s.going[handle])
	}
	return list
}

// Has reports whether an attempt is in flight.
func (s *attempts) Has(a *Attempt) bool { return s.going[a.Handle] == a }

// cancel cancels a step's attempt on behalf of the workflow. It reports whether an attempt has begun: it may have had
// its effect, so the guest must learn its outcome, even if that is unknown.
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

// dropAll gives up all attempts in flight.
func (s *attempts) dropAll() {
	s.dropped = append(s.dropped, s.Attempts()...)
	clear(s.going)
}

// withdrawFork gives up the attempts planned for the instance of l: that guest has no instance.
func (s *attempts) withdrawFork(l *Lease) {
	for _, a := range s.Attempts() {
		if a.Fork == l {
			delete(s.going, a.Handle)
		}
	}
}

// quiet reports whether there are no notices for performers.
func (s *attempts) quiet() bool { return len(s.cancelled) == 0 && len(s.dropped) == 0 }

// untold returns the attempts whose performers must be told that they were cancelled or dropped, and clears both
// lists.
func (s *attempts) untold() (cancelled, dropped []*Attempt) {
	cancelled, dropped = s.cancelled, s.dropped
	s.cancelled, s.dropped = nil, nil
	return cancelled, dropped
}
