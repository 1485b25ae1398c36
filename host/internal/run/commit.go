package run

import (
	"bytes"

	"github.com/wfhost/wfhost/store"
)

// Prepare returns what has to be committed of the run as it is, nil if nothing has changed. From then on the run
// counts it as written: commits are made in the order in which they were prepared, and if one is not made, the Run is
// dropped. It must not be called while the run is lent.
func (r *Run) Prepare(now int64) *store.RunCommit {
	if c := r.rec.CommitDelete(); c != nil || !r.rec.Exists {
		return c
	}
	at := max(now, r.rec.Journal.LastUnixMs())
	status, reason, wake := r.standing(at)
	if status == store.Running { // it is due already, by a clock that was set back, too; if it was, the index stays as it is
		wake = int64(min(uint64(now), uint64(r.rec.State.WakeUnixMs))) // NoWake is the largest
	}
	st := r.rec.View(at, status, reason, wake)
	st.Faults = r.faults.Count
	if !r.rec.Dirty() && r.same(&st, now) {
		return nil
	}
	return r.rec.Commit(st)
}

// standing returns status, reason and wake. A run with which something goes on has a wake that is due already: if the
// host dies, the next one finds the run there and takes it up.
func (r *Run) standing(now int64) (store.Status, string, int64) {
	if status, reason := r.rec.Settled(); status != 0 {
		return status, reason, store.NoWake
	}
	switch at := r.rec.StartsAt(); {
	case r.stands != guestNone && r.stands != guestAsked || len(r.going) > 0:
		return store.Running, "", now
	case r.faults.RetryMs > now:
		return store.Queued, r.rec.Reason, r.faults.RetryMs
	case r.pending && at > now:
		return store.Sleeping, "until its start", at
	case r.pending || r.rec.Journal.Deliverable():
		return store.Queued, "", now
	case r.rec.Waiting != "": // the next host looks again, since it may have the handler
		return store.Waiting, r.rec.Waiting, now
	}
	return r.rec.Asleep(now)
}

// same reports whether a state says the same as the one before, but for the time at which it was made.
func (r *Run) same(st *store.RunState, now int64) bool {
	a, b := *st, r.rec.State
	a.UpdatedUnixMs = b.UpdatedUnixMs
	// It is due already, whatever the instant.
	overdue := a.WakeUnixMs == now && b.WakeUnixMs != store.NoWake && b.WakeUnixMs <= now
	if overdue || a.Status == store.Running || a.Status == store.Queued && r.faults.RetryMs <= now || r.rec.Waiting != "" {
		a.WakeUnixMs = b.WakeUnixMs
	}
	return bytes.Equal(store.AppendState(nil, &a), store.AppendState(nil, &b))
}
