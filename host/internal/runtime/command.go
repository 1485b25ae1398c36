package runtime

import (
	"context"
	"errors"

	"github.com/wfhost/wfhost/host/internal/module"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/writer"
	"github.com/wfhost/wfhost/store"
)

// courier carries out the commands of runs that need more than their receiver.
type courier struct {
	store    store.Store
	writers  writer.Set
	versions *module.Versions
	random   func(p []byte)
	keepers  Keepers
	ids      func(context.Context, store.NamespaceID) (int64, error) // Config.IDs
	admit    func(store.NamespaceID) (leave func(), err error)       // Config.Admit
}

// carry carries a command out that needs more than its receiver. For the start of a child it returns the run to be
// started; free is called when that is durable, or was not started.
func (c *courier) carry(ctx context.Context, owned store.Partition, cmd store.Command, m run.Message) (start *run.NewRun,
	free func(), err error) {
	switch cmd.Kind {
	case store.CommandSchedule:
		err = c.keepers.Changed(ctx, cmd.To, cmd.From.ID)
		if err == nil {
			err = c.answerAndDiscard(ctx, owned, cmd, nil)
		}
		return nil, nil, err
	case store.CommandSlotAsk, store.CommandSlotReturn, store.CommandLimits:
		return nil, nil, c.keepers.Take(ctx, owned, cmd)
	case store.CommandHookClaim, store.CommandHookRelease:
		_, err = owned.Claim(ctx, run.Claim(&cmd, &m))
		if err == nil && cmd.Kind == store.CommandHookClaim {
			c.writers.Kick(cmd.From.Partition())
		}
		return nil, nil, err
	}
	free = c.versions.Hold()
	v, err := childVersion(ctx, c.store.Modules(), cmd.To.Namespace, &m)
	if err == nil {
		start = run.ChildStart(&cmd, &m, &v)
		start.IDsMs, err = c.ids(ctx, cmd.To.Namespace)
		if err == nil {
			err = c.keepers.Limit(ctx, start)
		}
	}
	if err == nil {
		var leave func()
		leave, err = c.admit(cmd.To.Namespace)
		if err == nil {
			release := free
			free = func() { release(); leave() }
		}
	}
	if err != nil {
		free()
		if run.ChildRefused(err) {
			answer := run.ChildFailed(&cmd, &m, err)
			err = c.answerAndDiscard(ctx, owned, cmd, &answer)
		}
		return nil, nil, err // with an error, it is tried again
	}
	start.Draw(c.random)
	return start, free, nil
}

// answerAndDiscard answers a command that no run takes.
func (c *courier) answerAndDiscard(ctx context.Context, owned store.Partition, cmd store.Command, answer *store.Command) error {
	var answers []store.Command
	if answer != nil {
		answers = append(answers, *answer)
	}
	err := owned.Discard(ctx, []store.CommandSeq{cmd.Seq}, answers)
	if err == nil && answer != nil {
		c.writers.Kick(answer.To.Partition())
	}
	return err
}

// childVersion returns the version that a child starts with: the one that the parent requests; otherwise the newest one that has
// the parent's module, so that both come from the same upload; otherwise the newest one.
func childVersion(ctx context.Context, modules store.ModuleStore, ns store.NamespaceID, m *run.Message) (store.Version, error) {
	if m.Version == 0 && !m.Latest && m.Module != "" {
		if d, err := store.ParseDigest(m.Module); err == nil {
			if v, err := modules.Newest(ctx, ns, m.Workflow, d); !errors.Is(err, store.ErrNotFound) {
				return v, err
			}
		}
	}
	return modules.Version(ctx, ns, m.Workflow, m.Version)
}
