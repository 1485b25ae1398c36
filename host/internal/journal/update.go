// An update is a signal with a reserved name and the update's id as its idempotency key. Its answer is a call of the workflow
// that names the handle of the wait. So updates follow the rules of signals for acceptance, order, continue-as-new and retries.

package journal

import (
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// Update is an accepted update of one iteration.
type Update struct {
	Accepted store.Seq // seq of the accepted signal
	Reply    store.Seq // seq of the answer, 0 if there is none
}

// Set holds the updates of one iteration. Its zero value is empty.
type Set struct {
	byID     map[id]*Update
	bySeq    map[store.Seq]*Update
	byHandle map[int64]*Update
	pending  int
}

type id struct{ name, key string }

// Accept adds an accepted update. It ignores other signals.
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

// Bind records that the update accepted at a seq is bound to a handle. It ignores other signals.
func (s *Set) Bind(accepted store.Seq, handle int64) {
	if u := s.bySeq[accepted]; u != nil {
		s.byHandle[handle] = u
	}
}

// Unbind records that the workflow withdrew a handle before it received the update.
func (s *Set) Unbind(handle int64) { delete(s.byHandle, handle) }

// Bound reports whether a handle has an update without an answer.
func (s *Set) Bound(handle int64) bool {
	return s.byHandle[handle] != nil && s.byHandle[handle].Reply == 0
}

// Reply records an answer.
func (s *Set) Reply(e *store.Entry) {
	if s.Bound(e.Handle) {
		s.byHandle[e.Handle].Reply = e.Seq
		s.pending--
	}
}

// Update returns an update by its signal name and id; false if this iteration has not accepted it.
func (s *Set) Update(signal, key string) (Update, bool) {
	if u := s.byID[id{signal, key}]; u != nil {
		return *u, true
	}
	return Update{}, false
}

// PendingUpdates returns the number of updates without an answer.
func (s *Set) PendingUpdates() int { return s.pending }
