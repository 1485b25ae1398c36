package run

import (
	"encoding/json"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/traceid"
	"github.com/wfhost/wfhost/store"
)

// Sender identifies a run that sends commands.
type Sender struct {
	Run         store.RunKey
	Incarnation store.Incarnation
	Module      store.Digest
}

// Commands returns the commands that an entry of the sender's journal sends to other runs.
func (s Sender) Commands(j *journal.Journal, e *store.Entry) []store.Command {
	switch {
	case e.Refused != 0:
		return nil
	case e.Kind.End():
		return s.endCommands(j, e)
	case e.Kind == store.KindRetried:
		return s.retryCommands(j, e)
	case e.Kind == store.KindPaused:
		return s.leaves(j, e)
	case e.Kind == store.KindAdopted: // the tokens are held by the run that was moved
		return s.claim(j, e)
	}
	h := j.Handle(e.Handle)
	switch {
	case h == nil:
	case e.Kind == store.KindChild && h.Open():
		return s.startChild(j, e, h)
	case e.Kind == store.KindSignalSend && h.Open():
		return s.send(j, e.Seq, store.CommandSignal, e.Target, Message{Handle: e.Handle, Signal: string(e.Options),
			Payload: e.Input})
	case e.Kind == store.KindHook && !h.Withdrawn && !h.Refused && j.Claims(h): // a resolved hook was copied by a restart
		return s.send(j, e.Seq, store.CommandHookClaim, h.Token, Message{Handle: e.Handle, Token: h.Token})
	case e.Kind == store.KindWithdraw && e.Code == journal.WithdrawDone && h.Kind == store.KindChild:
		return s.endChild(j, h)
	}
	return nil
}

// send returns a command to the receiver with the id to.
func (s Sender) send(j *journal.Journal, seq store.Seq, kind store.CommandKind, to string, m Message) []store.Command {
	m.Sender, m.Iteration = s.Incarnation, j.Started().Iteration
	return []store.Command{{ID: commandID(m.Sender, m.Iteration, seq, kind), Kind: kind, From: s.Run,
		To: store.RunKey{Namespace: s.Run.Namespace, ID: to}, Data: m.bytes()}}
}

func (s Sender) startChild(j *journal.Journal, e *store.Entry, h *journal.Handle) []store.Command {
	opts, err := abi.ParseChildOptions(e.Options)
	if err != nil {
		return nil // the journal has checked them
	}
	depth := 1
	if p := j.Started().Parent; p != nil {
		depth = p.Depth + 1
	}
	return s.send(j, e.Seq, store.CommandChildStart, h.ChildID, Message{Handle: e.Handle, Workflow: e.Target,
		Version: opts.Version, Latest: opts.Latest, Module: s.Module.String(), Payload: e.Input,
		Derived:   h.ChildID == j.ChildID(h.CallSeq),
		TimeoutMs: opts.TimeoutMs, Attributes: opts.Attributes, Memo: opts.Memo, Depth: depth,
		TraceParent: traceid.OfRun(s.Incarnation, j.Started().TraceParent).String()})
}

// endChild asks a child to end as the parent's option says, or returns nil if the child may continue.
func (s Sender) endChild(j *journal.Journal, h *journal.Handle) []store.Command {
	if h.OnEnd == abi.OnEndAbandon {
		return nil
	}
	cmds := s.send(j, h.CallSeq, store.CommandCancel, h.ChildID, Message{Handle: h.ID})
	cmds[0].Name = h.OnEnd
	return cmds
}

// endCommands ends open children, releases chosen tokens, returns the slot, and notifies the schedule and the parent.
func (s Sender) endCommands(j *journal.Journal, e *store.Entry) (cmds []store.Command) {
	for _, h := range j.OpenChildren() {
		cmds = append(cmds, s.endChild(j, &h)...)
	}
	for _, h := range j.Hooks() {
		seq := h.CallSeq
		seq += retriedBefore(j, e.Seq) << retryShift // the token was released and claimed again at the retry
		cmds = append(cmds, s.send(j, seq, store.CommandHookRelease, h.Token, Message{Handle: h.ID, Token: h.Token})...)
	}
	if j.Started().Limit != nil && e.Kind != store.KindContinued {
		cmds = append(cmds, s.send(j, e.Seq, store.CommandSlotReturn, j.Started().Workflow, Message{})...)
	}
	p, end := j.Started().Parent, endCommand+retriedBefore(j, e.Seq)
	if e.Kind != store.KindContinued {
		cmds = append(cmds, s.tellSchedule(j, end)...)
	}
	if p == nil || e.Kind == store.KindContinued {
		return cmds
	}
	id := commandID(s.Incarnation, j.Started().Iteration, end, store.CommandChildEnd)
	return append(cmds, s.tellParent(p, e, id))
}

// tellSchedule makes the schedule that started the run look at it. A restart of such a run does not belong to the
// schedule.
func (s Sender) tellSchedule(j *journal.Journal, seq store.Seq) []store.Command {
	st := j.Started()
	if st.Schedule == "" || st.RunAttempt > 1 {
		return nil
	}
	return s.send(j, seq, store.CommandSchedule, st.Schedule, Message{})
}

// TellSchedule is tellSchedule for a run that is about to be set aside or taken back.
func (s Sender) TellSchedule(j *journal.Journal) []store.Command {
	return s.tellSchedule(j, store.Seq(j.Len())<<retryShift)
}

// retriedBefore returns the seq of the newest retry or adoption before the entry seq, or 0 if there is none.
// Adoptions count because the run may have sent the same commands where it came from, in the same store. The commit
// may contain a later retry, which does not count.
func retriedBefore(j *journal.Journal, seq store.Seq) store.Seq {
	entries := j.All()
	for i := int(seq) - 1; i > 0; i-- {
		if k := entries[i].Kind; k == store.KindRetried || k == store.KindAdopted {
			return store.Seq(i)
		}
	}
	return 0
}

// Outcome returns the entry that would have resolved the handle of a child in its parent's journal j. The child ended
// with the entry end.
func Outcome(j *journal.Journal, handle int64, end *store.Entry) store.Entry {
	m := Message{Iteration: j.Started().Iteration, Handle: handle, Payload: end.Data, Status: end.Kind.Status()}
	e := store.Entry{Kind: store.KindChildResult, Handle: handle, Data: end.Data}
	if m.Status != store.Completed {
		if m.Status == store.Failed {
			m.Failure = failureOf(end)
		}
		e.Kind, e.Data = store.KindChildFailure, childFailure(j.Handle(handle), &m)
	}
	return e
}

// failureOf returns the error of a failed run, as JSON.
func failureOf(end *store.Entry) json.RawMessage {
	if json.Valid(end.Data) {
		return end.Data
	}
	b, _ := json.Marshal(string(end.Data)) // text always encodes
	return b
}

// tellParent returns the command that tells a parent how the run ended.
func (s Sender) tellParent(p *journal.Parent, e *store.Entry, id store.CommandID) store.Command {
	m := Message{Sender: s.Incarnation, Iteration: p.Iteration, Handle: p.Handle, Payload: e.Data}
	switch e.Kind {
	case store.KindCompleted:
		m.Status = store.Completed
	case store.KindCancelled:
		m.Status = store.Cancelled
	case store.KindTerminated:
		m.Status = store.Terminated
	default:
		m.Status, m.Payload, m.Failure = store.Failed, nil, failureOf(e)
	}
	return store.Command{ID: id, Kind: store.CommandChildEnd, From: s.Run,
		To:            store.RunKey{Namespace: s.Run.Namespace, ID: p.RunID}, // a parent's namespace is the child's
		ToIncarnation: store.Incarnation(p.Incarnation), Data: m.bytes()}
}

// AnswerParent answers a parent that asks how the run ended.
func (s Sender) AnswerParent(cmd *store.Command, p *journal.Parent, e *store.Entry) store.Command {
	return s.tellParent(p, e, answerID(cmd, store.CommandChildEnd))
}

// StartAgain returns the command that starts a child of a retried parent, if the answer m says that the child never
// existed. Its first start was refused, for example because its workflow did not exist. The command is sent once for
// each retry.
func (s Sender) StartAgain(j *journal.Journal, m *Message) []store.Command {
	h := m.awaited(j)
	retry, retried := j.Retried()
	if !m.NeverWas || !retried || h == nil || h.Kind != store.KindChild || j.Ended() != store.KindInvalid {
		return nil
	}
	call := j.Entries()[h.CallSeq]
	if o, err := abi.ParseChildOptions(call.Options); err != nil || o.ID == "" && h.ChildID != j.ChildID(h.CallSeq) {
		return nil // a child of the run that this run restarts: once both are deleted, nothing is left of it
	}
	call.Seq += startAgain + retry<<retryShift
	return s.startChild(j, &call, h)
}

// retryCommands repairs what the end of a run did elsewhere. Its children were asked to end, and reported to a run
// that no longer listened. Its tokens were released, and its schedule no longer counts it.
func (s Sender) retryCommands(j *journal.Journal, e *store.Entry) (cmds []store.Command) {
	cmds = s.tellSchedule(j, e.Seq<<retryShift)
	for h := range j.Handles {
		if h.Kind == store.KindChild {
			cmds = append(cmds, s.send(j, e.Seq<<retryShift+h.CallSeq, store.CommandChildAsk, h.ChildID,
				Message{Handle: h.ID})...)
		}
	}
	return append(cmds, s.claim(j, e)...)
}

// claim claims the chosen tokens of a run again.
func (s Sender) claim(j *journal.Journal, e *store.Entry) (cmds []store.Command) {
	for _, h := range j.Hooks() {
		cmds = append(cmds, s.send(j, e.Seq<<retryShift+h.CallSeq, store.CommandHookClaim, h.Token,
			Message{Handle: h.ID, Token: h.Token})...)
	}
	return cmds
}
