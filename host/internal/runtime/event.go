package runtime

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/host/internal/guest"
	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/shard"
	"github.com/wfhost/wfhost/store"
)

// Events are callbacks; each may be nil. They must not block, because they delay many runs.
type Events struct {
	// Committed is called with each commit of a run that has become durable.
	Committed func(c *store.RunCommit)
	// Batch is called with each group commit: the number of its runs, its approximate bytes, its duration, and its error.
	Batch func(runs, bytes int, took time.Duration, err error)
	// Waits is called when a workflow waits, with a function that hashes its instance's memory. Tests compare these hashes.
	Waits func(run store.RunKey, iteration uint32, consumed uint64, hash func() [32]byte)
	// Replay is called when a replay begins, and returns the report that the replay fills in.
	Replay func() *guest.ReplayReport
	// Wake is called with each run that is woken by its timer, and how late that is.
	Wake func(run store.RunKey, lateMs int64)
	// Activation is called with each activation that has ended.
	Activation func(guest.ActivationReport)
	// Attempt is called with each attempt of a step that has ended.
	Attempt func(a handler.Attempt, took time.Duration, err error)
	// Stuck is called when it is durable that a run is stuck.
	Stuck func(st *store.RunState)
	// Fault is called when an activation has failed in the host.
	Fault func(run store.RunKey, workflow string, cause error)
	// Lost and Acquired are called when a partition is lost or acquired. The cause is nil if the host released the partition.
	Lost     func(p store.PartitionID, cause error)
	Acquired func(p store.PartitionID)
	// StoreFailed is called once, when the store has failed.
	StoreFailed func(cause error)
}

// reporter reports to the log, to Events, and to the watchers of runs.
type reporter struct {
	life       *life
	logger     *slog.Logger
	events     Events
	watchers   *Watchers
	partitions *Partitions
	unreadable *sync.Map     // why runs of a newer release cannot be read, by key; not durable
	commits    atomic.Uint64 // durable commits of runs
}

// batch reports a group commit.
func (r *reporter) batch(b *shard.Batch, took time.Duration, err error) {
	if f := r.events.Batch; f != nil {
		f(b.Len(), b.Bytes, took, err)
	}
}

// storeFailed reports that the store has failed.
func (r *reporter) storeFailed(err error) {
	r.logger.Error("the store has failed, nothing is accepted any more", "cause", err)
	if f := r.events.StoreFailed; f != nil {
		f(err)
	}
}

// Durable reports a commit of a run.
func (r *reporter) Durable(c *store.RunCommit) {
	r.commits.Add(1)
	st := &c.State
	if c.Create || c.Delete {
		r.unreadable.Delete(c.Run)
	}
	r.watchers.Changed(c.Run, c.Delete || st.Status.Terminal() || st.Status.Attention())
	if f := r.events.Committed; f != nil {
		f(c)
	}
}

// Report logs a report of a shard, and passes it to Events.
func (r *reporter) Report(n shard.Report) {
	log, e := r.logger, &r.events
	switch n.Kind {
	case shard.ReportWake:
		if e.Wake != nil {
			e.Wake(n.Run, n.LateMs)
		}
	case shard.ReportStuck:
		if e.Stuck != nil {
			e.Stuck(n.State)
		}
	case shard.ReportFault:
		log.Error("activation failed in the host", "run", n.Run.ID, "workflow", n.Workflow, "cause", n.Cause)
		if e.Fault != nil {
			e.Fault(n.Run, n.Workflow, n.Cause)
		}
	case shard.ReportLongJournal:
		log.Warn("journal has become long, the workflow should continue as new", "run", n.Run.ID, "workflow", n.Workflow,
			"entries", n.Count)
	case shard.ReportUnrecorded:
		log.Error("outcome of a step cannot be recorded", "run", n.Run.ID, "workflow", n.Workflow, "cause", n.Cause)
	case shard.ReportUnreadable:
		if errors.Is(n.Cause, store.ErrVersion) {
			r.unreadable.Store(n.Run, n.Cause.Error())
		}
		if r.life.usable() == nil {
			log.Error("run cannot be read", "run", n.Run.ID, "cause", n.Cause)
		}
	case shard.ReportRefused:
		log.Error("the store has refused what happened to a run", "run", n.Run.ID, "cause", n.Cause)
	case shard.ReportCommand:
		if r.life.usable() == nil {
			log.Error("command cannot be taken in, it is tried again", "run", n.Run.ID, "partition", n.Partition, "cause", n.Cause)
		}
	case shard.ReportDamaged:
		log.Error("a command is damaged, and stays in the inbox", "partition", n.Partition, "cause", n.Cause)
	case shard.ReportInbox:
		if r.life.usable() == nil && !errors.Is(n.Cause, store.ErrFenced) { // which is reported as a lost partition
			log.Error("inbox cannot be read, it is tried again", "partition", n.Partition, "cause", n.Cause)
		}
	case shard.ReportIndex:
		if r.life.usable() == nil && !errors.Is(n.Cause, store.ErrFenced) {
			log.Error("wake index cannot be read, it is tried again", "partition", n.Partition, "cause", n.Cause)
		}
	case shard.ReportLost:
		r.lost(n)
	case shard.ReportAcquired:
		r.partitions.count.Add(1)
		if e.Acquired != nil {
			e.Acquired(n.Partition)
		}
	}
}

func (r *reporter) lost(n shard.Report) {
	r.partitions.count.Add(-1)
	r.partitions.owned[n.Partition].Store(false)
	if errors.Is(n.Cause, guest.ErrClosed) {
		return
	}
	if errors.Is(n.Cause, ErrReleased) || errors.Is(n.Cause, ErrGivenUp) {
		n.Cause = nil
	} else if r.life.usable() == nil {
		r.logger.Warn("partition was lost", "partition", n.Partition, "cause", n.Cause)
	}
	r.watchers.ChangedAll()
	if f := r.events.Lost; f != nil {
		f(n.Partition, n.Cause)
	}
}
