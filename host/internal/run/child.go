package run

import (
	"errors"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// ChildStart returns the run that a command starts.
func ChildStart(cmd *store.Command, m *Message, v *store.Version) *NewRun {
	from := store.IDGiven
	if m.Derived {
		from = store.IDDerived
	}
	return &NewRun{ID: from, Key: cmd.To, Workflow: m.Workflow, Version: v.Number, Module: v.Module, Input: m.Payload,
		InputDigest: InputDigest(m.Payload), Attributes: m.Attributes, Memo: m.Memo, TimeoutMs: m.TimeoutMs,
		TraceParent: m.TraceParent,
		Conflict:    ConflictFail,
		Parent: &journal.Parent{Namespace: uint32(cmd.From.Namespace), RunID: cmd.From.ID, Incarnation: m.Sender[:],
			Iteration: m.Iteration, Handle: m.Handle, Depth: m.Depth}}
}

// ChildRefused reports whether the parent gets the error as its answer: the version does not exist, or a quota
// refused the start. After any other error the start is retried.
func ChildRefused(err error) bool {
	_, limit := errors.AsType[*abi.Error](err)
	return limit || errors.Is(err, store.ErrNotFound)
}
