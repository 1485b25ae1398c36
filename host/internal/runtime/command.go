package runtime

import (
	"context"
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/child"
	"github.com/wfhost/wfhost/host/internal/message"
	"github.com/wfhost/wfhost/host/internal/origin"
	"github.com/wfhost/wfhost/host/internal/writer"
	"github.com/wfhost/wfhost/store"
)

// courier carries out the commands of runs that need more than their receiver.
type courier struct {
	store     store.Store
	writers   writer.Set
	versions  *Versions
	random    func(p []byte)
	schedules Schedules
	admit     func(store.NamespaceID) (leave func(), err error) // Config.Admit
}

// carry carries a command out that needs more than its receiver. For the start of a child it returns the run to be
// started; free is called when that is durable, or was not started.
func (c *courier) carry(ctx context.Context, owned store.Partition, cmd store.Command, m message.Message) (start *origin.NewRun,
	free func(), err error) {
	if cmd.Kind == store.CommandSchedule {
		if err := c.schedules.Ended(ctx, cmd.To, cmd.From.ID); err != nil {
			return nil, nil, err
		}
		return nil, nil, c.answerAndDiscard(ctx, owned, cmd, nil)
	}
	if cmd.Kind != store.CommandChildStart {
		return nil, nil, c.claim(ctx, owned, cmd, m)
	}
	free = c.versions.Hold()
	v, err := child.Version(ctx, c.store.Modules(), cmd.To.Namespace, &m)
	if err == nil {
		var leave func()
		if leave, err = c.admit(cmd.To.Namespace); err == nil {
			release := free
			free = func() { release(); leave() }
		}
	}
	if err != nil {
		free()
		if child.Refused(err) {
			answer := message.ChildFailed(&cmd, &m, err)
			err = c.answerAndDiscard(ctx, owned, cmd, &answer)
		}
		return nil, nil, err // with an error, it is tried again
	}
	n := child.New(&cmd, &m, &v)
	n.Draw(c.random)
	return n, free, nil
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
