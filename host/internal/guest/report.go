package guest

import (
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/store"
)

// ReplayReport is the result of replaying a run, for callers that compare engines.
type ReplayReport struct {
	Trace  bool // set by the caller: record the memory at each wait
	Waits  []ReplayWait
	At     store.Seq // the newest entry that the workflow reached
	Memory [32]byte  // at the end; zero if no instance could be made
	Result []byte    // what the workflow returned and printed
	Err    error     // how it ended, whatever the journal says; nil if it returned
}

// ReplayWait is the state at which a workflow waited: the newest entry that it had reached, and a digest of its memory.
type ReplayWait struct {
	At     store.Seq
	Memory [32]byte
}

// Wait adds a wait.
func (r *ReplayReport) Wait(at store.Seq, memory [32]byte) {
	r.Waits = append(r.Waits, ReplayWait{at, memory})
}

// ActivationReport describes an activation that has ended.
type ActivationReport struct {
	Run      store.RunKey
	Workflow string
	Version  uint32
	// Incarnation and TraceParent identify the run's trace: see package traceid.
	Incarnation store.Incarnation
	TraceParent string
	Replayed    int           // entries of the journal where the workflow last waited
	Replay      time.Duration // from the beginning until the workflow was there; Total if it never was
	Total       time.Duration // from its first place to its end
	Fuel        int64         // used, replay included: about nanoseconds of computing, and bytes of calls
	Thawed      bool          // it continued from a frozen instance, without a replay
	End         string        // an End constant, or the kind of the entry that ended the run
}

// The ends of activations, beside the kinds of the entries that end a run.
const (
	EndSuspended = "suspended"
	EndHalted    = "halted"
	EndCrowded   = "crowded" // see admission.ErrCrowded and ErrSlow
	EndContinued = "continued"
	EndMismatch  = "mismatch"
	EndFault     = "fault"
)

// span holds when an activation began, and when it reached the point where its workflow last waited.
type span struct {
	Began  time.Time
	Passed time.Time // zero until it has reached that point
	Rested int       // entries of the journal there
	Thawed bool
}

// Report describes the activation of a run that ends now and has used the given fuel. A thawed activation replayed no entries.
func (s *span) Report(st *store.RunState, end string, fuel int64) ActivationReport {
	now := clock.System().Now()
	rep := ActivationReport{Run: st.Run, Workflow: st.Workflow, Version: st.Version, Incarnation: st.Incarnation,
		TraceParent: st.TraceParent, Replayed: s.Rested,
		Total: now.Sub(s.Began), Thawed: s.Thawed, End: end, Fuel: max(fuel, 0)}
	if s.Thawed {
		rep.Replayed = 0
	}
	rep.Replay = rep.Total
	if !s.Passed.IsZero() {
		rep.Replay = s.Passed.Sub(s.Began)
	}
	return rep
}
