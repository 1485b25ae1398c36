package limits

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/lifecycle"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

const (
	// maxCommands bounds the commands that one commit of a queue processes. They share an fsync.
	maxCommands = 256
	// maxGrants bounds the runs that one commit of a queue admits.
	maxGrants = 256
)

// WorkflowLimiterConfig configures a WorkflowLimiter. All fields are required.
type WorkflowLimiterConfig struct {
	Store  store.Store
	Logger *slog.Logger
	Now    func() int64 // Unix milliseconds
}

// WorkflowLimiterHost is the part of the host that a WorkflowLimiter uses. Its methods may be called concurrently.
type WorkflowLimiterHost interface {
	// Owned returns a partition, nil if this host does not own it.
	Owned(p store.PartitionID) store.Partition
	// Arm sets the instant of the next call of Due, store.NoWake for none. With an error, Due is called again after a delay.
	Arm(queue store.RunKey, wakeMs int64, err error)
	// Kick reports that a partition has commands in its inbox.
	Kick(p store.PartitionID)
	// StoreFailed reports that the store has failed.
	StoreFailed(err error)
}

// WorkflowLimiter admits runs of workflows with limits. Each such workflow has a queue in the partition of the workflow's name,
// and the host that owns the partition changes it. A run asks for a slot by a command, receives the slot by a command, and
// returns it by a command when it ends. So a limit holds across all partitions and hosts of a store. Each step is durable
// before the next one: no crash loses a slot or gives it out twice.
//
// Its methods may be called concurrently.
type WorkflowLimiter struct {
	cfg  WorkflowLimiterConfig
	host WorkflowLimiterHost // set by Begin
	life *lifecycle.Life

	mu     sync.Mutex // guards queues; no function is called while it is held
	queues map[store.RunKey]*workflowQueue
}

// workflowQueue is the in-memory part of a queue. It is reset when this host acquires the queue's partition again.
type workflowQueue struct {
	mu        sync.Mutex // guards the queue while it is changed, including the commit
	owned     store.Partition
	processed store.CommandSeq // commands up to this one were processed
	marks     Marks
}

// NewWorkflowLimiter returns a WorkflowLimiter that waits for Begin.
func NewWorkflowLimiter(cfg WorkflowLimiterConfig) *WorkflowLimiter {
	return &WorkflowLimiter{cfg: cfg, life: lifecycle.NewLife(), queues: map[store.RunKey]*workflowQueue{}}
}

// Begin sets the Host and starts work. It is called once.
func (k *WorkflowLimiter) Begin(h WorkflowLimiterHost) {
	k.host = h
	k.life.Begin()
}

// Close waits until no queue is being changed. Afterwards none is.
func (k *WorkflowLimiter) Close() { k.life.Close() }

// Limit sets the limits of a new run from the current limits of its workflow.
func (k *WorkflowLimiter) Limit(ctx context.Context, n *run.NewRun) error {
	rules, err := k.Rules(ctx, n.Key.Namespace, n.Workflow)
	n.Limit = rules.Of(n.Input, n.Priority)
	return err
}

// Rules returns the limits of a workflow.
func (k *WorkflowLimiter) Rules(ctx context.Context, ns store.NamespaceID, workflow string) (Rules, error) {
	l, err := k.cfg.Store.LimitsOf(ctx, ns, workflow)
	if err != nil {
		return nil, err
	}
	rules, err := DecodeRules(l.Data)
	if err != nil {
		return nil, fmt.Errorf("workflow %q: %w: %w", workflow, store.ErrCorrupt, err)
	}
	return rules, nil
}

// Set sets the limits of a workflow, durable on return, and triggers processing of its queue. id is a random id for the
// command that does that.
func (k *WorkflowLimiter) Set(ctx context.Context, l store.Limits, id store.Incarnation) error {
	if err := k.life.Wait(ctx); err != nil {
		return err
	}
	err := k.cfg.Store.SetLimits(ctx, l, run.Changed(l.Queue(), id))
	if errors.Is(err, store.ErrFailed) {
		k.host.StoreFailed(err)
	}
	if err == nil {
		k.host.Kick(l.Queue().Partition())
	}
	return err
}

// Process processes a command for a queue, and the commands behind it. It returns when the result is durable.
func (k *WorkflowLimiter) Process(ctx context.Context, owned store.Partition, cmd store.Command) error {
	if err := k.life.Wait(ctx); err != nil {
		return err
	}
	q := k.queue(cmd.To)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.owned != owned {
		q.owned, q.processed, q.marks = owned, 0, Marks{}
	}
	if cmd.Seq <= q.processed { // processed together with an earlier command
		return nil
	}
	return k.change(ctx, q, cmd.To, max(cmd.Seq, 1)-1)
}

func (k *WorkflowLimiter) queue(key store.RunKey) *workflowQueue {
	k.mu.Lock()
	defer k.mu.Unlock()
	q := k.queues[key]
	if q == nil {
		q = &workflowQueue{}
		k.queues[key] = q
	}
	return q
}

// Due processes a queue whose timer fired. It does not block. done is called when the queue has been processed.
func (k *WorkflowLimiter) Due(key store.RunKey, done func()) {
	begun := k.life.Go(func(ctx context.Context) {
		defer done()
		if k.life.Wait(ctx) != nil {
			return
		}
		if err := k.processDue(ctx, key); err != nil && ctx.Err() == nil {
			k.cfg.Logger.Error("the runs that wait for a slot could not be processed", "workflow", key.ID, "cause", err)
			k.host.Arm(key, 0, err)
		}
	})
	if !begun {
		go done() // it may take locks
	}
}

// processDue processes a queue without new commands.
func (k *WorkflowLimiter) processDue(ctx context.Context, key store.RunKey) error {
	owned := k.host.Owned(key.Partition())
	if owned == nil {
		return nil
	}
	q := k.queue(key)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.owned != owned {
		q.owned, q.processed, q.marks = owned, 0, Marks{}
	}
	return k.change(ctx, q, key, noCommands)
}

// noCommands is greater than the number of any command.
const noCommands = ^store.CommandSeq(0)

// change applies the commands for a queue that are numbered above after, and admits the runs that may begin.
func (k *WorkflowLimiter) change(ctx context.Context, q *workflowQueue, key store.RunKey, after store.CommandSeq) error {
	for more := true; more; after = noCommands {
		var cmds []store.Command
		if after != noCommands {
			all, err := q.owned.Commands(ctx, after, maxCommands)
			if err != nil {
				return err
			}
			cmds = slices.DeleteFunc(all, func(c store.Command) bool { return c.To != key || !takes(c.Kind) })
		}
		var err error
		more, err = k.commit(ctx, q, key, cmds)
		if err != nil {
			q.marks = Marks{}
			return err
		}
		if n := len(cmds); n > 0 {
			q.processed = cmds[n-1].Seq
		}
	}
	return nil
}

// takes reports whether queues process commands of a kind.
func takes(kind store.CommandKind) bool {
	return kind == store.CommandSlotAsk || kind == store.CommandSlotReturn || kind == store.CommandLimits
}

// commit makes one change of a queue durable. It reports whether there is more to do at once.
func (k *WorkflowLimiter) commit(ctx context.Context, q *workflowQueue, key store.RunKey,
	cmds []store.Command) (more bool, err error) {
	rules, err := k.Rules(ctx, key.Namespace, key.ID)
	if err != nil {
		return false, err
	}
	b, err := OpenQueue(k.reader(ctx, key), q.marks, rules, k.cfg.Now())
	if err != nil {
		return false, err
	}
	set := store.QueueSet{Queue: key}
	for i := range cmds {
		apply(b, &cmds[i])
		set.Ack = append(set.Ack, cmds[i].Seq)
	}
	for _, g := range b.Admit(maxGrants) {
		set.Outbox = append(set.Outbox, run.GiveSlot(key, g.Run, g.Ask))
	}
	c, err := b.Close()
	if err != nil {
		return false, err
	}
	set.Before, set.Cells = c.Before, c.Cells
	group := store.Group{Partition: q.owned, Queues: []store.QueueSet{set}}
	if c.WakeMs != c.OldWakeMs {
		group.Wakes = []store.WakeSet{{Kind: store.WakeLimit, Key: key, OldUnixMs: c.OldWakeMs, UnixMs: c.WakeMs}}
	}
	err = k.cfg.Store.Commit(context.WithoutCancel(ctx), []store.Group{group})
	if errors.Is(err, store.ErrFailed) {
		k.host.StoreFailed(err)
	}
	if refused, ok := errors.AsType[*store.RefusedError](err); ok {
		err = refused.Err
	}
	if err != nil {
		return false, err
	}
	k.host.Arm(key, c.WakeMs, nil)
	for _, p := range receivers(set.Outbox) {
		k.host.Kick(p)
	}
	return c.More, nil
}

// apply applies a command to a queue. Malformed commands are ignored.
func apply(b *Queue, cmd *store.Command) {
	var m run.Message
	if json.Unmarshal(cmd.Data, &m) != nil {
		return
	}
	switch cmd.Kind {
	case store.CommandSlotAsk:
		if m.Limit == nil {
			m.Limit = &journal.Limit{}
		}
		b.Ask(cmd.From.ID, cmd.ID, m.Limit)
	case store.CommandSlotReturn:
		b.Return(cmd.From.ID, m.Sender, m.Keep)
	}
}

// receivers returns the partitions that commands are sent to.
func receivers(cmds []store.Command) (list []store.PartitionID) {
	for i := range cmds {
		list = append(list, cmds[i].To.Partition())
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Position returns the position of a run in the queue of its workflow, false if the run does not wait.
func (k *WorkflowLimiter) Position(ctx context.Context, st *store.RunState) (p QueuePosition, ok bool, err error) {
	key := store.RunKey{Namespace: st.Run.Namespace, ID: st.Workflow}
	rules, err := k.Rules(ctx, key.Namespace, key.ID)
	if err != nil {
		return p, false, err
	}
	return FindPosition(k.reader(ctx, key), rules, k.cfg.Now(), st.Run.ID, st.Incarnation)
}

// Count returns how many runs of a workflow wait and how many hold a slot.
func (k *WorkflowLimiter) Count(ctx context.Context, ns store.NamespaceID, workflow string) (QueueStats, error) {
	return CountQueue(k.reader(ctx, store.RunKey{Namespace: ns, ID: workflow}))
}

func (k *WorkflowLimiter) reader(ctx context.Context, key store.RunKey) Reader {
	return func(from, to []byte, n int) ([]store.Cell, error) {
		return k.cfg.Store.Cells(ctx, store.CellQuery{Queue: key, From: from, To: to, Limit: n})
	}
}
