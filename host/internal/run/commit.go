package run

import (
	"github.com/wfhost/wfhost/store"
)

// Prepare returns what has to be committed of the run as it is, nil if nothing has changed. From then on the run
// counts it as written: commits are made in the order in which they were prepared, and if one is not made, the Run is
// dropped. It must not be called while the run is lent.
func (r *Run) Prepare(now int64) *store.RunCommit {
	if c := r.rec.CommitDelete(); c != nil || !r.rec.Exists {
		return c
	}
	at := r.own.Of(&r.rec, now)
	status, reason, wake := r.standing(at)
	if status == store.Running || wake == at && at > now { // it is due already, by a clock of its own, too
		wake = int64(min(uint64(now), uint64(r.rec.State.WakeUnixMs))) // NoWake is the largest
	}
	st := r.rec.View(max(at, r.rec.Journal.LastUnixMs()), status, reason, wake)
	st.Faults = r.faults.Count
	if !r.rec.Dirty() && r.rec.Same(&st, now, r.faults.RetryMs) {
		return nil
	}
	return r.rec.Commit(st)
}

// standing returns status, reason and wake. A run with which something goes on has a wake that is due already: if the
// host dies, the next one finds the run there and takes it up.
func (r *Run) standing(now int64) (store.Status, string, int64) {
	if status, reason := r.rec.Settled(); status != 0 {
		if at, ok := r.rec.Journal.Deadline(); ok {
			return status, reason, at
		}
		return status, reason, store.NoWake
	}
	switch at := r.rec.StartsAt(); {
	case r.stands != guestNone && r.stands != guestAsked || len(r.going) > 0:
		return store.Running, "", now
	case r.faults.RetryMs > now:
		return store.Queued, r.rec.Reason, r.faults.RetryMs
	case r.pending && at > now:
		return store.Sleeping, "until its start", at
	case r.rec.WaitsForSlot():
		return r.rec.Queued()
	case r.pending || r.rec.Journal.Deliverable():
		return store.Queued, "", now
	case r.rec.Waiting != "": // the next host looks again, since it may have the handler
		return store.Waiting, r.rec.Waiting, now
	}
	return r.rec.Asleep(now)
}
