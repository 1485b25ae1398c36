// Package report says how activations went.
package report

import (
	"time"

	"github.com/wfhost/wfhost/host/internal/budget"
	"github.com/wfhost/wfhost/store"
)

// Replay is what the replay of a run has come to, for those who compare engines.
type Replay struct {
	Trace  bool // what the caller wants: the memory at each wait
	Waits  []Wait
	At     store.Seq // the newest entry that the workflow has come to
	Memory [32]byte  // at the end; zero if no instance could be made
	Result []byte    // what the workflow handed over and printed
	Err    error     // how it ended, whatever the journal says of that; nil if it returned
}

// Wait is where a workflow waited: the newest entry that it had come to, and what its memory was.
type Wait struct {
	At     store.Seq
	Memory [32]byte
}

// Wait notes a wait.
func (r *Replay) Wait(at store.Seq, memory [32]byte) { r.Waits = append(r.Waits, Wait{at, memory}) }

// Activation is what there is to say of an activation that has ended.
type Activation struct {
	Run      store.RunKey
	Workflow string
	Version  uint32
	// Incarnation and TraceParent say to which trace the run belongs: see package traceid.
	Incarnation store.Incarnation
	TraceParent string
	Replayed    int           // entries of the journal where the workflow last waited
	Replay      time.Duration // from the beginning until the workflow was there; Total if it never was
	Total       time.Duration // from its first place to its end
	Fuel        int64         // that it used, replay included: some nanoseconds, and bytes of calls
	Thawed      bool          // it went on from where it was frozen
	End         string        // see the constants
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

// Span is when an activation began, and when it had come to where its workflow last waited.
type Span struct {
	Began  time.Time
	Passed time.Time // zero until then
	Rested int       // entries of the journal there
	Thawed bool
}

// Report says how the activation of a run went, which ends now and has used so much fuel.
func (s *Span) Report(st *store.RunState, end string, fuel int64) Activation {
	now := budget.Clock.Now()
	rep := Activation{Run: st.Run, Workflow: st.Workflow, Version: st.Version, Incarnation: st.Incarnation,
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
