package sched

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Runs do nothing to each other directly: what one wants of another is a command, which goes out in the commit of
// the entry that asked for it and is taken in by the receiver in the commit of its effect. So it happens once,
// whatever crashes between.
//
// The id of a command is made of the sender's incarnation and iteration, and of a number: the seq of the entry that
// asked for it times commandKinds, plus the kind. The answer to a command has the id of the command with the kind of
// the answer.
const commandKinds = 16

// endCommand is the seq in the id of what a run tells its parent at its end, which happens once, retries included.
const endCommand = 1 << 40

func commandID(i store.Incarnation, iteration uint32, seq store.Seq, kind store.CommandKind) store.CommandID {
	return store.CommandID{Incarnation: i, Iteration: iteration, Seq: seq*commandKinds + store.Seq(kind)}
}

// message is the data of a command, as JSON. Each kind uses some of the fields.
type message struct {
	Sender      store.Incarnation `json:"sender"`
	Iteration   uint32            `json:"iteration"` // of the sender; of an answer, of its receiver
	Handle      int64             `json:"handle,omitempty"`
	Workflow    string            `json:"workflow,omitempty"`
	Version     uint32            `json:"version,omitempty"`
	Payload     []byte            `json:"payload,omitempty"`
	TimeoutMs   int64             `json:"timeout_ms,omitempty"`
	Attributes  map[string]string `json:"attributes,omitempty"`
	Depth       int               `json:"depth,omitempty"`
	Status      store.Status      `json:"status,omitempty"`
	Failure     json.RawMessage   `json:"failure,omitempty"`
	Signal      string            `json:"signal,omitempty"`
	Token       string            `json:"token,omitempty"`
	HookOptions json.RawMessage   `json:"hook_options,omitempty"`
}

func (m message) bytes() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings, numbers, bytes, and JSON that was checked
	}
	return b
}

// commands gives what an entry asks of other runs.
func (o *owner) commands(j *journal.Journal, e *store.Entry) []store.Command {
	if e.Refused != 0 {
		return nil
	}
	it := j.Started().Iteration
	send := func(kind store.CommandKind, to string, m message) []store.Command {
		m.Sender, m.Iteration = o.state.Incarnation, it
		return []store.Command{{ID: commandID(o.state.Incarnation, it, e.Seq, kind), Kind: kind, From: o.key,
			To: store.RunKey{Namespace: o.key.Namespace, ID: to}, Data: m.bytes()}}
	}
	h := j.Handle(e.Handle)
	switch {
	case e.Kind.End():
		return o.endCommands(j, e)
	case h == nil:
	case e.Kind == store.KindChild && h.Open():
		opts, err := abi.ParseChildOptions(e.Options)
		if err != nil {
			return nil // the journal has checked them
		}
		depth := 1
		if p := j.Started().Parent; p != nil {
			depth = p.Depth + 1
		}
		return send(store.CommandChildStart, h.ChildID, message{Handle: e.Handle, Workflow: e.Target, Version: opts.Version,
			Payload: e.Input, TimeoutMs: opts.TimeoutMs, Attributes: opts.Attributes, Depth: depth})
	case e.Kind == store.KindSignalSend && h.Open():
		return send(store.CommandSignal, e.Target, message{Handle: e.Handle, Signal: string(e.Options), Payload: e.Input})
	case e.Kind == store.KindHook && h.Open() && e.Target != "":
		return send(store.CommandHookClaim, e.Target, message{Handle: e.Handle, Token: e.Target})
	case e.Kind == store.KindWithdraw && e.Code == journal.WithdrawDone && h.Kind == store.KindChild:
		return o.endChild(j, h)
	}
	return nil
}

// endChild asks a child to end as its parent said that it should.
func (o *owner) endChild(j *journal.Journal, h *journal.Handle) []store.Command {
	if h.OnEnd == abi.OnEndAbandon {
		return nil
	}
	it := j.Started().Iteration
	return []store.Command{{ID: commandID(o.state.Incarnation, it, h.CallSeq, store.CommandCancel), From: o.key,
		Kind: store.CommandCancel, To: store.RunKey{Namespace: o.key.Namespace, ID: h.ChildID}, Name: h.OnEnd,
		Data: message{Sender: o.state.Incarnation, Iteration: it, Handle: h.ID}.bytes()}}
}

// endCommands ends open children, gives chosen tokens up, and tells the parent.
func (o *owner) endCommands(j *journal.Journal, e *store.Entry) (cmds []store.Command) {
	for _, h := range j.OpenChildren() {
		cmds = append(cmds, o.endChild(j, &h)...)
	}
	it := j.Started().Iteration
	for _, h := range j.Hooks() {
		cmds = append(cmds, store.Command{ID: commandID(o.state.Incarnation, it, h.CallSeq, store.CommandHookRelease),
			Kind: store.CommandHookRelease, From: o.key, To: store.RunKey{Namespace: o.key.Namespace, ID: h.Token},
			Data: message{Sender: o.state.Incarnation, Iteration: it, Handle: h.ID, Token: h.Token}.bytes()})
	}
	p := j.Started().Parent
	if p == nil || e.Kind == store.KindContinued {
		return cmds
	}
	m := message{Sender: o.state.Incarnation, Iteration: p.Iteration, Handle: p.Handle, Payload: e.Data}
	switch e.Kind {
	case store.KindCompleted:
		m.Status = store.Completed
	case store.KindCancelled:
		m.Status = store.Cancelled
	case store.KindTerminated:
		m.Status = store.Terminated
	default:
		m.Status, m.Payload = store.Failed, nil
		if m.Failure = e.Data; !json.Valid(e.Data) {
			m.Failure, _ = json.Marshal(string(e.Data)) // text always encodes
		}
	}
	return append(cmds, store.Command{ID: commandID(o.state.Incarnation, 0, endCommand, store.CommandChildEnd),
		Kind: store.CommandChildEnd, From: o.key, To: store.RunKey{Namespace: store.NamespaceID(p.Namespace), ID: p.RunID},
		ToIncarnation: store.Incarnation(p.Incarnation), Data: m.bytes()})
}

// reply answers a command that a handle of its sender waits for. A nil error is success.
func reply(cmd *store.Command, m *message, refusal error) store.Command {
	id := cmd.ID
	id.Seq = id.Seq - id.Seq%commandKinds + store.Seq(store.CommandReply)
	answer := message{Iteration: m.Iteration, Handle: m.Handle, Token: m.Token}
	if refusal != nil {
		answer.Failure, _ = json.Marshal(refusalOf(refusal)) // strings always encode
	}
	return store.Command{ID: id, Kind: store.CommandReply, From: cmd.To, To: cmd.From, ToIncarnation: m.Sender,
		Data: answer.bytes()}
}

// childFailed tells a parent that a child was never started.
func childFailed(cmd *store.Command, m *message, cause error) store.Command {
	id := cmd.ID
	id.Seq = id.Seq - id.Seq%commandKinds + store.Seq(store.CommandChildEnd)
	e := refusalOf(cause)
	failure, _ := json.Marshal(e) // strings always encode
	return store.Command{ID: id, Kind: store.CommandChildEnd, From: cmd.To, To: cmd.From, ToIncarnation: m.Sender,
		Data: message{Iteration: m.Iteration, Handle: m.Handle, Status: store.Failed, Failure: failure}.bytes()}
}

// childFailure is the error with which a child's handle resolves.
func childFailure(h *journal.Handle, m *message) []byte {
	e := abi.Error{Code: abi.ChildFailed, Name: h.Name, Kind: m.Status.String(),
		Message: fmt.Sprintf("child %q (run %s) %s", h.Name, h.ChildID, m.Status)}
	var f struct {
		Message string `json:"message"`
		Type    string `json:"type"`
	}
	if len(m.Failure) > 0 {
		_ = json.Unmarshal(m.Failure, &f) // text instead of an object: no message
		e.Details = m.Failure
	}
	if f.Message != "" {
		e.Message += ": " + f.Message
	}
	e.Type = f.Type
	b, err := json.Marshal(&e)
	if err != nil {
		return []byte(`{"code":"CHILD_FAILED","message":"the error cannot be shown"}`)
	}
	return b
}

// take applies a command to its receiver, whose owner is locked: the effect, the acknowledgement and the answer are
// one commit.
func (o *owner) take(cmd *store.Command, m *message) error {
	o.acks = append(o.acks, cmd.Seq)
	if cmd.ToIncarnation != (store.Incarnation{}) && cmd.ToIncarnation != o.state.Incarnation {
		return nil // it was for another run of this id
	}
	switch cmd.Kind {
	case store.CommandChildEnd, store.CommandReply:
		return o.takeAnswer(cmd.Kind, m)
	case store.CommandSignal:
		_, err := o.signal(m.Signal, m.Payload, commandKey(cmd))
		o.outbox = append(o.outbox, reply(cmd, m, err))
	case store.CommandCancel:
		return o.takeCancel(cmd, m)
	}
	return nil
}

// commandKey is the idempotency key of a signal between runs: none, since a command is taken once.
func commandKey(*store.Command) string { return "" }

// takeAnswer resolves the handle that an answer is for. One that nobody waits for any more is ignored.
func (o *owner) takeAnswer(kind store.CommandKind, m *message) error {
	h := o.journal.Handle(m.Handle)
	if o.journal.Ended() != store.KindInvalid || o.journal.Started().Iteration != m.Iteration || h == nil || !h.Open() {
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
	_, err := o.append(e)
	if errors.Is(err, journal.ErrEnded) { // by this very answer, for which its journal has no room
		err = nil
	}
	o.changedLocked()
	return err
}

// takeCancel ends a child whose parent has ended.
func (o *owner) takeCancel(cmd *store.Command, m *message) error {
	p := o.journal.Started().Parent
	if o.journal.Ended() != store.KindInvalid || p == nil || p.RunID != cmd.From.ID ||
		store.Incarnation(p.Incarnation) != m.Sender {
		return nil
	}
	if cmd.Name == abi.OnEndTerminate {
		o.status, o.reason = 0, ""
		_, err := o.append(store.Entry{Kind: store.KindTerminated})
		return err
	}
	_, err := o.cancel()
	return err
}

// takeChildStart starts a child, or tells its parent why not.
func (s *Scheduler) takeChildStart(ctx context.Context, cmd *store.Command, m *message) error {
	defer s.HoldVersions()()
	n := NewRun{Key: cmd.To, Workflow: m.Workflow, Input: m.Payload, InputDigest: InputDigest(m.Payload),
		Attributes: m.Attributes, TimeoutMs: m.TimeoutMs, Conflict: ConflictFail, ack: cmd.Seq,
		Parent: &journal.Parent{Namespace: uint32(cmd.From.Namespace), RunID: cmd.From.ID, Incarnation: m.Sender[:],
			Iteration: m.Iteration, Handle: m.Handle, Depth: m.Depth}}
	v, err := s.cfg.Store.Modules().Version(ctx, cmd.To.Namespace, m.Workflow, m.Version)
	if err == nil {
		n.Version, n.Module = v.Number, v.Module
		_, _, err = s.Start(ctx, n)
	}
	if err == nil {
		return nil
	}
	if s.ctx.Err() != nil {
		return err
	}
	if st, e := s.cfg.Store.State(ctx, cmd.To); e == nil && st.Parent == cmd.From.ID && s.startedBy(ctx, &st, m) {
		return s.parts[cmd.To.Partition()].Discard(ctx, []store.CommandSeq{cmd.Seq}) // this command has started it
	}
	return s.answerAndDiscard(ctx, cmd, childFailed(cmd, m, err))
}

// startedBy tells whether a run was started by the very handle that a message names.
func (s *Scheduler) startedBy(ctx context.Context, st *store.RunState, m *message) bool {
	for e, err := range s.cfg.Store.Load(ctx, st.Run, st.Iteration, 0) {
		var started journal.Started
		if err != nil || json.Unmarshal(e.Options, &started) != nil || started.Parent == nil {
			return false
		}
		p := started.Parent
		return store.Incarnation(p.Incarnation) == m.Sender && p.Iteration == m.Iteration && p.Handle == m.Handle
	}
	return false
}

// answerAndDiscard answers a command that no run takes. A crash between the two repeats the answer, which has the
// same id.
func (s *Scheduler) answerAndDiscard(ctx context.Context, cmd *store.Command, answer store.Command) error {
	if answer.Kind != 0 {
		to := answer.To.Partition()
		if err := s.cfg.Store.Submit(ctx, to, answer); err != nil {
			return err
		}
		s.kickInbox(to)
	}
	return s.parts[cmd.To.Partition()].Discard(ctx, []store.CommandSeq{cmd.Seq})
}

// takeClaim gives a token to a run, or takes it back.
func (s *Scheduler) takeClaim(ctx context.Context, cmd *store.Command, m *message) error {
	c := store.HookClaim{Namespace: cmd.To.Namespace, Token: m.Token, Ack: cmd.Seq,
		Release: cmd.Kind == store.CommandHookRelease,
		Holder:  store.HookHolder{Run: cmd.From, Incarnation: m.Sender, Iteration: m.Iteration, Handle: m.Handle}}
	if !c.Release {
		c.Reply = func(h store.HookHolder) *store.Command {
			var refusal error
			if h != c.Holder {
				refusal = &abi.Error{Code: abi.Conflict, Message: fmt.Sprintf("token %q is held by run %q", m.Token, h.Run.ID),
					Details: map[string]string{"holder": h.Run.ID}}
			}
			answer := reply(cmd, m, refusal)
			return &answer
		}
	}
	_, err := s.parts[store.TokenPartition(cmd.To.Namespace, m.Token)].Claim(ctx, c)
	if err == nil && !c.Release {
		s.kickInbox(cmd.From.Partition())
	}
	return err
}

// refusalOf gives an error as one that a guest understands.
func refusalOf(err error) *abi.Error {
	if e, ok := asABI(err); ok {
		return e
	}
	return &abi.Error{Code: abi.Conflict, Message: err.Error()}
}
