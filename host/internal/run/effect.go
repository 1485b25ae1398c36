package run

import "github.com/wfhost/wfhost/store"

// Effects is what a step asks its caller to do. Each field's comment says what must be durable before it: "at once"
// means nothing, "durable" means everything that the run has appended up to the end of this step.
type Effects struct {
	// Answer is the answer to the event: durable. If Err is set, it is the answer instead; a refusal may depend on earlier steps,
	// so these are durable first.
	Answer Answer
	Err    error
	// Activate is the lease of a guest to activate, or nil: at once. The caller applies GuestReady when the instance
	// exists, and may queue the guest until there is a place.
	Activate *Lease
	// Orders are for guests that wait for one: at once. A guest gets no order to execute the body that it waits for:
	// it learns of that from Start.
	Orders []Told
	// Start holds the attempts to start: durable, so that everything that led to them survives a crash.
	Start []*Attempt
	// Tell holds attempts that the workflow has cancelled: the caller tells them at once. The run still waits for
	// their outcome.
	Tell []*Attempt
	// Drop holds attempts whose outcome is no longer needed: the caller stops them at once.
	Drop []*Attempt
	// Withdraw holds the steps whose attempts no longer wait for a place, WithdrawAll is for all steps of the run, and Return
	// holds the places that are not needed: at once. An ask may have been answered before.
	Withdraw    []int64
	WithdrawAll bool
	Return      []any
	// Again says that the caller must step the event again, with another Run of the same key: durable.
	Again bool
	// Stuck is why the run became stuck, or empty if it did not: durable, for the log.
	Stuck string
	// LongJournal is the number of entries if the journal has just reached abi.SuggestContinueEntries, else 0: at
	// once, for the log.
	LongJournal int
	// Fault is the fault of the host that ended the activation, or nil: at once, for the log.
	Fault error
	// Unrecorded is why the outcome of a step could not be recorded: at once, for the log.
	Unrecorded error
}

// Answer is the answer to the sender of an event.
type Answer struct {
	State   *store.RunState // the run as of the commit that made the answer durable; the caller fills it in
	Changed bool            // the event had an effect: a second cancel has none
	Created bool            // the run was created by this start
	Count   int             // sleeps that Wake ended

	Children []string // ids of the children of a run that was deleted, as of its newest iteration
}

// Told is an order and the guest that gets it.
type Told struct {
	Lease *Lease
	Order Order
}

// Order tells a waiting guest what to do next.
type Order uint8

const (
	OrderGo      Order = iota // continue: the run is lent to the guest
	OrderPark                 // keep the instance and wait for another order, or for a body to execute
	OrderResume               // continue as soon as there is a place; step GuestReady then
	OrderSuspend              // free the instance
	OrderDump                 // no delivery can ever come: report where every thread waits, or give up
	OrderFreeze               // free the instance and save what resumes it without a replay; Lease.WakesMs says when it resumes
)

var orderNames = [...]string{"go", "park", "resume", "suspend", "dump", "freeze"}

// String returns the order's name.
func (o Order) String() string { return orderNames[o] }
