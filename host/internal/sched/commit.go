package sched

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// view gives the state that the next commit writes.
func (o *owner) view() store.RunState {
	st := o.state
	now := max(o.s.nowMs(), o.journal.LastUnixMs())
	st.UpdatedUnixMs = now
	st.Length = store.Seq(o.journal.Len())
	st.Iteration, st.Version, st.Module = o.ident.iteration, o.ident.version, o.ident.module
	st.Output, st.Attributes = o.journal.Output(), o.journal.Attributes()
	st.JournalBytes = o.journal.Bytes()
	st.LogLines, st.LogRecords, st.Faults = o.logLines, o.records, o.faults
	if at, ok := o.journal.StartedUnixMs(); ok {
		st.StartedUnixMs = at
	}
	st.Suspension = store.Suspension{}
	if s, ok := o.journal.Suspension(); ok {
		st.Suspension = s
	}
	st.Status, st.Reason, st.WakeUnixMs = o.standing(now)
	if st.Status.Terminal() {
		st.EndedUnixMs = o.journal.LastUnixMs()
		st.Suspension = store.Suspension{}
	}
	return st
}

// standing gives status, reason and wake. A run that something goes on with has a wake that is due already: if
// the host dies, the next one finds the run there and takes it up.
func (o *owner) standing(now int64) (store.Status, string, int64) {
	switch o.journal.Ended() {
	case store.KindInvalid:
	case store.KindCompleted:
		return store.Completed, "", store.NoWake
	case store.KindCancelled:
		return store.Cancelled, "", store.NoWake
	case store.KindTerminated:
		return store.Terminated, "", store.NoWake
	default:
		return store.Failed, "", store.NoWake
	}
	if o.status != 0 {
		return o.status, o.reason, store.NoWake
	}
	if o.journal.Paused() {
		return store.Paused, o.reason, store.NoWake
	}
	if o.act != nil || len(o.attempts) > 0 {
		return store.Running, "", now
	}
	if o.retryMs > now {
		return store.Queued, o.reason, o.retryMs
	}
	if at := o.journal.Started().AtUnixMs; o.pending && at > now {
		return store.Sleeping, "until its start", at
	}
	if o.pending || o.journal.Deliverable() {
		return store.Queued, "", now
	}
	wake, ok := o.journal.Wake()
	if !ok {
		wake = store.NoWake
	}
	if o.waiting != "" { // the next host looks again, since it may have the handler
		return store.Waiting, o.waiting, now
	}
	status, reason := store.Sleeping, ""
	for h := range o.journal.Handles {
		if h.Step != nil {
			status, reason = store.Waiting, "retry of step "+h.Name
		} else if h.Kind != store.KindSleep {
			status, reason = store.Waiting, h.Kind.String()+" "+h.Name
		}
	}
	return status, reason, wake
}

// commit makes everything that was appended so far durable. The caller does not hold the owner's lock.
func (o *owner) commit(ctx context.Context) error {
	o.commitMu.Lock()
	defer o.commitMu.Unlock()
	o.mu.Lock()
	if o.dead != nil {
		o.mu.Unlock()
		return o.dead
	}
	c := o.prepareCommit()
	if !o.create && len(c.Append) == 0 && len(c.Logs) == 0 && len(c.Ack) == 0 && len(c.Outbox) == 0 && c.Before == nil &&
		o.same(&c.State) {
		o.mu.Unlock()
		return nil
	}
	made, logs, acks, outbox := o.journal, len(o.logs), len(o.acks), len(o.outbox)
	o.mu.Unlock()
	err := o.s.write(context.WithoutCancel(ctx), &c)
	o.mu.Lock()
	if err != nil {
		o.stopLocked(fmt.Errorf("commit of run %q: %w", o.key.ID, err))
		o.mu.Unlock()
		if !errors.Is(err, store.ErrExists) && !errors.Is(err, store.ErrClosed) {
			o.s.fail(err)
		}
		return err
	}
	o.create, o.replace, o.state = false, false, c.State
	o.logs, o.acks, o.outbox = o.logs[logs:], o.acks[acks:], o.outbox[outbox:]
	if made == o.journal {
		o.durable = int(c.State.Length)
	} else { // it continued as new meanwhile
		o.oldMade = int(c.State.Length)
	}
	if c.Before != nil {
		o.old = nil
	}
	wake, arm := o.wakeAfter(&c.State)
	o.mu.Unlock()
	if arm {
		o.s.arm(o.key, wake)
	}
	for i := range c.Outbox {
		o.s.kickInbox(c.Outbox[i].To.Partition())
	}
	o.s.changed(o.key)
	return nil
}

// write makes one commit durable.
func (s *Scheduler) write(ctx context.Context, c *store.RunCommit) error {
	err := s.parts[c.Run.Partition()].Commit(ctx, []store.RunCommit{*c})
	if err == nil {
		s.commits.Add(1)
		if f := s.cfg.OnCommit; f != nil {
			f(&c.State)
		}
	}
	return err
}

// prepareCommit gives what the next commit holds. The owner is locked.
func (o *owner) prepareCommit() store.RunCommit {
	c := store.RunCommit{Run: o.key, Create: o.create, Replace: o.replace, Expect: store.Seq(o.durable),
		Append: o.journal.All()[o.durable:], State: o.view(), Logs: slices.Clip(o.logs), Ack: slices.Clip(o.acks),
		Outbox: slices.Clip(o.outbox)}
	if o.old != nil {
		c.Before = &store.IterationEnd{Iteration: o.old.Started().Iteration, Expect: store.Seq(o.oldMade),
			Append: o.old.All()[o.oldMade:]}
		o.effects(&c, o.old, c.Before.Append)
	}
	o.effects(&c, o.journal, c.Append)
	return c
}

// effects adds what entries do outside of their run: output, and commands to other runs.
func (o *owner) effects(c *store.RunCommit, j *journal.Journal, entries []store.Entry) {
	for i := range entries {
		e := &entries[i]
		if e.Kind == store.KindEmit && e.Refused == 0 {
			c.Output = append(c.Output, store.Chunk{Index: uint64(e.Code), UnixMs: e.UnixMs, Topic: e.Name, Data: e.Input})
		}
		c.Outbox = append(c.Outbox, o.commands(j, e)...)
	}
}

// wakeAfter gives the wake that a commit has made durable, and whether the wheel is to have it.
func (o *owner) wakeAfter(st *store.RunState) (wake int64, arm bool) {
	if o.armHere() {
		return store.NoWake, false
	}
	wake = st.WakeUnixMs
	return wake, wake != store.NoWake && st.Status != store.Running && (st.Status != store.Queued || o.retryMs > 0)
}

// armHere puts the wake of a run into the wheel whose key in the index is for the next host: an attempt of a step runs,
// or a handler is missing here. It answers false for other runs. The owner is locked.
func (o *owner) armHere() bool {
	if o.held() || o.waiting == "" && o.act == nil && len(o.attempts) == 0 {
		return false
	}
	wake, ok := o.journal.Wake()
	if pending := o.armedMs > o.s.nowMs() && o.armedMs <= wake; ok && !pending {
		o.armedMs = o.s.armNear(o.key, wake)
	}
	return true
}

// same tells whether a state says the same as the durable one, but for the time at which it was made.
func (o *owner) same(st *store.RunState) bool {
	a, b := *st, o.state
	a.UpdatedUnixMs = b.UpdatedUnixMs
	// Due already, whatever the instant.
	if a.Status == store.Running || a.Status == store.Queued && o.retryMs == 0 || o.waiting != "" {
		a.WakeUnixMs = b.WakeUnixMs
	}
	return string(store.AppendState(nil, &a)) == string(store.AppendState(nil, &b))
}
