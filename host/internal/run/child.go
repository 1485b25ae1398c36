package run

import (
	"context"
	"errors"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Version returns the version that a child starts with: the one that the parent requests; otherwise the newest one
// that has the parent's module, so that both come from the same upload and understand each other; otherwise the
// latest.
func Version(ctx context.Context, modules store.ModuleStore, ns store.NamespaceID, m *Message) (store.Version, error) {
	if m.Version == 0 && !m.Latest && m.Module != "" {
		if d, err := store.ParseDigest(m.Module); err == nil {
			if v, err := modules.Newest(ctx, ns, m.Workflow, d); !errors.Is(err, store.ErrNotFound) {
				return v, err
			}
		}
	}
	return modules.Version(ctx, ns, m.Workflow, m.Version)
}

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
