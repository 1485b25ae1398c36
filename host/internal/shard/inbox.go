package shard

import (
	"slices"

	"github.com/wfhost/wfhost/store"
)

// inboxPortion is the maximum number of commands per read.
const inboxPortion = 128

// maxWaiting limits the commands in memory: while at least as many wait, Read starts no read.
const maxWaiting = 1024

// inbox is the in-memory part of a partition's inbox: commands from other runs to its runs. Commands for one run are processed in
// order, so no command overtakes an earlier one that must be retried. Commands for different runs do not wait for each other. An
// inbox neither reads the store nor processes commands: it tells its caller what is next, and the caller reports the outcome. It
// starts no goroutine, reads no clock and takes no lock.
type inbox struct {
	after    store.CommandSeq // number of the newest command read
	again    bool             // there may be unread commands
	reading  bool
	waiting  int // commands in queues
	queues   map[store.RunKey][]inboxCommand
	deferred map[store.RunKey][]inboxCommand // commands for failed runs, until the runs are retried or deleted
}

// newInbox returns an inbox that has read no commands.
func newInbox() inbox {
	return inbox{queues: map[store.RunKey][]inboxCommand{}, deferred: map[store.RunKey][]inboxCommand{}}
}

// Kick records that there may be unread commands.
func (b *inbox) Kick() { b.again = true }

// Read begins a read and returns the number after which to read. It returns false if there is nothing to read, a read is in
// progress, or maxWaiting commands wait in memory. The caller must end the read with ReadDone or ReadFailed.
func (b *inbox) Read() (after store.CommandSeq, ok bool) {
	if !b.again || b.reading || b.waiting >= maxWaiting {
		return 0, false
	}
	b.again, b.reading = false, true
	return b.after, true
}

// ReadFailed ends a read that failed. After a Kick, the portion is read again.
func (b *inbox) ReadFailed() { b.reading = false }

// ReadDone ends a read of n commands. It must be called after all of them were added or skipped; a new read before that would
// read some of them twice.
func (b *inbox) ReadDone(n int) {
	b.again = b.again || n == inboxPortion
	b.reading = false
}

// Add adds a command that was read. It reports whether the command is the first for its run; then the caller must Take it.
func (b *inbox) Add(cmd inboxCommand) (first bool) {
	b.after = cmd.Seq
	b.waiting++
	b.queues[cmd.To] = append(b.queues[cmd.To], cmd)
	return len(b.queues[cmd.To]) == 1
}

// Skip skips a damaged command that was read. The command stays in the store for an operator.
func (b *inbox) Skip(seq store.CommandSeq) { b.after = seq }

// Waiting returns the number of commands in the queues, including busy ones.
func (b *inbox) Waiting() int { return b.waiting }

// Idle reports whether commands wait for a run and none of them is busy.
func (b *inbox) Idle(to store.RunKey) bool { return len(b.queues[to]) > 0 && b.busy(to) < 0 }

// Take marks the first command for a run as busy and returns it. The run must have a command, and none may be busy.
func (b *inbox) Take(to store.RunKey) inboxCommand {
	first := &b.queues[to][0]
	first.busy = true
	return *first
}

// Busy returns the busy command for a run; false if there is none.
func (b *inbox) Busy(to store.RunKey) (inboxCommand, bool) {
	i := b.busy(to)
	if i < 0 {
		return inboxCommand{}, false
	}
	return b.queues[to][i], true
}

// busy returns the index of the busy command for a run, -1 if there is none.
func (b *inbox) busy(to store.RunKey) int {
	return slices.IndexFunc(b.queues[to], func(c inboxCommand) bool { return c.busy })
}

// Postpone clears the busy flag of a command that was not processed. The command keeps its place.
func (b *inbox) Postpone(to store.RunKey) { b.queues[to][b.busy(to)].busy = false }

// Done removes the busy command for a run and reports whether more commands wait for the run.
func (b *inbox) Done(to store.RunKey) (more bool) {
	i := b.busy(to)
	b.waiting--
	rest := slices.Delete(b.queues[to], i, i+1)
	if len(rest) == 0 {
		delete(b.queues, to)
		return false
	}
	b.queues[to] = rest
	return true
}

// Defer defers a command for a failed run. The command stays in the store and no longer blocks other commands.
func (b *inbox) Defer(cmd inboxCommand) { b.deferred[cmd.To] = append(b.deferred[cmd.To], cmd) }

// HasDeferred reports whether any run has deferred commands.
func (b *inbox) HasDeferred() bool { return len(b.deferred) > 0 }

// TakeDeferred removes and returns the deferred commands of a run.
func (b *inbox) TakeDeferred(to store.RunKey) []inboxCommand {
	cmds := b.deferred[to]
	delete(b.deferred, to)
	return cmds
}

// Return puts commands back at the head of a run's queue: their effect was lost with the memory of the run, or they were
// deferred. It reports whether cmds is not empty and no command of the run is busy; then the caller must Take the first.
func (b *inbox) Return(to store.RunKey, cmds []inboxCommand) (idle bool) {
	if len(cmds) == 0 {
		return false
	}
	b.waiting += len(cmds)
	for i := range cmds {
		cmds[i].busy = false
	}
	b.queues[to] = append(cmds, b.queues[to]...)
	return b.Idle(to)
}
