package run

import (
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

// retryShift makes the seq of a command that a retry repeats: the seq of the retry, shifted so far, plus the seq of the
// call. A journal has fewer entries than this has numbers.
const retryShift = 20

func commandID(i store.Incarnation, iteration uint32, seq store.Seq, kind store.CommandKind) store.CommandID {
	return store.CommandID{Incarnation: i, Iteration: iteration, Seq: seq*commandKinds + store.Seq(kind)}
}

// Message is the data of a command, as JSON. Each kind uses some of the fields.
type Message struct {
	Sender      store.Incarnation `json:"sender"`
	Iteration   uint32            `json:"iteration"` // of the sender; of an answer, of its receiver
	Handle      int64             `json:"handle,omitempty"`
	Workflow    string            `json:"workflow,omitempty"`
	Version     uint32            `json:"version,omitempty"`
	Latest      bool              `json:"latest,omitempty"` // the latest version is asked for
	Module      string            `json:"module,omitempty"` // of the sender: the version that comes of the same upload
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

func (m Message) bytes() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings, numbers, bytes, and JSON that was checked
	}
	return b
}

// commands returns what an entry asks of other runs.
func (r *Run) commands(j *journal.Journal, e *store.Entry) []store.Command {
	switch {
	case e.Refused != 0:
		return nil
	case e.Kind.End():
		return r.endCommands(j, e)
	case e.Kind == store.KindRetried:
		return r.retryCommands(j, e)
	}
	h := j.Handle(e.Handle)
	switch {
	case h == nil:
	case e.Kind == store.KindChild && h.Open():
		return r.startChild(j, e, h)
	case e.Kind == store.KindSignalSend && h.Open():
		return r.send(j, e.Seq, store.CommandSignal, e.Target, Message{Handle: e.Handle, Signal: string(e.Options),
			Payload: e.Input})
	case e.Kind == store.KindHook && h.Open() && e.Target != "":
		return r.send(j, e.Seq, store.CommandHookClaim, e.Target, Message{Handle: e.Handle, Token: e.Target})
	case e.Kind == store.KindWithdraw && e.Code == withdrawDone && h.Kind == store.KindChild:
		return r.endChild(j, h)
	}
	return nil
}

// send returns a command to a run.
func (r *Run) send(j *journal.Journal, seq store.Seq, kind store.CommandKind, to string, m Message) []store.Command {
	m.Sender, m.Iteration = r.state.Incarnation, j.Started().Iteration
	return []store.Command{{ID: commandID(m.Sender, m.Iteration, seq, kind), Kind: kind, From: r.key,
		To: store.RunKey{Namespace: r.key.Namespace, ID: to}, Data: m.bytes()}}
}

func (r *Run) startChild(j *journal.Journal, e *store.Entry, h *journal.Handle) []store.Command {
	opts, err := abi.ParseChildOptions(e.Options)
	if err != nil {
		return nil // the journal has checked them
	}
	depth := 1
	if p := j.Started().Parent; p != nil {
		depth = p.Depth + 1
	}
	return r.send(j, e.Seq, store.CommandChildStart, h.ChildID, Message{Handle: e.Handle, Workflow: e.Target,
		Version: opts.Version, Latest: opts.Latest, Module: r.ident.module.String(), Payload: e.Input,
		TimeoutMs: opts.TimeoutMs, Attributes: opts.Attributes, Depth: depth})
}

// endChild asks a child to end as its parent said that it should.
func (r *Run) endChild(j *journal.Journal, h *journal.Handle) []store.Command {
	if h.OnEnd == abi.OnEndAbandon {
		return nil
	}
	cmds := r.send(j, h.CallSeq, store.CommandCancel, h.ChildID, Message{Handle: h.ID})
	cmds[0].Name = h.OnEnd
	return cmds
}

// endCommands ends open children, gives chosen tokens up, and tells the parent.
func (r *Run) endCommands(j *journal.Journal, e *store.Entry) (cmds []store.Command) {
	for _, h := range j.OpenChildren() {
		cmds = append(cmds, r.endChild(j, &h)...)
	}
	for _, h := range j.Hooks() {
		seq := h.CallSeq
		seq += retriedBefore(j, e.Seq) << retryShift // it was given up and claimed again then
		cmds = append(cmds, r.send(j, seq, store.CommandHookRelease, h.Token, Message{Handle: h.ID, Token: h.Token})...)
	}
	p := j.Started().Parent
	if p == nil || e.Kind == store.KindContinued {
		return cmds
	}
	return append(cmds, r.tellParent(p, e, commandID(r.state.Incarnation, 0, endCommand, store.CommandChildEnd)))
}

// retriedBefore returns the seq of the newest retry before an entry, 0 if there is none. A retry behind the entry may be in
// the same commit.
func retriedBefore(j *journal.Journal, seq store.Seq) store.Seq {
	entries := j.All()
	for i := int(seq) - 1; i > 0; i-- {
		if entries[i].Kind == store.KindRetried {
			return store.Seq(i)
		}
	}
	return 0
}

// tellParent returns the command that tells a parent how the run has ended.
func (r *Run) tellParent(p *journal.Parent, e *store.Entry, id store.CommandID) store.Command {
	m := Message{Sender: r.state.Incarnation, Iteration: p.Iteration, Handle: p.Handle, Payload: e.Data}
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
	return store.Command{ID: id, Kind: store.CommandChildEnd, From: r.key,
		To:            store.RunKey{Namespace: store.NamespaceID(p.Namespace), ID: p.RunID},
		ToIncarnation: store.Incarnation(p.Incarnation), Data: m.bytes()}
}

// retryCommands repairs what the end of a run has done to others: its children were asked to end, and have told a run
// that no longer listened; its tokens were given up.
func (r *Run) retryCommands(j *journal.Journal, e *store.Entry) (cmds []store.Command) {
	for h := range j.Handles {
		if h.Kind == store.KindChild {
			cmds = append(cmds, r.send(j, e.Seq<<retryShift+h.CallSeq, store.CommandChildAsk, h.ChildID,
				Message{Handle: h.ID})...)
		}
	}
	for _, h := range j.Hooks() {
		cmds = append(cmds, r.send(j, e.Seq<<retryShift+h.CallSeq, store.CommandHookClaim, h.Token,
			Message{Handle: h.ID, Token: h.Token})...)
	}
	return cmds
}

// answerID returns the id of the answer to a command.
func answerID(cmd *store.Command, kind store.CommandKind) store.CommandID {
	id := cmd.ID
	id.Seq = id.Seq - id.Seq%commandKinds + store.Seq(kind)
	return id
}

// Reply answers a command that a handle of its sender waits for. A nil refusal is success.
func Reply(cmd *store.Command, m *Message, refusal error) store.Command {
	answer := Message{Iteration: m.Iteration, Handle: m.Handle, Token: m.Token}
	if refusal != nil {
		answer.Failure, _ = json.Marshal(refusalOf(refusal)) // strings always encode
	}
	return store.Command{ID: answerID(cmd, store.CommandReply), Kind: store.CommandReply, From: cmd.To, To: cmd.From,
		ToIncarnation: m.Sender, Data: answer.bytes()}
}

// ChildFailed tells a parent that a child was not started, or is gone.
func ChildFailed(cmd *store.Command, m *Message, cause error) store.Command {
	failure, _ := json.Marshal(refusalOf(cause)) // strings always encode
	return store.Command{ID: answerID(cmd, store.CommandChildEnd), Kind: store.CommandChildEnd, From: cmd.To, To: cmd.From,
		ToIncarnation: m.Sender,
		Data:          Message{Iteration: m.Iteration, Handle: m.Handle, Status: store.Failed, Failure: failure}.bytes()}
}

// refusalOf returns an error as one that a guest understands.
func refusalOf(err error) *abi.Error {
	if e, ok := errors.AsType[*abi.Error](err); ok {
		return e
	}
	return &abi.Error{Code: abi.Conflict, Message: err.Error()}
}

// StartedBy reports whether a run was started by the very call that a message names: then its command was carried out.
func StartedBy(started journal.Started, m *Message) bool {
	p := started.Parent
	return p != nil && store.Incarnation(p.Incarnation) == m.Sender && p.Iteration == m.Iteration && p.Handle == m.Handle
}

// childFailure is the error with which a child's handle resolves.
func childFailure(h *journal.Handle, m *Message) []byte {
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
