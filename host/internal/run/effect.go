package run

import "github.com/wfhost/wfhost/store"

// Effects is what a step asks its caller to do. Fields say what has to be durable before it: "at once" is nothing,
// "durable" is everything that the run has appended up to the end of this step.
type Effects struct {
	// Answer is what whoever caused the event is told: durable. If Err is set, it is told that, at once.
	Answer Answer
	Err    error
	// Activate is set when a guest is wanted, with its lease: at once. The caller steps GuestReady when the instance is
	// there, and may have it wait for a place.
	Activate *Lease
	// Orders are for guests that wait for one: at once. A guest whose instance is to execute the body that it waits for
	// is told by Start.
	Orders []Told
	// Start holds the attempts to be started: durable, so that a crash finds everything that led to them.
	Start []*Attempt
	// Tell holds attempts that the workflow has cancelled: they are told at once, and their outcome is waited for.
	Tell []*Attempt
	// Drop holds attempts in whose outcome nobody is interested any more: they are stopped at once.
	Drop []*Attempt
	// Missing holds the handlers that steps of the run wait for and that are not registered here: at once. The caller
	// steps Due when one of them is.
	Missing []string
	// Again says that the event has to be stepped again, with another Run of the same key: durable.
	Again bool
	// Stuck is why the run was left to a person, empty if it was not: durable, for the log.
	Stuck string
	// LongJournal is the number of entries where the journal has just become long, else 0: at once, for the log.
	LongJournal int
	// Fault is what the host failed at, nil if it did not: at once, for the log.
	Fault error
	// Unrecorded is why the outcome of a step could not be recorded: at once, for the log.
	Unrecorded error
}

// Answer is what whoever caused an event is told.
type Answer struct {
	State   *store.RunState // the run as of the commit that made the answer durable; the caller fills it in
	Changed bool            // the event changed something: a second cancel does not
	Created bool            // the run was created by this start
	Count   int             // sleeps that Wake ended

	Children []string // ids of the children of a run that was deleted, as of its newest iteration
}

// Told is an order with the guest that it is for.
type Told struct {
	Lease *Lease
	Order Order
}

// Order is what a guest that waits is told.
type Order uint8

const (
	OrderGo      Order = iota // go on, with the run to itself
	OrderPark                 // keep the instance and wait: another order will come, or a body to execute
	OrderResume               // go on as soon as there is a place; step GuestReady then
	OrderSuspend              // give the instance up
	OrderDump                 // nothing can ever come: report where every thread stands, or give up
	OrderFreeze               // give the instance up, to go on without a replay; Lease.WakesMs says when
)

var orderNames = [...]string{"go", "park", "resume", "suspend", "dump", "freeze"}

// String returns the order's name.
func (o Order) String() string { return orderNames[o] }
