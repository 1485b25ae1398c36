package run

import (
	"github.com/wfhost/wfhost/store"
)

// Prepare returns the commit that makes the run's changes durable, or nil if nothing changed. From then on the run
// counts these changes as written. The caller makes the commits in the order of the calls of Prepare, and drops the
// Run if one is not made. Prepare must not be called while the run is lent.
func (r *Run) Prepare(now int64) *store.RunCommit {
	if c := r.rec.CommitDelete(); c != nil || !r.rec.Exists {
		return c
	}
	at := r.own.Of(&r.rec, now)
	status, reason, wake := r.standing(at)
	asks := status == store.Waiting && len(r.verdicts) > 0         // it keeps its turn, also for the next host
	if asks || status == store.Running || wake == at && at > now { // due already, possibly by the run's own clock
		wake = int64(min(uint64(now), uint64(r.rec.State.WakeUnixMs))) // NoWake is the largest
	}
	st := r.rec.View(max(at, r.rec.Journal.LastUnixMs()), status, reason, wake)
	st.Faults = r.faults.Count
	st.MayHaveBegun = 0
	if len(r.going) == 0 && !status.Terminal() {
		st.MayHaveBegun = r.rec.mayHaveBegun()
	}
	if !r.rec.Dirty() && r.rec.Same(&st, now, r.faults.RetryMs) {
		return nil
	}
	return r.rec.Commit(st)
}

// standing returns status, reason and wake. The wake of a run with a guest or an attempt in flight is already due: if
// the host dies, the next host finds the run by it.
func (r *Run) standing(now int64) (store.Status, string, int64) {
	if status, reason := r.rec.Settled(); status != 0 {
		if at, ok := r.rec.Journal.Deadline(); ok {
			return status, reason, at
		}
		return status, reason, store.NoWake
	}
	switch at := r.rec.StartsAt(); {
	case r.stands != guestNone && r.stands != guestAsked || r.busy():
		return store.Running, "", now
	case r.faults.RetryMs > now:
		return store.Queued, r.rec.Reason, r.faults.RetryMs
	case r.pending && at > now:
		return store.Sleeping, "until its start", at
	case r.rec.WaitsForSlot():
		return r.rec.Queued()
	case r.pending || r.rec.Journal.Deliverable():
		return store.Queued, "", now
	case len(r.verdicts) > 0: // the next host asks again: it may have the handler
		return store.Waiting, r.waitsForPlace(), now
	}
	return r.rec.Asleep(now)
}
