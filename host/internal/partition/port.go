// Package partition holds the runs of partitions in memory, and decides what happens to them. A Shard has some of the
// host's partitions, and is the one writer of all of their runs: it is used by one goroutine, so that nothing in it is
// locked and nothing has to be ordered. It does no I/O: what it needs done it asks of its Port, which returns at once, and
// hands what came of it to the shard's methods later.
//
//	events (API, timers, commands, guests, attempts)
//	   |
//	   v
//	Shard.Deliver …  ->  run.Step  ->  effects that need nothing durable: Port, at once
//	   |                                effects that need it: kept
//	   v
//	Shard.Batch      ->  one group commit of all runs that changed; the next one gathers meanwhile
//	   |
//	   v
//	Shard.Committed  ->  the effects that were kept: answers, attempts, wakes
//
// A partition is the unit of ownership: it is acquired, may be lost to another host or by a commit whose outcome is
// unknown, and may be acquired again, while the shard goes on with the others. An error of one run concerns that run.
package partition

import (
	"time"

	"github.com/wfhost/wfhost/host/internal/actor"
	"github.com/wfhost/wfhost/host/internal/note"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/wake"
	"github.com/wfhost/wfhost/store"
)

// Class is the order in which guests get a place.
type Class uint8

// The classes, the first one first.
const (
	ClassWake  Class = iota // a run that waited
	ClassStart              // a run that has not begun
)

// Port does what a shard needs done. Its methods return at once and do not call the shard; they are called by the
// shard's goroutine alone.
type Port interface {
	// Load reads a run, and calls Shard.Loaded.
	Load(p *Partition, key store.RunKey)
	// Forgot says that a run is no longer in memory, or at rest.
	Forgot(key store.RunKey)
	// Due reads wakes after a key and up to an instant, and the first one beyond these, and calls Shard.DueRead.
	Due(p *Partition, after store.WakeKey, untilUnixMs int64, limit int)
	// Ahead seeks runs that wake by themselves after an instant and were changed when the clock showed more than that, and
	// calls Shard.AheadRead, as often as it finds some, and with an error that ends it. wasSet says that the clock was set
	// back just now, so that there may be many.
	Ahead(p *Partition, unixMs int64, wasSet bool)
	// Inbox reads at most limit commands after a number, and calls Shard.InboxRead.
	Inbox(p *Partition, after store.CommandSeq, limit int)
	// Carry carries a command out that needs more than its receiver: the start of a child, a claim of a token, the end of a run of
	// a schedule, a slot. It calls Shard.Carried.
	Carry(p *Partition, cmd store.Command, m run.Message)
	// Refuse submits the answer to a command that no run takes, if it has one, takes the command out of the inbox, and
	// calls Shard.Carried.
	Refuse(p *Partition, cmd store.Command, answer *store.Command)
	// Ring has a schedule or a queue looked at whose timer has rung. The partition is told by Arm.
	Ring(k wake.Key)
	// Acquire acquires a partition that was lost by a commit whose outcome is unknown, and calls Shard.Acquired.
	Acquire(p *Partition)

	// Activate makes a guest for a run, when there is a place. The shard is told by GuestReady, or Refused.
	Activate(l *run.Lease, c Class)
	actor.Port // guests and attempts

	// After calls f by the shard's goroutine when time has passed: time that is really waited for, whatever the host's clock
	// shows. After stop, f may be called once more.
	After(d time.Duration, f func(now int64)) (stop func())
	// Durable reports a commit of a run that has become durable.
	Durable(c *store.RunCommit)
	// Kick says that a command for a partition has become durable in its inbox.
	Kick(p store.PartitionID)
	// Note reports what happened to a run, for logs and events.
	Note(n note.Note)
}
