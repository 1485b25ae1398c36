package run

import (
	"slices"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Draft holds what the run's next commit contains, beside journal entries and log lines.
type Draft struct {
	Create   bool       // creates the run
	Replace  bool       // with Create: removes the run that had the id before
	Delete   bool       // deletes the run
	forget   bool       // with Delete: removes the tombstone of a deleted run
	prepared int        // journal entries that were handed to commits
	imported *Import    // the contents of an imported run
	before   *iteration // the previous iteration, if the commit ends it
	freed    int64      // journal bytes of the iterations that the commit removes
	acks     []store.CommandSeq
	outbox   []store.Command
	ask      *store.Command // for a slot; sent after the previous slot is returned
}

// iteration is the journal of an iteration that continued as new.
type iteration struct {
	journal  *journal.Journal
	prepared int
	by       Sender // as the run was then: the next iteration may have another module
}

// Ack removes a command from the inbox in the commit that has its effect.
func (d *Draft) Ack(seq store.CommandSeq) { d.acks = append(d.acks, seq) }

// Send sends a command to another run, in addition to the commands that entries send.
func (d *Draft) Send(cmd store.Command) { d.outbox = append(d.outbox, cmd) }

// Continued reports whether the commit ends an iteration.
func (d *Draft) Continued() bool { return d.before != nil }

// any reports whether the draft has a change to commit.
func (d *Draft) any() bool {
	return d.Create || d.Delete || d.before != nil || len(d.acks) > 0 || len(d.outbox) > 0 || d.ask != nil
}

// next switches to the journal of the next iteration. The same commit ends the previous one.
func (d *Draft) next(before *journal.Journal, by Sender) {
	d.before, d.prepared = &iteration{before, d.prepared, by}, 0
}

// Commit returns the commit that gives the run the state st, and begins another draft.
func (r *Record) Commit(st store.RunState) *store.RunCommit {
	d, before := &r.Draft, max(r.State.StoredBytes, r.State.JournalBytes)
	st.Kept, st.Past = r.past.kept, r.past.list
	c := &store.RunCommit{Run: r.Key, Create: d.Create, Replace: d.Replace && d.Create, Expect: store.Seq(d.prepared),
		Append: r.Journal.All()[d.prepared:], State: st, Logs: r.Log.fresh, Ack: d.acks, Outbox: slices.Clip(d.outbox)}
	there := 0 // entries of an imported run
	if i := d.imported; i != nil {
		c.Earlier, c.Output, there = i.Earlier, slices.Clip(i.Output), len(i.Entries)
	}
	if old := d.before; old != nil {
		c.Before = &store.IterationEnd{Iteration: old.journal.Started().Iteration, Expect: store.Seq(old.prepared),
			Append: old.journal.All()[old.prepared:]}
		outward(c, old.by, old.journal, c.Before.Append[there:])
		there = 0
	}
	outward(c, r.Sender(), r.Journal, c.Append[there:])
	if d.ask != nil {
		c.Outbox = append(c.Outbox, *d.ask)
	}
	freed := d.freed
	r.State, r.Draft, r.Log.fresh = st, Draft{prepared: r.Journal.Len()}, nil
	r.State.StoredBytes = max(before+Stored(c)-freed, st.JournalBytes+r.past.bytes())
	c.State = r.State
	return c
}

// CommitDelete returns the commit that deletes the run, or nil if the draft does not delete it.
func (r *Record) CommitDelete() *store.RunCommit {
	if !r.Draft.Delete {
		return nil
	}
	forget := r.Draft.forget
	r.Draft.Delete, r.Draft.forget = false, false
	return &store.RunCommit{Run: r.Key, State: r.State, Delete: true, Forget: forget}
}

// outward adds the effects of entries outside their run: output, and commands to other runs.
func outward(c *store.RunCommit, by Sender, j *journal.Journal, entries []store.Entry) {
	for i := range entries {
		e := &entries[i]
		if e.Kind == store.KindEmit && e.Refused == 0 {
			c.Output = append(c.Output, store.Chunk{Index: uint64(e.Code), UnixMs: e.UnixMs, Topic: e.Name, Data: e.Input})
		}
		c.Outbox = append(c.Outbox, by.Commands(j, e)...)
	}
}

// Estimated bytes of the keys and numbers stored with a chunk of output and a line of a log.
const (
	chunkBytes = 48
	lineBytes  = 48
)

// Stored estimates how many bytes a commit stores: entries, output and log lines.
func Stored(c *store.RunCommit) (n int64) {
	n = journal.Size(c.Append)
	for i := range c.Earlier {
		n += journal.Size(c.Earlier[i].Append)
	}
	if c.Before != nil {
		n += journal.Size(c.Before.Append)
	}
	for i := range c.Output {
		n += int64(chunkBytes + len(c.Output[i].Topic) + len(c.Output[i].Data))
	}
	for i := range c.Logs {
		n += int64(lineBytes + len(c.Logs[i].Text))
	}
	return n
}
