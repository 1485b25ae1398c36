// Package child says what a run becomes that another run starts, and why it does not start.
package child

import (
	"context"
	"errors"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/message"
	"github.com/wfhost/wfhost/host/internal/origin"
	"github.com/wfhost/wfhost/store"
)

// Version returns the version with which a child starts: the one that was asked for; else the newest one that has the module of
// the parent, so that both come of the same upload and understand each other; else the latest.
func Version(ctx context.Context, modules store.ModuleStore, ns store.NamespaceID, m *message.Message) (store.Version, error) {
	if m.Version == 0 && !m.Latest && m.Module != "" {
		if d, err := store.ParseDigest(m.Module); err == nil {
			if v, err := modules.Newest(ctx, ns, m.Workflow, d); !errors.Is(err, store.ErrNotFound) {
				return v, err
			}
		}
	}
	return modules.Version(ctx, ns, m.Workflow, m.Version)
}

// New returns the run that a command starts.
func New(cmd *store.Command, m *message.Message, v *store.Version) *origin.NewRun {
	from := store.IDGiven
	if m.Derived {
		from = store.IDDerived
	}
	return &origin.NewRun{ID: from, Key: cmd.To, Workflow: m.Workflow, Version: v.Number, Module: v.Module, Input: m.Payload,
		InputDigest: origin.InputDigest(m.Payload), Attributes: m.Attributes, Memo: m.Memo, TimeoutMs: m.TimeoutMs,
		TraceParent: m.TraceParent,
		Conflict:    origin.ConflictFail,
		Parent: &journal.Parent{Namespace: uint32(cmd.From.Namespace), RunID: cmd.From.ID, Incarnation: m.Sender[:],
			Iteration: m.Iteration, Handle: m.Handle, Depth: m.Depth}}
}

// Refused reports whether an error is an answer to the parent: there is no such version, or a quota is in the way. After others
// the start is tried again.
func Refused(err error) bool {
	_, limit := errors.AsType[*abi.Error](err)
	return limit || errors.Is(err, store.ErrNotFound)
}
