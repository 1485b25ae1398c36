package run

import (
	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// TellEnd tells a retried parent how this run ended: the parent did not listen then. A live run sends nothing now,
// and tells the parent at its end. If the id now belongs to a run that the parent did not start, TellEnd reports a
// failed child.
func (r *Record) TellEnd(cmd *store.Command, m *Message) {
	if started := r.Journal.Started(); !StartedBy(started, m) {
		r.Draft.Send(ChildFailed(cmd, m, abi.Errorf(abi.Conflict, "run %q is another one by now", r.Key.ID)))
	} else if r.Ended() {
		entries := r.Journal.Entries()
		r.Draft.Send(r.Sender().AnswerParent(cmd, started.Parent, &entries[len(entries)-1]))
	}
}
