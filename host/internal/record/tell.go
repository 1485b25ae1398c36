package record

import (
	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/message"
	"github.com/wfhost/wfhost/store"
)

// TellEnd tells a parent that was retried how this run has ended, if it has: the parent did not listen then. A live run tells it
// at its end.
func (r *Record) TellEnd(cmd *store.Command, m *message.Message) {
	if started := r.Journal.Started(); !message.StartedBy(started, m) {
		r.Draft.Send(message.ChildFailed(cmd, m, abi.Errorf(abi.Conflict, "run %q is another one by now", r.Key.ID)))
	} else if r.Ended() {
		entries := r.Journal.Entries()
		r.Draft.Send(r.Sender().AnswerParent(cmd, started.Parent, &entries[len(entries)-1]))
	}
}
