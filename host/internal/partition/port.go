// Package partition holds the runs of partitions in memory and decides what happens to them. A Shard has some of the
// host's partitions and is the only writer of their runs. One goroutine uses it, so it needs no locks. It does no I/O: it
// calls its Port, which returns at once and passes the result to a method of the shard later.
//
//	events (API, timers, commands, guests, attempts)
//	   |
//	   v
//	Shard.Deliver …  ->  run.Step  ->  effects that need no commit: Port, at once
//	   |                                effects that need a commit: kept
//	   v
//	Shard.Batch      ->  one group commit of all runs that changed; the next one gathers meanwhile
//	   |
//	   v
//	Shard.Committed  ->  the effects that were kept: answers, attempts, wakes
//
// A partition is the unit of ownership. It is acquired, may be lost to another host or by a commit whose outcome is unknown,
// and may be acquired again. The shard's other partitions continue meanwhile. An error of a run affects only that run.
package partition

import (
	"time"

	"github.com/wfhost/wfhost/host/internal/actor"
	"github.com/wfhost/wfhost/host/internal/note"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/wake"
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
	Ring(k wake.Key)
	// Acquire acquires a partition that was lost by a commit whose outcome is unknown, and calls Shard.Acquired.
	Acquire(p *Partition)

	// Activate creates a guest for a run when there is a place. The shard then gets GuestReady or Refused.
	Activate(l *run.Lease, c Class)
	actor.Port // guests and attempts

	// After calls f on the shard's goroutine after d of real time, whatever the host's clock shows. f may still be called
	// once after stop.
	After(d time.Duration, f func(now int64)) (stop func())
	// Durable reports that a run's commit is durable.
	Durable(c *store.RunCommit)
	// Kick reports that the inbox of a partition may have a new durable command.
	Kick(p store.PartitionID)
	// Note reports an event of a run or partition, for logs and events.
	Note(n note.Note)
}
