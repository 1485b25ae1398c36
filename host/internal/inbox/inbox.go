// Package inbox has what is in memory of the inbox of a partition: what other runs want of its runs. Commands for one run are
// taken one after the other, so that none overtakes another one that has to be tried again; those for different runs do not
// wait for each other. An Inbox reads nothing and carries nothing out: it says what is next, and is told what came of it.
//
// The package is pure: it starts no goroutine, reads no clock and takes no lock.
package inbox

import (
	"slices"

	"github.com/wfhost/wfhost/store"
)

// Portion bounds the commands that are read at a time.
const Portion = 128

// maxWaiting bounds the commands in memory: while there are more, no others are read.
const maxWaiting = 1024

// Inbox is what is in memory of the inbox of a partition.
type Inbox struct {
	after   store.CommandSeq // commands up to this number were read
	again   bool             // there may be more behind it
	reading bool
	waiting int // commands in queues
	queues  map[store.RunKey][]Command
	left    map[store.RunKey][]Command // for runs that have failed, until they are retried or deleted
}

// New returns an inbox of which nothing was read.
func New() Inbox {
	return Inbox{queues: map[store.RunKey][]Command{}, left: map[store.RunKey][]Command{}}
}

// Kick says that there may be commands that were not read.
func (b *Inbox) Kick() { b.again = true }

// Read begins to read a portion after a number, false if there is nothing to read, or enough waits in memory. ReadDone or
// ReadFailed ends it.
func (b *Inbox) Read() (after store.CommandSeq, ok bool) {
	if !b.again || b.reading || b.waiting >= maxWaiting {
		return 0, false
	}
	b.again, b.reading = false, true
	return b.after, true
}

// ReadFailed ends a portion that could not be read. A Kick has it read again.
func (b *Inbox) ReadFailed() { b.reading = false }

// ReadDone ends a portion of so many commands, each of which was added: not before, or those behind the first one would be
// read twice.
func (b *Inbox) ReadDone(n int) {
	b.again = b.again || n == Portion
	b.reading = false
}

// Add adds a command that was read. It reports whether the command is the first one for its run, which is to be taken.
func (b *Inbox) Add(cmd Command) (first bool) {
	b.after = cmd.Seq
	b.waiting++
	b.queues[cmd.To] = append(b.queues[cmd.To], cmd)
	return len(b.queues[cmd.To]) == 1
}

// Skip passes over a command that was read, which is damaged: it stays in the store, for a person.
func (b *Inbox) Skip(seq store.CommandSeq) { b.after = seq }

// Waiting returns how many commands wait in memory to be taken.
func (b *Inbox) Waiting() int { return b.waiting }

// Idle reports whether commands wait for a run, none of which is being carried out.
func (b *Inbox) Idle(to store.RunKey) bool { return len(b.queues[to]) > 0 && b.busy(to) < 0 }

// Take returns the first command for a run, which is to be carried out. There is one, and none is busy.
func (b *Inbox) Take(to store.RunKey) Command {
	first := &b.queues[to][0]
	first.busy = true
	return *first
}

// Busy returns the command for a run that is being carried out, false if there is none.
func (b *Inbox) Busy(to store.RunKey) (Command, bool) {
	i := b.busy(to)
	if i < 0 {
		return Command{}, false
	}
	return b.queues[to][i], true
}

// busy returns the index of the command for a run that is being carried out, -1 if there is none.
func (b *Inbox) busy(to store.RunKey) int {
	return slices.IndexFunc(b.queues[to], func(c Command) bool { return c.busy })
}

// Postpone says that the busy command for a run was not carried out. It keeps its place.
func (b *Inbox) Postpone(to store.RunKey) { b.queues[to][b.busy(to)].busy = false }

// Done takes the busy command for a run out, and reports whether there is a next one to be taken.
func (b *Inbox) Done(to store.RunKey) (more bool) {
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

// Leave keeps a command for a run that has failed: it stays in the store, and is no longer in the way of others.
func (b *Inbox) Leave(cmd Command) { b.left[cmd.To] = append(b.left[cmd.To], cmd) }

// HasLeft reports whether commands were left to any run.
func (b *Inbox) HasLeft() bool { return len(b.left) > 0 }

// Left returns the commands that were left to a run, and forgets them.
func (b *Inbox) Left(to store.RunKey) []Command {
	cmds := b.left[to]
	delete(b.left, to)
	return cmds
}

// Return has commands taken again, before those behind them: their effect was lost with the memory of their run, or they were
// left to it. It reports whether there are any, and none is busy: then the first one is to be taken.
func (b *Inbox) Return(to store.RunKey, cmds []Command) (idle bool) {
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
