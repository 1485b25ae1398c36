package run

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Reply returns the answer to a command whose sender's handle waits for it. A nil refusal means success.
func Reply(cmd *store.Command, m *Message, refusal error) store.Command {
	answer := Message{Iteration: m.Iteration, Handle: m.Handle, Token: m.Token}
	if refusal != nil {
		answer.Failure, _ = json.Marshal(refusalOf(refusal)) // strings always encode
	}
	return store.Command{ID: answerID(cmd, store.CommandReply), Kind: store.CommandReply, From: cmd.To, To: cmd.From,
		ToIncarnation: m.Sender, Data: answer.bytes()}
}

// ChildFailed returns the command that tells a parent that its child was not started, or that its child's id now
// belongs to another run.
func ChildFailed(cmd *store.Command, m *Message, cause error) store.Command {
	return childFailed(cmd, m, cause, false)
}

// ChildMissing answers a parent that asks how its child ended when the run does not exist: it was deleted, or was
// never started.
func ChildMissing(cmd *store.Command, m *Message, deleted bool) store.Command {
	text := "there never was a run %q"
	if deleted {
		text = "there is no run %q any more"
	}
	return childFailed(cmd, m, abi.Errorf(abi.Conflict, text, cmd.To.ID), !deleted)
}

func childFailed(cmd *store.Command, m *Message, cause error, never bool) store.Command {
	refused, _ := errors.AsType[*abi.Error](cause)
	answer := Message{Iteration: m.Iteration, Handle: m.Handle, Status: store.Failed, NeverWas: never,
		Taken: errors.Is(cause, store.ErrExists), Limited: refused != nil && refused.Code == abi.Limit}
	answer.Failure, _ = json.Marshal(refusalOf(cause)) // strings always encode
	return store.Command{ID: answerID(cmd, store.CommandChildEnd), Kind: store.CommandChildEnd, From: cmd.To, To: cmd.From,
		ToIncarnation: m.Sender, Data: answer.bytes()}
}

// refusalOf converts an error to an abi.Error, which guests understand. Other errors get the code CONFLICT.
func refusalOf(err error) *abi.Error {
	if e, ok := errors.AsType[*abi.Error](err); ok {
		return e
	}
	return &abi.Error{Code: abi.Conflict, Message: err.Error()}
}

// StartedBy reports whether the call that a message names started the run. If so, the message's command was carried
// out.
func StartedBy(started journal.Started, m *Message) bool {
	p := started.Parent
	return p != nil && store.Incarnation(p.Incarnation) == m.Sender && p.Iteration == m.Iteration && p.Handle == m.Handle
}

// Answer returns the entry that resolves the handle waiting for this answer, or false if no open handle waits for it.
func (m *Message) Answer(j *journal.Journal, kind store.CommandKind) (e store.Entry, ok bool) {
	h := m.awaited(j)
	if h == nil || j.Ended() != store.KindInvalid {
		return e, false
	}
	e.Handle = h.ID
	switch {
	case kind == store.CommandChildEnd && h.Kind == store.KindChild:
		e.Kind, e.Data = store.KindChildResult, m.Payload
		if m.Status != store.Completed {
			e.Kind, e.Data = store.KindChildFailure, childFailure(h, m)
		}
		e.Code = int32(m.code())
	case kind == store.CommandReply && h.Kind == store.KindSignalSend:
		e.Kind = store.KindSignalSent
	case kind == store.CommandReply && h.Kind == store.KindHook:
		e.Kind, e.Data = store.KindHookReady, []byte(m.Token)
	default:
		return e, false
	}
	if kind == store.CommandReply && len(m.Failure) > 0 {
		e.Code, e.Data = int32(m.refusedBy()), m.Failure
	}
	return e, true
}

// refusedBy returns the code of a refusal: LIMIT if the receiver has no room for another signal, otherwise CONFLICT.
func (m *Message) refusedBy() abi.Code {
	var e abi.Error
	if json.Unmarshal(m.Failure, &e) == nil && e.Code == abi.Limit {
		return abi.Limit
	}
	return abi.Conflict
}

// code returns the code of the result if the child was not started, or 0 if it was.
func (m *Message) code() abi.Code {
	switch {
	case m.Taken:
		return abi.Conflict
	case m.Limited:
		return abi.Limit
	}
	return 0
}

// Needed reports whether a failed run would need this answer after a retry and could not get it again. That is the
// reply to a signal, since a signal is not sent twice. A retry asks again how children ended and claims tokens again.
func (m *Message) Needed(j *journal.Journal, kind store.CommandKind) bool {
	h := m.awaited(j)
	return h != nil && h.Kind == store.KindSignalSend && kind == store.CommandReply && j.Ended() == store.KindFailed
}

// awaited returns the open handle that waits for an answer, or nil.
func (m *Message) awaited(j *journal.Journal) *journal.Handle {
	h := j.Handle(m.Handle)
	if h == nil || !h.Open() || j.Started().Iteration != m.Iteration {
		return nil
	}
	return h
}

// maxToldMessage bounds, in characters, the message that a parent gets when its child's error is too large to
// forward.
const maxToldMessage = 10_000

// childFailure returns the error that a child's handle resolves to, as JSON.
func childFailure(h *journal.Handle, m *Message) []byte {
	e := abi.Error{Code: abi.ChildFailed, Name: h.Name, Kind: m.Status.String(),
		Message: fmt.Sprintf("child %q (run %s) %s", h.Name, h.ChildID, m.Status)}
	if code := m.code(); code != 0 {
		e.Code, e.Kind, e.Message = code, "", fmt.Sprintf("child %q was not started", h.Name)
	}
	var f struct {
		Message string `json:"message"`
		Type    string `json:"type"`
	}
	if len(m.Failure) > 0 {
		_ = json.Unmarshal(m.Failure, &f) // if it is text and not an object, there is no message
		e.Details = m.Failure
	}
	if f.Message != "" {
		e.Message += ": " + f.Message
	}
	e.Type = f.Type
	b, err := json.Marshal(&e)
	if len(b) > abi.MaxPayloadBytes { // each parent adds to it, until the store refuses it
		e.Message = fmt.Sprintf("%.*s…; the error of run %s is too large to be told here", maxToldMessage, e.Message, h.ChildID)
		e.Details = nil
		b, err = json.Marshal(&e)
	}
	if err != nil {
		return []byte(`{"code":"CHILD_FAILED","message":"the error cannot be shown"}`)
	}
	return b
}
