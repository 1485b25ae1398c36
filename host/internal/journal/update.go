// An update is a signal with a name that nobody else can send, with the update's id as its idempotency key, and its answer is
// a call of the workflow that names the wait which took it. So acceptance, order, what is kept when the run continues as new
// and what a retry voids are those of signals.

package journal

import (
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// Update is one that an iteration of a run has accepted.
type Update struct {
	Accepted store.Seq // of the entry with which it was accepted
	Reply    store.Seq // of its answer, 0 if there is none
}

// Set is the updates of one iteration. Its zero value is empty.
type Set struct {
	byID     map[id]*Update
	bySeq    map[store.Seq]*Update
	byHandle map[int64]*Update
	pending  int
}

type id struct{ name, key string }

// Accept adds the update that an entry has accepted, if it is one and not a signal.
func (s *Set) Accept(e *store.Entry) {
	if !strings.HasPrefix(e.Name, abi.UpdatePrefix) {
		return
	}
	if s.byID == nil {
		s.byID, s.bySeq, s.byHandle = map[id]*Update{}, map[store.Seq]*Update{}, map[int64]*Update{}
	}
	u := &Update{Accepted: e.Seq}
	s.byID[id{e.Name, e.Target}], s.bySeq[e.Seq] = u, u
	s.pending++
}

// Take notes that a handle of the workflow brings what the entry of a seq has accepted.
func (s *Set) Take(accepted store.Seq, handle int64) {
	if u := s.bySeq[accepted]; u != nil {
		s.byHandle[handle] = u
	}
}

// GiveBack notes that the workflow has withdrawn a handle before it was told.
func (s *Set) GiveBack(handle int64) { delete(s.byHandle, handle) }

// Taken reports whether a handle brings an update that has no answer.
func (s *Set) Taken(handle int64) bool {
	return s.byHandle[handle] != nil && s.byHandle[handle].Reply == 0
}

// Reply notes an answer.
func (s *Set) Reply(e *store.Entry) {
	if s.Taken(e.Handle) {
		s.byHandle[e.Handle].Reply = e.Seq
		s.pending--
	}
}

// Update returns an update by the name of its signal and its id, false if this iteration has not accepted it.
func (s *Set) Update(signal, key string) (Update, bool) {
	if u := s.byID[id{signal, key}]; u != nil {
		return *u, true
	}
	return Update{}, false
}

// PendingUpdates returns how many updates have no answer.
func (s *Set) PendingUpdates() int { return s.pending }
