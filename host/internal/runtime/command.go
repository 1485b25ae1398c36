package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// carry carries a command out that needs more than its receiver. For the start of a child it returns the run to be
// started; free is called when that is durable, or was not started.
func (rt *Runtime) carry(ctx context.Context, owned store.Partition, cmd store.Command, m run.Message) (start *run.NewRun,
	free func(), err error) {
	if cmd.Kind != store.CommandChildStart {
		return nil, nil, rt.claim(ctx, owned, cmd, m)
	}
	free = rt.HoldVersions()
	v, err := rt.versionOfChild(ctx, cmd.To.Namespace, &m)
	if errors.Is(err, store.ErrNotFound) {
		free()
		answer := run.ChildFailed(&cmd, &m, err)
		return nil, nil, rt.answerAndDiscard(ctx, owned, cmd, &answer)
	}
	if err != nil { // it is tried again
		free()
		return nil, nil, err
	}
	n := &run.NewRun{Key: cmd.To, Workflow: m.Workflow, Version: v.Number, Module: v.Module, Input: m.Payload,
		InputDigest: run.InputDigest(m.Payload), Attributes: m.Attributes, TimeoutMs: m.TimeoutMs, Conflict: run.ConflictFail,
		Parent: &journal.Parent{Namespace: uint32(cmd.From.Namespace), RunID: cmd.From.ID, Incarnation: m.Sender[:],
			Iteration: m.Iteration, Handle: m.Handle, Depth: m.Depth}}
	rt.fill(n)
	return n, free, nil
}

// versionOfChild returns the version with which a child starts: the one that was asked for; else the newest one that has
// the module of the parent, so that both come of the same upload and understand each other; else the latest.
func (rt *Runtime) versionOfChild(ctx context.Context, ns store.NamespaceID, m *run.Message) (v store.Version, err error) {
	modules := rt.cfg.Store.Modules()
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
func (rt *Runtime) claim(ctx context.Context, owned store.Partition, cmd store.Command, m run.Message) error {
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
			answer := run.Reply(&cmd, &m, refusal)
			return &answer
		}
	}
	_, err := owned.Claim(ctx, c)
	if err == nil && !c.Release {
		rt.kick(cmd.From.Partition())
	}
	return err
}

// answerAndDiscard answers a command that no run takes. A crash between the two repeats the answer, which has the
// same id.
func (rt *Runtime) answerAndDiscard(ctx context.Context, owned store.Partition, cmd store.Command, answer *store.Command) error {
	if answer != nil {
		to := answer.To.Partition()
		if err := rt.cfg.Store.Submit(ctx, to, *answer); err != nil {
			return err
		}
		rt.kick(to)
	}
	return owned.Discard(ctx, []store.CommandSeq{cmd.Seq})
}

func (rt *Runtime) kick(p store.PartitionID) { rt.writerOf(p).Kick(p) }
