package host

import (
	"slices"
	"time"

	"github.com/wfhost/wfhost/host/internal/guest"
	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/runtime"
	"github.com/wfhost/wfhost/store"
)

// Events are functions that a Host calls when the named event happens, for metrics, traces and tests. Nil functions
// are not called.
//
// Goroutines of the host call them, several at a time. They must not block: the comment of each says what waits for
// it. They may call Host.Stats, and should pass everything else to a goroutine of their own. The arguments belong to
// the function and do not change later.
type Events struct {
	// RunStarted is called when the start of a run is durable, before the start returns. The runs of some partitions
	// wait for it.
	RunStarted func(Run)
	// RunEnded is called when the end of a run is durable: Run.Status is completed, failed, cancelled or terminated, and
	// lived is the time from its creation to its end. A failed run that is retried ends again. The runs of some
	// partitions wait for it.
	RunEnded func(run Run, lived time.Duration)
	// RunDeleted is called when it is durable that a run was deleted, by Delete or by a retention, with the run as
	// it had ended. The runs of some partitions wait for it.
	RunDeleted func(Run)
	// RunStuck is called when it is durable that a run needs a person: Run.Reason says why. The runs of some partitions
	// wait for it.
	RunStuck func(Run)
	// RunCommitted is called after each commit with each run in it, as it is durable now. It is for measurements. The
	// runs of some partitions wait for it.
	RunCommitted func(Run)
	// Wake is called when a run is woken because a deadline of it is due. A run that must be read from the store is
	// woken before that. The runs of some partitions wait for it.
	Wake func(WakeInfo)
	// Activation is called when an activation has ended, for whatever reason. Only that activation waits for it, and
	// it keeps its place among the computing guests meanwhile.
	Activation func(ActivationInfo)
	// AttemptEnded is called when an attempt of a step has ended, before its outcome is durable. Attempts that are
	// abandoned because the host stops or the run has ended are not reported. The runs of some partitions wait for
	// it.
	AttemptEnded func(AttemptInfo)
	// Commit is called after each group commit. The next commit of some partitions waits for it.
	Commit func(CommitInfo)
	// Request is called after each attempt of a request that a program has put into the database in a transaction of its own, once
	// its result is durable. The next requests wait for it.
	Request func(RequestInfo)
	// UploadRefused is called when a module is refused, with the name that was passed to Upload. The upload waits for
	// it.
	UploadRefused func(workflow string, err error)
	// DiskChanged is called when the disk has become nearly full, so that new work is refused, and when there is room
	// again. The request that noticed it waits for it, and so do other requests.
	DiskChanged func(DiskState)
	// StoreFailed is called once, when a write or fsync has failed. The host accepts no more calls. A commit, or Run,
	// waits for it.
	StoreFailed func(err error)
	// StoreRaised is called while Open raises a store of an earlier format: before the indexes of each partition are
	// built, and after the last: done of total are built. Open waits for it.
	StoreRaised func(done, total int)
	// PartitionAcquired is called when the host owns a partition: 64 times by Open, unless Config.Partitions says
	// otherwise, and by AcquirePartitions. The runs of some partitions wait for it.
	PartitionAcquired func(partition int)
	// PartitionLost is called when the host no longer owns a partition. err is ErrFenced if another host has taken it,
	// nil if it was released, or the error of a commit with unknown outcome; in that case the host acquires the
	// partition again. Close does not call it. The runs of some partitions wait for the call to return.
	PartitionLost func(partition int, err error)
	// HostFault is called when an activation failed because of the host. The activation is retried after a pause; the
	// third failure in a row leaves the run stuck. The runs of some partitions wait for the call to return.
	HostFault func(FaultInfo)
	// GuestWaits is called whenever a workflow waits, also in replays and in copies for bodies. It is for tests of
	// determinism: the hash of the memory depends only on the run, the iteration and the number of deliveries. The
	// guest waits for it.
	GuestWaits func(WaitInfo)
}

// WaitInfo is the argument of Events.GuestWaits.
type WaitInfo struct {
	Namespace  string // empty in the default namespace
	RunID      string
	Iteration  uint32          // of the run; each iteration begins with a new memory
	Deliveries uint64          // the number of deliveries that the workflow has taken
	Memory     func() [32]byte // hashes the guest's memory; may be called until GuestWaits returns
}

// WakeInfo is the argument of Events.Wake.
type WakeInfo struct {
	Namespace string // empty in the default namespace
	RunID     string
	Late      time.Duration // from the deadline until the run was woken, in whole milliseconds
}

// ActivationInfo is the argument of Events.Activation.
type ActivationInfo struct {
	Namespace string // empty in the default namespace
	RunID     string
	Workflow  string
	Version   uint32
	// Replayed is how many journal entries were replayed up to the place where the workflow last waited. 0 if there
	// was no replay.
	Replayed int
	// Thawed reports that the workflow continued from a snapshot (Config.WarmBytes), without a replay.
	Thawed bool
	// Replay is the time from the creation of the instance to the end of the replay; all of Total if the replay did
	// not finish.
	Replay time.Duration
	// Total is the time from the activation's first place to its end. It includes waits with an instance: for
	// commits, steps, and a place to continue.
	Total time.Duration
	// Fuel is what the workflow computed, including its replay, without bodies: units of about a nanosecond, and the
	// bytes of its calls. See Config.MaxFuel.
	Fuel int64
	// End is how it ended: "suspended", "completed", "failed", "cancelled", "continued", "mismatch", "fault",
	// "crowded" if its guest had grown and guests held more than Config.GuestBytes, or "halted" if the run was ended,
	// or lost, meanwhile.
	End string
	// Ended is the instant of the end, by the host's clock.
	Ended time.Time

	trace Trace
}

// AttemptInfo is the argument of Events.AttemptEnded.
type AttemptInfo struct {
	Step     Step
	Handler  string // its name, empty for bodies and step functions
	Duration time.Duration
	Ended    time.Time // by the host's clock
	Err      error     // nil if it has succeeded
}

// CommitInfo is the argument of Events.Commit.
type CommitInfo struct {
	Runs     int // the number of changed runs
	Bytes    int // approximate size of the added journal entries, before compression
	Duration time.Duration
	Err      error // nil if it is durable
}

// FaultInfo is the argument of Events.HostFault.
type FaultInfo struct {
	Namespace string // empty in the default namespace
	RunID     string
	Workflow  string
	Err       error
}

// runtimeEvents returns the callbacks for the runtime.
func (h *Host) runtimeEvents() (r runtime.Events) {
	e := &h.cfg.Events
	r.Committed = func(c *store.RunCommit) { h.suspects.Committed(c); h.continued(c); h.tell(c) }
	if e.RunStarted != nil || e.RunEnded != nil || e.RunDeleted != nil || e.RunCommitted != nil {
		r.Committed = func(c *store.RunCommit) { h.suspects.Committed(c); h.continued(c); h.tell(c); h.committed(c) }
	}
	r.Stuck = h.stuck
	if f := e.Wake; f != nil {
		r.Wake = func(run store.RunKey, lateMs int64) {
			f(WakeInfo{h.nameOf(run.Namespace), run.ID, time.Duration(lateMs) * time.Millisecond})
		}
	}
	if f := e.Activation; f != nil {
		r.Activation = func(a guest.ActivationReport) {
			f(ActivationInfo{Namespace: h.nameOf(a.Run.Namespace), RunID: a.Run.ID, Workflow: a.Workflow, Version: a.Version,
				Replayed: a.Replayed, Replay: a.Replay, Total: a.Total, Thawed: a.Thawed, Fuel: a.Fuel, End: a.End,
				Ended: h.cfg.Clock.Now(), trace: traceOf(a.Incarnation, a.TraceParent)})
		}
	}
	if f := e.AttemptEnded; f != nil {
		r.Attempt = func(a handler.Attempt, took time.Duration, err error) {
			f(AttemptInfo{Step: h.stepOf(&a), Handler: a.Handler, Duration: took, Ended: h.cfg.Clock.Now(), Err: err})
		}
	}
	if f := e.Commit; f != nil {
		r.Batch = func(runs, bytes int, took time.Duration, err error) { f(CommitInfo{runs, bytes, took, translate(err)}) }
	}
	r.StoreFailed = func(err error) {
		err = translate(err)
		h.failure.Store(&err)
		if f := e.StoreFailed; f != nil {
			f(err)
		}
	}
	if f := e.PartitionAcquired; f != nil {
		r.Acquired = func(p store.PartitionID) { f(int(p)) }
	}
	if f := e.PartitionLost; f != nil {
		r.Lost = func(p store.PartitionID, cause error) { f(int(p), translate(cause)) }
	}
	if f := e.HostFault; f != nil {
		r.Fault = func(run store.RunKey, workflow string, cause error) {
			f(FaultInfo{h.nameOf(run.Namespace), run.ID, workflow, cause})
		}
	}
	if f := e.GuestWaits; f != nil {
		r.Waits = func(run store.RunKey, iteration uint32, n uint64, hash func() [32]byte) {
			f(WaitInfo{h.nameOf(run.Namespace), run.ID, iteration, n, hash})
		}
	}
	return r
}

// committed reports the events of a run's commit.
func (h *Host) committed(c *store.RunCommit) {
	e := &h.cfg.Events
	started := e.RunStarted != nil && c.Create
	ended := e.RunEnded != nil && !c.Delete && c.State.Status.Terminal() && slices.ContainsFunc(c.Append, ends)
	// The remains of a deleted run are deleted later, by another commit.
	deleted := e.RunDeleted != nil && c.Delete && !c.Forget
	if !started && !ended && !deleted && e.RunCommitted == nil {
		return // most commits; the code below allocates
	}
	r := h.runOf(c.State)
	if started {
		e.RunStarted(r)
	}
	if ended {
		e.RunEnded(r, r.Ended.Sub(r.Created))
	}
	if deleted {
		e.RunDeleted(r)
	}
	if e.RunCommitted != nil {
		e.RunCommitted(r)
	}
}

// stuck reports a run that needs a person.
func (h *Host) stuck(st *store.RunState) {
	if h.notices != nil {
		h.notices.warn(h.cfg.Clock.Now(), notice{"run is stuck", append(h.about(st), "reason", st.Reason), nil})
	}
	if f := h.cfg.Events.RunStuck; f != nil {
		f(h.runOf(*st))
	}
}

func ends(e store.Entry) bool { return e.Kind.End() }
