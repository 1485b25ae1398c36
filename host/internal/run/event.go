package run

import (
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Errors of events, to be tested with errors.Is.
var (
	// ErrTerminal: the run has ended, and an end is final.
	ErrTerminal = errors.New("run has ended")
	// ErrAside: the run is a copy or was moved, so it does not continue here.
	ErrAside = journal.ErrAside
	// ErrLive: a live run cannot be deleted.
	ErrLive = fmt.Errorf("run has not ended: %w", ErrIllegal)
	// ErrDeferred: the run has failed, and a retry would need this answer. The command stays in the inbox until then.
	ErrDeferred = errors.New("run has failed, and takes the answer when it is retried")
	// ErrStartedBefore: this same command started the child before.
	ErrStartedBefore = errors.New("child was started before")
)

// Event is an event of a run.
type Event interface {
	// apply applies the event in a transition of an existing run. Start and StartChild also apply when there is no run.
	apply(t *transition) error
}

// Events from outside. The caller answers each of them.
type (
	// Start starts the run, or applies the start's conflict policy to the run that has the id.
	Start struct{ New NewRun }
	// Signal sends the run a signal, which stays in the journal until the workflow receives it.
	Signal struct {
		Name           string
		Data           []byte
		IdempotencyKey string                       // empty = none
		If             func(*journal.Journal) error // if set, returns an error to refuse a new signal
	}
	// Cancel asks the run to end. A workflow that handles cancels is told once; any other run ends as cancelled.
	Cancel struct{}
	// Terminate ends the run.
	Terminate struct{}
	// Pause stops the run at its next wait. Attempts in flight finish.
	Pause struct{}
	// Unpause resumes a paused run. Timers that came due meanwhile come first.
	Unpause struct{}
	// Wake ends sleeps early: the sleeps of the given name, or all of them if the name is empty.
	Wake struct{ Name string }
	// Retry resumes a failed or stuck run, under another version if one is given.
	Retry struct{ Version *store.Version }
	// Reread resumes a run that an earlier release marked stuck because it could not read what a newer release had
	// written. It does not affect other runs.
	Reread struct{}
	// Migrate moves a live run to another version. The run was replayed against that version as it is now.
	Migrate struct {
		Version store.Version
		Checked Checked
	}
	// Amend appends the entry that Make returns, which sets the run aside or resumes it. If the entry's kind is 0,
	// nothing is appended.
	Amend struct {
		Make   func(*Record) (store.Entry, error)
		Beside bool // the run continues undisturbed
	}
	// Unstorable says that the store can never accept the last changes of the run. The run becomes stuck in the state
	// before them.
	Unstorable struct{ Cause error }
	// Delete deletes an ended run or a copy. With If, it also deletes a tombstone, and only if If returns true for
	// the state.
	Delete struct {
		If    func(*store.RunState) bool
		Alone bool // its parent does not ask how it ended
	}
	// StartChild starts the run as a child. It returns ErrStartedBefore if the same command has started the run
	// before.
	StartChild struct {
		New     NewRun
		Command store.Command
		Message Message
	}
	// Look calls Func with the run. Func must not change the run. Its error is the event's.
	Look struct{ Func func(*Run) error }
	// Command is a command from another run, read from the inbox.
	Command struct {
		Command store.Command
		Message Message
	}
)

// Events from inside.
type (
	// Due says that time has passed, or that a condition changed that the run may wait for. Spurious Due events are
	// harmless.
	Due struct{}
	// GuestReady says that the guest of a lease has an instance and a place.
	GuestReady struct{ Lease *Lease }
	// GuestYields says that the guest returns the run for a moment, to be committed. The answer is an order.
	GuestYields struct{ Lease *Lease }
	// GuestWaits says that the guest waits for a delivery that the journal does not have.
	GuestWaits struct {
		Lease      *Lease
		Suspension store.Suspension
		// FromMs is the instant, on the host's clock, that a clock of the poll counts from. WasMs is what the host's
		// clock showed before it was set back, or 0 if it was not.
		FromMs, WasMs int64
		CanFork       bool // the instance can execute the body that the guest waits for
		Leaves        bool // the guest gives up its instance, whatever it waits for
	}
	// GuestEnds says how an activation ended, other than by an order.
	GuestEnds struct {
		Lease *Lease
		End   End
	}
	// Evict asks for the memory of a parked guest, which is needed or was kept long enough. Without a Lease, it means
	// the run's guest.
	Evict struct{ Lease *Lease }
	// Refused says that an activation gets no instance: the host stops or, with Later, too many guests wait for one.
	// With Later, the run does not ask again until its next step.
	Refused struct {
		Lease *Lease
		Later bool
	}
	// AttemptEnds says how an attempt ended.
	AttemptEnds struct {
		Attempt *Attempt
		Outcome StepOutcome
	}
	// BodyEnds says how an attempt ended that ran in the guest's instance. The guest now waits for an order.
	BodyEnds struct {
		Lease   *Lease
		Attempt *Attempt
		Outcome StepOutcome
	}
	// NotForked says that the guest's instance cannot execute a body after all, and was freed.
	NotForked struct {
		Lease   *Lease
		Attempt *Attempt
	}
	// Launch starts the given attempts that are still in flight: the entries before them became durable while the run
	// was lent.
	Launch struct{ Attempts []*Attempt }
	// AttemptLogs is a line that a body or a step function logged.
	AttemptLogs struct {
		Attempt *Attempt
		Line    store.LogLine
	}
)

// End is how an activation ended. Exactly one of Entry, Mismatch, Continue, Fault and Evicted is set.
type End struct {
	// Entry is the end of the run by its guest: completed, cancelled or failed.
	Entry *store.Entry
	// Mismatch says how a replay differed from the journal. The run becomes stuck, and its journal stays as it is.
	Mismatch string
	// Continue is set when the workflow continues as new.
	Continue *Continue
	// Fault is a fault of the host. The activation is repeated after a delay, and the journal gets no entry.
	Fault error
	// Evicted says that the instance was lost for another reason. The activation is repeated if the guest has work.
	Evicted bool
	Needs   int64 // bytes of the next instance, or 0 if that is not known
	Grows   bool  // the journal had no room in memory to grow
}
