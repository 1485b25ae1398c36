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

	// Place is the place that the attempt was admitted with; nil for a body that the guest's own instance executes.
	Place any
	// Performer belongs to the code that performs the attempt.
	Performer any

	told bool // the workflow has cancelled it
}

// attempts holds the attempts in flight, those that wait for a place, and the notices that their performers have not received
// yet.
type attempts struct {
	asks
	going     map[int64]*Attempt // by the handle of the step
	seen      int64              // the newest step considered for an attempt
	looked    int64              // the newest instant at which mayBegin has looked, in Unix milliseconds
	cancelled []*Attempt         // cancelled by the workflow
	unknown   []int64            // steps whose outcome is unknown, cancelled before they were tried again
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
		s.withdraw(h.ID)
		return h.Resolved
	}
	if !a.told {
		a.told = true
		s.cancelled = append(s.cancelled, a)
	}
	return true
}

// dropAll gives up all attempts in flight, and those that wait for a place.
func (s *attempts) dropAll() {
	s.withdrawAll()
	s.unknown = nil
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
func (s *attempts) quiet() bool {
	return len(s.cancelled) == 0 && len(s.dropped) == 0 && len(s.withdrawn) == 0 && !s.all
}

// busy reports whether attempts are in flight, or will be without waiting for anything outside the host.
func (s *attempts) busy() bool { return len(s.going) > 0 || s.soon > 0 }

// untold sets the notices for performers, and clears them.
func (s *attempts) untold(fx *Effects) {
	fx.Tell, fx.Drop, fx.Withdraw, fx.WithdrawAll = s.cancelled, s.dropped, s.withdrawn, s.all
	s.cancelled, s.dropped, s.withdrawn, s.all = nil, nil, nil, false
}
