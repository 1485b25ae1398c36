package run

import (
	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// take applies a command of another run: its effect, its acknowledgement and its answer are one commit.
func (r *Run) take(now int64, cmd *store.Command, m *Message) error {
	r.acks = append(r.acks, cmd.Seq)
	if cmd.ToIncarnation != (store.Incarnation{}) && cmd.ToIncarnation != r.state.Incarnation {
		return nil // it was for another run of this id
	}
	switch cmd.Kind {
	case store.CommandChildEnd, store.CommandReply:
		return r.takeAnswer(now, cmd.Kind, m)
	case store.CommandSignal:
		err := r.takeSignal(now, Signal{Name: m.Signal, Data: m.Payload})
		r.outbox = append(r.outbox, Reply(cmd, m, err))
	case store.CommandCancel:
		return r.takeCancel(now, cmd, m)
	case store.CommandChildAsk:
		r.takeChildAsk(cmd, m)
	}
	return nil
}

// takeAnswer resolves the handle that an answer is for. One that nobody waits for any more is ignored.
func (r *Run) takeAnswer(now int64, kind store.CommandKind, m *Message) error {
	h := r.journal.Handle(m.Handle)
	if r.ended() || r.journal.Started().Iteration != m.Iteration || h == nil || !h.Open() {
		return nil
	}
	e := store.Entry{Handle: m.Handle}
	switch {
	case kind == store.CommandChildEnd && h.Kind == store.KindChild:
		e.Kind, e.Data = store.KindChildResult, m.Payload
		if m.Status != store.Completed {
			e.Kind, e.Data = store.KindChildFailure, childFailure(h, m)
		}
	case kind == store.CommandReply && h.Kind == store.KindSignalSend:
		e.Kind = store.KindSignalSent
	case kind == store.CommandReply && h.Kind == store.KindHook:
		e.Kind, e.Data = store.KindHookReady, []byte(m.Token)
	default:
		return nil
	}
	if kind == store.CommandReply && len(m.Failure) > 0 {
		e.Code, e.Data = int32(abi.Conflict), m.Failure
	}
	_, err := r.append(now, e)
	if r.ended() { // by this very answer, for which the journal has no room
		return nil
	}
	return err
}

// takeCancel ends a child whose parent has ended.
func (r *Run) takeCancel(now int64, cmd *store.Command, m *Message) error {
	p := r.journal.Started().Parent
	if r.ended() || p == nil || p.RunID != cmd.From.ID || store.Incarnation(p.Incarnation) != m.Sender {
		return nil
	}
	if cmd.Name == abi.OnEndTerminate {
		return r.terminate(now)
	}
	return r.cancel(now)
}

// takeChildAsk tells a parent that was retried how this run has ended, if it has: the parent did not listen then. A live
// run tells it at its end.
func (r *Run) takeChildAsk(cmd *store.Command, m *Message) {
	if started := r.journal.Started(); !StartedBy(started, m) {
		r.outbox = append(r.outbox, ChildFailed(cmd, m, abi.Errorf(abi.Conflict, "run %q is another one by now", r.key.ID)))
	} else if r.ended() {
		entries := r.journal.Entries()
		r.outbox = append(r.outbox, r.tellParent(started.Parent, &entries[len(entries)-1],
			answerID(cmd, store.CommandChildEnd)))
	}
}
