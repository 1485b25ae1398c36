package run

import (
	"bytes"
	"slices"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Prepare returns what has to be committed of the run as it is, false if nothing has changed. From then on the run
// counts it as written: commits are made in the order in which they were prepared, and if one is not made, the Run is
// dropped. It must not be called while the run is lent.
func (r *Run) Prepare(now int64) (c store.RunCommit, ok bool) {
	if r.deleting {
		r.deleting = false
		return store.RunCommit{Run: r.key, State: r.state, Delete: true}, true
	}
	if !r.exists {
		return c, false
	}
	c = store.RunCommit{Run: r.key, Create: r.create, Replace: r.replace && r.create, Expect: store.Seq(r.prepared),
		Append: r.journal.All()[r.prepared:], State: r.view(now), Logs: r.logs, Ack: r.acks, Outbox: slices.Clip(r.outbox)}
	if !r.Dirty() && r.same(&c.State, now) {
		return c, false
	}
	if r.old != nil {
		c.Before = &store.IterationEnd{Iteration: r.old.journal.Started().Iteration, Expect: store.Seq(r.old.prepared),
			Append: r.old.journal.All()[r.old.prepared:]}
		r.outward(&c, r.old.journal, c.Before.Append)
	}
	r.outward(&c, r.journal, c.Append)
	r.create, r.replace, r.old, r.state, r.prepared = false, false, nil, c.State, r.journal.Len()
	r.logs, r.acks, r.outbox = nil, nil, nil
	return c, true
}

// outward adds what entries do outside of their run: output, and commands to other runs.
func (r *Run) outward(c *store.RunCommit, j *journal.Journal, entries []store.Entry) {
	for i := range entries {
		e := &entries[i]
		if e.Kind == store.KindEmit && e.Refused == 0 {
			c.Output = append(c.Output, store.Chunk{Index: uint64(e.Code), UnixMs: e.UnixMs, Topic: e.Name, Data: e.Input})
		}
		c.Outbox = append(c.Outbox, r.commands(j, e)...)
	}
}

// view returns the state that the next commit writes.
func (r *Run) view(now int64) store.RunState {
	st := r.state
	now = max(now, r.journal.LastUnixMs())
	st.UpdatedUnixMs = now
	st.Length = store.Seq(r.journal.Len())
	st.Iteration, st.Version, st.Module = r.ident.iteration, r.ident.version, r.ident.module
	st.Output, st.Attributes = r.journal.Output(), r.journal.Attributes()
	st.JournalBytes = r.journal.Bytes()
	st.LogLines, st.LogRecords, st.Faults = r.logLines, r.records, r.faults
	if at, ok := r.journal.StartedUnixMs(); ok {
		st.StartedUnixMs = at
	}
	st.Suspension = store.Suspension{}
	if s, ok := r.journal.Suspension(); ok {
		st.Suspension = s
	}
	st.Status, st.Reason, st.WakeUnixMs = r.standing(now)
	if st.Status.Terminal() {
		st.EndedUnixMs = r.journal.LastUnixMs()
		st.Suspension = store.Suspension{}
	}
	return st
}

// standing returns status, reason and wake. A run with which something goes on has a wake that is due already: if the
// host dies, the next one finds the run there and takes it up.
func (r *Run) standing(now int64) (store.Status, string, int64) {
	switch r.journal.Ended() {
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
	switch at := r.startsAt(); {
	case r.status != 0:
		return r.status, r.reason, store.NoWake
	case r.journal.Paused():
		return store.Paused, r.reason, store.NoWake
	case r.guest != guestNone && r.guest != guestAsked || len(r.attempts) > 0:
		return store.Running, "", now
	case r.retryMs > now:
		return store.Queued, r.reason, r.retryMs
	case r.pending && at > now:
		return store.Sleeping, "until its start", at
	case r.pending || r.journal.Deliverable():
		return store.Queued, "", now
	case r.waiting != "": // the next host looks again, since it may have the handler
		return store.Waiting, r.waiting, now
	}
	return r.asleep(now)
}

// asleep returns what a run waits for. A step that may begin and has not, because the host stops, is due already.
func (r *Run) asleep(now int64) (store.Status, string, int64) {
	wake, ok := r.journal.Wake()
	for h := range r.journal.Handles {
		if s := h.Step; s != nil && s.RetryMs <= now {
			at := min(max(s.RetryMs, s.FirstMs), now)
			if !ok || at < wake {
				wake, ok = at, true
			}
		}
	}
	if !ok {
		wake = store.NoWake
	}
	status, reason := store.Sleeping, ""
	for h := range r.journal.Handles {
		if h.Step != nil {
			status, reason = store.Waiting, "retry of step "+h.Name
			if h.Step.RetryMs <= now { // it could have begun, but nothing new starts here
				reason = "attempt of step " + h.Name
			}
		} else if h.Kind != store.KindSleep {
			status, reason = store.Waiting, h.Kind.String()+" "+h.Name
		}
	}
	return status, reason, wake
}

// same reports whether a state says the same as the one before, but for the time at which it was made.
func (r *Run) same(st *store.RunState, now int64) bool {
	a, b := *st, r.state
	a.UpdatedUnixMs = b.UpdatedUnixMs
	// It is due already, whatever the instant.
	overdue := a.WakeUnixMs == now && b.WakeUnixMs != store.NoWake && b.WakeUnixMs <= now
	if overdue || a.Status == store.Running || a.Status == store.Queued && r.retryMs <= now || r.waiting != "" {
		a.WakeUnixMs = b.WakeUnixMs
	}
	return bytes.Equal(store.AppendState(nil, &a), store.AppendState(nil, &b))
}
