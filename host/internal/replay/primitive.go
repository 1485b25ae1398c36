package replay

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// ErrContinue: the workflow continues as new, so this iteration is over.
var ErrContinue = errors.New("continue as new")

// ErrQueryEnd: the query was answered, so its activation is over.
var ErrQueryEnd = errors.New("query answered")

// Signal starts a wait for a signal. A negative timeoutMs means no time-out.
func (m *Machine) Signal(name string, timeoutMs int64) (int64, error) {
	e := store.Entry{Kind: store.KindSignalWait, Name: name, HasDue: m.cfg.Strict && timeoutMs >= 0}
	if e.HasDue {
		e.DueUnixMs, _ = abi.AddMs(m.hostMs, timeoutMs) // a refused wait is not compared
	}
	return m.call(e, func(e *store.Entry) (err error) {
		err = abi.CheckReceived(name)
		if err != nil || timeoutMs < 0 {
			return err
		}
		e.HasDue = true
		e.DueUnixMs, err = abi.AddMs(m.from(), timeoutMs)
		return err
	})
}

// SignalSend starts sending a signal to a run.
func (m *Machine) SignalSend(name, run, signal string, input []byte) (int64, error) {
	e := store.Entry{Kind: store.KindSignalSend, Name: name, Target: run, Options: []byte(clean(signal)), Input: input}
	return m.call(e, func(*store.Entry) error {
		if err := abi.CheckName("name", name); err != nil {
			return err
		}
		if err := abi.CheckRunID(run); err != nil {
			return err
		}
		if err := abi.CheckName("signal name", signal); err != nil {
			return err
		}
		if len(input) > abi.MaxPayloadBytes {
			return tooLarge("payload of signal", signal, len(input))
		}
		return nil
	})
}

// Child starts a child run.
func (m *Machine) Child(name, workflow string, input, options []byte) (int64, error) {
	e := store.Entry{Kind: store.KindChild, Name: name, Target: workflow, Input: input, Options: options}
	return m.call(e, func(e *store.Entry) error {
		if err := abi.CheckName("child name", name); err != nil {
			return err
		}
		if err := abi.CheckWorkflow(workflow); err != nil {
			return err
		}
		if len(input) > abi.MaxPayloadBytes {
			return tooLarge("input of child", name, len(input))
		}
		o, err := abi.ParseChildOptions(options)
		if err != nil {
			return err
		}
		if err := o.Check(name); err != nil {
			return err
		}
		e.Data = []byte(o.ID)
		return m.childRoom()
	})
}

// childRoom returns an abi.Limit error if the run is too deep to start a child, or has too many live children. A child counts as
// live until the guest has received its end, so the answer depends on the journal alone.
func (m *Machine) childRoom() error {
	depth := 0
	if p := m.cfg.Started.Parent; p != nil {
		depth = p.Depth
	}
	if depth >= abi.MaxChildDepth {
		return abi.Errorf(abi.Limit, "this run stands %d runs below the first one, the limit is %d", depth, abi.MaxChildDepth)
	}
	limit, live := abi.LiveChildren(m.cfg.MaxChildren, depth), m.open.children
	if live >= limit {
		return abi.Errorf(abi.Limit, "the run has %d children that have not ended, the limit for one that stands %d runs below the "+
			"first one is %d", live, depth, limit)
	}
	return nil
}

// ChildID returns the run id of a child.
func (m *Machine) ChildID(id int64) ([]byte, int64) {
	h := m.handle(id)
	switch {
	case m.away():
		return nil, m.refuse(notHere)
	case h == nil:
		return nil, m.refuse(m.unknownHandle(id))
	case h.kind != store.KindChild:
		return nil, m.refuse(abi.Errorf(abi.InvalidArgument, "handle %d is a %s and no child", id, h.kind))
	}
	return m.Answer(m.entries[h.call].Data)
}

// Hook opens a hook with the token, or with a generated token if it is empty.
func (m *Machine) Hook(name, token string, options []byte) (int64, error) {
	e := store.Entry{Kind: store.KindHook, Name: name, Target: token, Options: options}
	return m.call(e, func(e *store.Entry) error {
		if err := abi.CheckName("hook name", name); err != nil {
			return err
		}
		if _, err := abi.ParseHookOptions(options); err != nil {
			return err
		}
		if token == "" {
			e.Data = []byte(m.cfg.NewToken())
			return nil
		}
		e.Data = []byte(token)
		return abi.CheckToken(token)
	})
}

// Emit appends a chunk to the run's output and returns its index.
func (m *Machine) Emit(topic string, data []byte) (int64, error) {
	return m.call(store.Entry{Kind: store.KindEmit, Name: topic, Input: data}, func(*store.Entry) error {
		if err := abi.CheckName("topic", topic); err != nil {
			return err
		}
		if len(data) > abi.MaxPayloadBytes {
			return tooLarge("output of topic", topic, len(data))
		}
		return nil
	})
}

// SetAttribute sets an attribute of the run.
func (m *Machine) SetAttribute(key string, value []byte) (int64, error) {
	return m.call(store.Entry{Kind: store.KindAttribute, Name: key, Input: value}, func(*store.Entry) error {
		if len(value) > abi.MaxPayloadBytes { // do not copy a large value to a string
			return abi.Errorf(abi.TooLarge, "attribute %q has %d bytes, the limit is %d", clean(key), len(value), abi.MaxAttributeBytes)
		}
		if err := abi.CheckAttribute(key, string(value)); err != nil {
			return err
		}
		return m.cfg.Tail.CheckAttribute(key)
	})
}

// CancelPolicy sets what a cancel of the run does: abi.CancelFinal or abi.CancelCooperative.
func (m *Machine) CancelPolicy(policy int32) (int64, error) {
	n, err := m.call(store.Entry{Kind: store.KindCancelPolicy, Code: policy}, func(*store.Entry) error {
		if policy != abi.CancelFinal && policy != abi.CancelCooperative {
			return abi.Errorf(abi.InvalidArgument, "cancel policy must be %d or %d, got %d", abi.CancelFinal,
				abi.CancelCooperative, policy)
		}
		return nil
	})
	return min(n, 0), err
}

// ContinueAsNew ends the iteration with ErrContinue. If the call is refused, it returns a *RefusedError, which also stops the
// guest: the call never returns to it.
func (m *Machine) ContinueAsNew(input, options []byte) error {
	n, err := m.call(store.Entry{Kind: store.KindContinue, Input: input, Options: options}, func(*store.Entry) error {
		if len(input) > abi.MaxPayloadBytes {
			return tooLarge("input of", "continue_as_new", len(input))
		}
		_, err := abi.ParseContinueOptions(options)
		return err
	})
	switch {
	case err != nil:
		return err
	case n < 0:
		return &RefusedError{Call: abi.FnContinueAsNew, JSON: m.last}
	}
	call := m.entries[m.callPos-1]
	m.outcome.Continue = &call
	return ErrContinue
}

// RefusedError: a call that never returns to the guest was refused. It ends the run.
type RefusedError struct {
	Call string
	JSON []byte // the error
}

// Error names the call.
func (e *RefusedError) Error() string { return e.Call + " was refused: " + string(e.JSON) }

// misplaced returns the error for a misplaced call that never returns to the guest: a *Mismatch if the journal records another
// call here, else a *RefusedError.
func (m *Machine) misplaced(call, belongs string) error {
	if want := m.nextCall(); want != nil && !m.away() {
		return &Mismatch{Seq: want.Seq, Want: describe(want), Got: call}
	}
	e := &abi.Error{Code: abi.StepFailed, Kind: abi.KindTrap, Message: call + " was called outside of " + belongs}
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return &RefusedError{Call: call, JSON: data}
}

// Reply answers the update of a handle or, if the handle is 0, the query of this activation. ok is 0 for success.
func (m *Machine) Reply(id int64, ok int32, b []byte) (int64, error) {
	if id != 0 {
		return m.updateReply(id, ok, b)
	}
	return 0, m.queryReply(ok, b)
}

func (m *Machine) queryReply(ok int32, b []byte) error {
	if !m.query {
		return m.misplaced(abi.FnQueryReply, "a query")
	}
	m.outcome.Replied, m.outcome.ReplyOK, m.outcome.Reply, m.outcome.ReplyBytes = true, ok == 0, kept(b), len(b)
	return ErrQueryEnd
}

// updateReply records the answer to an update, once per handle. The guest must have received the update.
func (m *Machine) updateReply(id int64, ok int32, b []byte) (int64, error) {
	h := m.handle(id)
	switch {
	case m.away():
		return m.refuse(notHere), nil
	case h == nil:
		return m.refuse(m.unknownHandle(id)), nil
	}
	e := store.Entry{Kind: store.KindUpdateReply, Handle: id, Code: min(max(ok, -ok), 1), Input: b}
	n, err := m.call(e, func(*store.Entry) error {
		switch {
		case h.kind != store.KindSignalWait || !strings.HasPrefix(h.name, abi.UpdatePrefix):
			return abi.Errorf(abi.InvalidArgument, "handle %d is a %s %q and no update", id, h.kind, h.name)
		case !h.seen || m.entries[h.delivery].Kind != store.KindSignal:
			return abi.Errorf(abi.InvalidArgument, "handle %d has brought no update", id)
		case h.answered:
			return abi.Errorf(abi.InvalidArgument, "the update of handle %d was answered before", id)
		case len(b) > abi.MaxPayloadBytes:
			return tooLarge("answer to update", strings.TrimPrefix(h.name, abi.UpdatePrefix), len(b))
		}
		return nil
	})
	if n >= 0 && err == nil {
		m.handle(id).answered = true
	}
	return min(n, 0), err
}

// asksAtEnd delivers the query of an ended run when the guest hands over its result or error, and reports whether it did. The
// guest must have made all calls of the journal.
func (m *Machine) asksAtEnd() bool {
	if m.cfg.Mode != Query || !m.cfg.Ended || m.query || m.nextCall() != nil {
		return false
	}
	m.query = true
	return true
}
