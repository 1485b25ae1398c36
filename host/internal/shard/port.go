package shard

import (
	"time"

	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// Class is the priority of a guest that waits for a place.
type Class uint8

// The classes, highest priority first.
const (
	ClassWake  Class = iota // a run that waited
	ClassStart              // a run that has not begun
)

// Port gives a shard access to the store, guests, attempts and timers. Only the shard's goroutine calls its methods. They
// return at once and do not call the shard; results arrive later, on the shard's goroutine.
type Port interface {
	// Load reads a run and calls Shard.Loaded.
	Load(p *Partition, key store.RunKey)
	// Forgot reports that a run left memory or came to rest.
	Forgot(key store.RunKey)
	// Due reads at most limit wakes after a key and up to untilUnixMs, and the first wake behind them. It calls Shard.DueRead.
	Due(p *Partition, after store.WakeKey, untilUnixMs int64, limit int)
	// Ahead seeks runs that wake after unixMs and were last changed when the clock showed more than unixMs. It calls
	// Shard.AheadRead for each portion of runs it finds, and with an error if a read fails. wasSet is true if the clock was
	// set back just now, so there may be many such runs.
	Ahead(p *Partition, unixMs int64, wasSet bool)
	// Inbox reads at most limit commands after a number and calls Shard.InboxRead.
	Inbox(p *Partition, after store.CommandSeq, limit int)
	// Carry executes a command that needs more than the receiving run: the start of a child, a claim of a token, the end of a
	// schedule's run, a request for a slot. It calls Shard.Carried.
	Carry(p *Partition, cmd store.Command, m run.Message)
	// Refuse removes a command that no run takes from the inbox and sends answer, unless it is nil. It calls Shard.Carried.
	Refuse(p *Partition, cmd store.Command, answer *store.Command)
	// Ring processes a schedule or queue whose timer fired, and calls Partition.Arm.
	Ring(k TimerKey)
	// Acquire acquires a partition that was lost by a commit whose outcome is unknown, and calls Shard.Acquired.
	Acquire(p *Partition)

	// Ask asks for a place for an attempt: see run.Config. It may call no method of the shard. For each verdict but run.Begins,
	// Shard.Admitted follows, and after run.Soon perhaps Shard.Queued before it.
	Ask(a run.Ask) (place any, v run.Verdict)
	// WithdrawPartition withdraws the asks of all runs of a partition that was lost.
	WithdrawPartition(id store.PartitionID)
	// Asks reports whether a step of a run waits for a place, or has been given one that the shard does not know of yet.
	Asks(key store.RunKey) bool

	// Activate creates a guest for a run when there is a place. The shard then gets GuestReady or Refused.
	Activate(l *run.Lease, c Class)
	GuestPort // guests and attempts

	// After calls f on the shard's goroutine after d of real time, whatever the host's clock shows. f may still be called
	// once after stop.
	After(d time.Duration, f func(now int64)) (stop func())
	// Durable reports that a run's commit is durable.
	Durable(c *store.RunCommit)
	// Kick reports that the inbox of a partition may have a new durable command.
	Kick(p store.PartitionID)
	// Report reports what happened to a run or partition, for logs and events.
	Report(r Report)
}
