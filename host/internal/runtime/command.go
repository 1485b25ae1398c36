package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/message"
	"github.com/wfhost/wfhost/host/internal/origin"
	"github.com/wfhost/wfhost/host/internal/writer"
	"github.com/wfhost/wfhost/store"
)

// courier carries out the commands of runs that need more than their receiver.
type courier struct {
	store    store.Store
	writers  writer.Set
	versions *Versions
	random   func(p []byte)
}

// carry carries a command out that needs more than its receiver. For the start of a child it returns the run to be
// started; free is called when that is durable, or was not started.
func (c *courier) carry(ctx context.Context, owned store.Partition, cmd store.Command, m message.Message) (start *origin.NewRun,
	free func(), err error) {
	if cmd.Kind != store.CommandChildStart {
		return nil, nil, c.claim(ctx, owned, cmd, m)
	}
	free = c.versions.Hold()
	v, err := c.versionOfChild(ctx, cmd.To.Namespace, &m)
	if errors.Is(err, store.ErrNotFound) {
		free()
		answer := message.ChildFailed(&cmd, &m, err)
		return nil, nil, c.answerAndDiscard(ctx, owned, cmd, &answer)
	}
	if err != nil { // it is tried again
		free()
		return nil, nil, err
	}
	n := &origin.NewRun{Key: cmd.To, Workflow: m.Workflow, Version: v.Number, Module: v.Module, Input: m.Payload,
		InputDigest: origin.InputDigest(m.Payload), Attributes: m.Attributes, TimeoutMs: m.TimeoutMs, Conflict: origin.ConflictFail,
		Parent: &journal.Parent{Namespace: uint32(cmd.From.Namespace), RunID: cmd.From.ID, Incarnation: m.Sender[:],
			Iteration: m.Iteration, Handle: m.Handle, Depth: m.Depth}}
	n.Draw(c.random)
	return n, free, nil
}

// versionOfChild returns the version with which a child starts: the one that was asked for; else the newest one that has
// the module of the parent, so that both come of the same upload and understand each other; else the latest.
func (c *courier) versionOfChild(ctx context.Context, ns store.NamespaceID, m *message.Message) (v store.Version, err error) {
	modules := c.store.Modules()
	if m.Version == 0 && !m.Latest && m.Module != "" {
		found := false
		for x, err := range modules.Versions(ctx, ns, m.Workflow) {
			if err != nil {
				return v, err
			}
			if x.Module.String() == m.Module {
				v, found = x, true
			}
		}
		if found {
			return v, nil
		}
	}
	return modules.Version(ctx, ns, m.Workflow, m.Version)
}

// claim gives a token to a run, or takes it back.
func (c *courier) claim(ctx context.Context, owned store.Partition, cmd store.Command, m message.Message) error {
	claim := store.HookClaim{Namespace: cmd.To.Namespace, Token: m.Token, Ack: cmd.Seq,
		Release: cmd.Kind == store.CommandHookRelease,
		Holder:  store.HookHolder{Run: cmd.From, Incarnation: m.Sender, Iteration: m.Iteration, Handle: m.Handle}}
	if !claim.Release {
		claim.Reply = func(h store.HookHolder) (*store.Command, error) {
			var refusal error
			if h != claim.Holder {
				refusal = &abi.Error{Code: abi.Conflict, Message: fmt.Sprintf("token %q is held by run %q", m.Token, h.Run.ID),
					Details: map[string]string{"holder": h.Run.ID}}
			}
			answer := message.Reply(&cmd, &m, refusal)
			return &answer, nil
		}
	}
	_, err := owned.Claim(ctx, claim)
	if err == nil && !claim.Release {
		c.writers.Kick(cmd.From.Partition())
	}
	return err
}

// answerAndDiscard answers a command that no run takes. A crash between the two repeats the answer, which has the
// same id.
func (c *courier) answerAndDiscard(ctx context.Context, owned store.Partition, cmd store.Command, answer *store.Command) error {
	if answer != nil {
		to := answer.To.Partition()
		if err := c.store.Submit(ctx, to, *answer); err != nil {
			return err
		}
		c.writers.Kick(to)
	}
	return owned.Discard(ctx, []store.CommandSeq{cmd.Seq})
}
