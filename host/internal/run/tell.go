package run

import (
	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// TellEnd tells a parent that was retried how this run has ended, if it has: the parent did not listen then. A live run tells it
// at its end.
func (r *Record) TellEnd(cmd *store.Command, m *Message) {
	if started := r.Journal.Started(); !StartedBy(started, m) {
		r.Draft.Send(ChildFailed(cmd, m, abi.Errorf(abi.Conflict, "run %q is another one by now", r.Key.ID)))
	} else if r.Ended() {
		entries := r.Journal.Entries()
		r.Draft.Send(r.Sender().AnswerParent(cmd, started.Parent, &entries[len(entries)-1]))
	}
}
