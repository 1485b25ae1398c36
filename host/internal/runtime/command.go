package runtime

import (
	"context"
	"errors"

	"github.com/wfhost/wfhost/host/internal/module"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// courier executes commands that need more than the receiving run.
type courier struct {
	store    store.Store
	kick     func(store.PartitionID) // Partitions.Kick
	versions *module.Versions
	random   func(p []byte)
	keepers  Keepers
	ids      func(context.Context, store.NamespaceID) (int64, error) // Config.IDs
	admit    func(store.NamespaceID) (leave func(), err error)       // Config.Admit
}

// carry executes a command. For the start of a child it returns the run to start; the caller calls free when the start is
// durable or has failed. For any other command start and free are nil.
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
		return nil, nil, c.keepers.Process(ctx, owned, cmd)
	case store.CommandHookClaim, store.CommandHookRelease:
		_, err = owned.Claim(ctx, run.Claim(&cmd, &m))
		if sent(err) && cmd.Kind == store.CommandHookClaim {
			c.kick(cmd.From.Partition())
		}
		return nil, nil, err
	}
	free = c.versions.LockDeletions()
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
		return nil, nil, err // an error is retried
	}
	start.Draw(c.random)
	return start, free, nil
}

// answerAndDiscard removes a command that no run takes from the inbox. The same commit sends answer, unless it is nil.
func (c *courier) answerAndDiscard(ctx context.Context, owned store.Partition, cmd store.Command, answer *store.Command) error {
	var answers []store.Command
	if answer != nil {
		answers = append(answers, *answer)
	}
	err := owned.Discard(ctx, []store.CommandSeq{cmd.Seq}, answers)
	if sent(err) && answer != nil {
		c.kick(answer.To.Partition())
	}
	return err
}

// sent reports whether the commands of a write with an outcome may be in the inboxes of their receivers.
func sent(err error) bool { return err == nil || errors.Is(err, store.ErrUnknown) }

// childVersion returns the version that a child starts with: the version that the parent requests; otherwise the newest version
// with the parent's module, so that both come from the same upload; otherwise the newest version.
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
