package run

import (
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/step"
	"github.com/wfhost/wfhost/store"
)

// Errors of events, to be tested with errors.Is.
var (
	// ErrTerminal: the run has ended, and an end is final.
	ErrTerminal = errors.New("run has ended")
	// ErrAside: nothing happens to the run here, which is a copy, or was moved.
	ErrAside = journal.ErrAside
	// ErrLive: a live run is not deleted.
	ErrLive = fmt.Errorf("run has not ended: %w", ErrIllegal)
	// ErrLeft: the command is for a failed run, which needs it if it is retried. It stays in the inbox until then.
	ErrLeft = errors.New("run has failed, and takes the answer when it is retried")
	// ErrStartedBefore: the child was started by this very command.
	ErrStartedBefore = errors.New("child was started before")
)

// Event is something that happens to a run.
type Event interface {
	// happen lets it happen, in a turn of a run that is there. Start and StartChild happen where there is none, too.
	happen(t *turn) error
}

// Events from outside. Each is answered.
type (
	// Start starts the run, or says what a start means for the run that is there.
	Start struct{ New NewRun }
	// Signal gives the run a signal, which it keeps until its workflow takes it.
	Signal struct {
		Name string
		Data []byte
		Key  string                       // idempotency key; empty = none
		If   func(*journal.Journal) error // unless nil, says whether the run may take it as a new one
	}
	// Cancel asks the run to end: a workflow that takes a cancel is told, once; another run ends as cancelled.
	Cancel struct{}
	// Terminate ends the run.
	Terminate struct{}
	// Pause stops the run where it waits next. Attempts that are going on finish.
	Pause struct{}
	// Unpause lets a paused run go on. What came due meanwhile comes first.
	Unpause struct{}
	// Wake ends sleeps before their time: those of the given name, or all if it is empty.
	Wake struct{ Name string }
	// Retry lets a failed or stuck run go on, under another version if one is given.
	Retry struct{ Version *store.Version }
	// Reread lets a run go on that an earlier release has left to a person because it could not read what a newer one had written.
	// Nothing happens to any other run.
	Reread struct{}
	// Migrate lets a live run go on under another version, against which it was replayed as it is.
	Migrate struct {
		Version store.Version
		Checked Checked
	}
	// Amend appends the entry that a function makes of the run, which is set aside by it or goes on; none, if its kind is 0.
	Amend struct {
		Make   func(*Record) (store.Entry, error)
		Beside bool // the run goes on as if nothing had happened
	}
	// Unstorable says that the store can never take what the run did next. It is left to a person, as it was before.
	Unstorable struct{ Cause error }
	// Delete deletes an ended run or a copy, or with If, what is left of a deleted one, if If says so of the state.
	Delete struct {
		If    func(*store.RunState) bool
		Alone bool // its parent does not ask how it has ended
	}
	// StartChild starts the run as a child. A run that the very command has started before is ErrStartedBefore.
	StartChild struct {
		New     NewRun
		Command store.Command
		Message Message
	}
	// Look calls a function with the run, which it does not change. Its error is the event's.
	Look struct{ Func func(*Run) error }
	// Command is what another run wants of this one, taken out of the inbox.
	Command struct {
		Command store.Command
		Message Message
	}
)

// Events from inside.
type (
	// Due says that time has passed, or that something else has changed for which the run may wait. It may come for nothing.
	Due struct{}
	// GuestReady says that the guest of a lease has its instance and a place.
	GuestReady struct{ Lease *Lease }
	// GuestYields says that the guest gives the run back for a moment, to be committed. The answer is an order.
	GuestYields struct{ Lease *Lease }
	// GuestWaits says that the guest waits for something that the journal does not hold.
	GuestWaits struct {
		Lease      *Lease
		Suspension store.Suspension
		// FromMs is what a clock of the poll counts from, by the host's clock. WasMs is what that showed before it was set back, 0 if
		// it was not.
		FromMs, WasMs int64
		CanFork       bool // the instance can execute the body that the guest waits for
		Leaves        bool // the guest gives its instance up, whatever it waits for
	}
	// GuestEnds says how an activation ended that was not told to end.
	GuestEnds struct {
		Lease *Lease
		End   End
	}
	// Evict says that the memory of a parked guest is wanted, or that it was kept long enough. Without a Lease, it is the run's.
	Evict struct{ Lease *Lease }
	// Refused says that there will be no instance for an activation: the host stops, or, with Later, there are too many
	// that wait for one. Then the run does not ask again before it is stepped again.
	Refused struct {
		Lease *Lease
		Later bool
	}
	// AttemptEnds says how an attempt ended.
	AttemptEnds struct {
		Attempt *Attempt
		Outcome step.Outcome
	}
	// BodyEnds says how an attempt ended that was executed in the instance of the guest, which waits for an order.
	BodyEnds struct {
		Lease   *Lease
		Attempt *Attempt
		Outcome step.Outcome
	}
	// NotForked says that the instance of a guest cannot execute a body after all, and is given up.
	NotForked struct {
		Lease   *Lease
		Attempt *Attempt
	}
	// Launch starts those of the attempts that still go on: what led to them became durable while the run was lent.
	Launch struct{ Attempts []*Attempt }
	// AttemptLogs is a line that a body or step function has logged.
	AttemptLogs struct {
		Attempt *Attempt
		Line    store.LogLine
	}
)

// End is how an activation ended. Exactly one of its fields says it.
type End struct {
	// Entry is the end of the run that the guest has brought about: completed, cancelled or failed.
	Entry *store.Entry
	// Mismatch says how a replay differed from the journal: the run is stuck, and its journal is untouched.
	Mismatch string
	// Continue is set when the workflow continues as new.
	Continue *Continue
	// Fault is what the host failed at: the activation is repeated after a while, and nothing is journaled of it.
	Fault error
	// Evicted says that the instance was lost otherwise: the activation is repeated if there is something to do.
	Evicted bool
	Needs   int64 // bytes of the next instance, 0 if that is not known
	Grows   bool  // there was no room for its journal to become longer
}
