package store

import "fmt"

// Kind says what an entry of a journal records.
//
// Kinds below 32 are records: they steer the host and the guest never sees them. 32 to 63 are calls: the guest made
// them, and a replay compares them. 64 to 95 are deliveries: a call resolved, and the guest takes them in journal
// order. 96 to 127 are ends. Numbers are never reused.
type Kind uint8

// Records.
const (
	KindInvalid        Kind = 0
	KindStarted        Kind = 1 // entry 0: Name workflow, Data input, Options JSON of Started
	KindActivated      Kind = 2 // the first activation began: the entry's time is started_at
	KindAttemptStarted Kind = 3 // Handle, Attempt: recorded before an attempt that must survive a crash
	KindAttemptFailed  Kind = 4 // Handle, Attempt, Data error JSON, StartUnixMs, DueUnixMs of the next attempt
	KindRetried        Kind = 5 // Ref: entries from there to here are void
	KindMigrated       Kind = 6 // Target: the new module's digest, Options JSON {"from":1,"to":2}: versions
	KindSignalAccepted Kind = 7 // Name, Data, Target idempotency key: kept until a wait consumes it
	KindCancelAsked    Kind = 8 // reserved
	KindPaused         Kind = 9
	KindUnpaused       Kind = 10
	KindMoved          Kind = 11 // Target the id of the move: the run was set aside here, and continues in another installation
	KindProgress       Kind = 13 // Handle, Attempt, Data progress recorded by the handler, for the next attempt
	KindAdopted        Kind = 12 // Target the id of the move, or empty: the run continues here
	KindNow            Kind = 14 // Consumed, Code: sets the guest's clock to the time of the entry; see package replay
	KindClockSet       Kind = 15 // the host's clock was set: what counted from a later instant counts from now; see package journal
)

// Calls.
const (
	KindSleep        Kind = 32 // Handle, Name, DueUnixMs; Code 1 if the guest gave an instant instead of a duration
	KindStep         Kind = 33 // Handle, Name, Target handler, Input, Options
	KindBody         Kind = 34 // Handle, Name, Options: a step whose body is guest code
	KindSignalWait   Kind = 35 // Handle, Name, DueUnixMs
	KindChild        Kind = 36 // Handle, Name, Target workflow, Input, Options, Data the child's run id
	KindHook         Kind = 37 // Handle, Name, Target the chosen token, Options, Data the token
	KindSignalSend   Kind = 38 // Handle, Name, Target run, Options the signal's name, Input
	KindWithdraw     Kind = 39 // Handle that was cancelled, Code the result of cancel
	KindEmit         Kind = 40 // Name topic, Input, Code index within the run's output
	KindAttribute    Kind = 41 // Name key, Input value
	KindCancelPolicy Kind = 42 // Code the policy
	KindMarker       Kind = 43 // Name, Code the recorded version
	KindContinue     Kind = 44 // Input, Options
	KindUpdateReply  Kind = 45 // Handle of the wait that took the update, Code 1 if the update failed, Input answer or error JSON
)

// Deliveries.
const (
	KindTimer         Kind = 64 // Handle; Skipped if resolved before its time, with DueUnixMs if the time was skipped
	KindStepResult    Kind = 65 // Handle, Attempt, Data
	KindStepFailure   Kind = 66 // Handle, Attempt, Data error JSON
	KindSignal        Kind = 67 // Handle, Ref the accepted signal
	KindSignalTimeout Kind = 68 // Handle
	KindChildResult   Kind = 69 // Handle, Data
	KindChildFailure  Kind = 70 // Handle, Data error JSON, Code unless CHILD_FAILED
	KindHookReady     Kind = 71 // Handle, Data token; or Code CONFLICT, Data error JSON
	KindSignalSent    Kind = 72 // Handle; or Code CONFLICT or LIMIT, Data error JSON
	KindClock         Kind = 73 // DueUnixMs: the poll's own clock came due
	KindCancel        Kind = 74 // a cooperative cancel reaches the guest
)

// Ends.
const (
	KindCompleted  Kind = 96 // Data result
	KindFailed     Kind = 97 // Data error JSON
	KindCancelled  Kind = 98
	KindTerminated Kind = 99
	KindContinued  Kind = 100 // this iteration ended, the next one began
)

// kindNames is an array instead of a map because each entry that is read is looked up in it.
var kindNames = [...]string{
	KindStarted: "started", KindActivated: "activated", KindAttemptStarted: "attempt_started",
	KindAttemptFailed: "attempt_failed", KindRetried: "retried", KindMigrated: "migrated",
	KindSignalAccepted: "signal_accepted", KindCancelAsked: "cancel_asked", KindPaused: "paused",
	KindUnpaused: "unpaused", KindMoved: "moved", KindAdopted: "adopted", KindProgress: "progress",
	KindNow: "now", KindClockSet: "clock_set",
	KindSleep: "sleep", KindStep: "step", KindBody: "body", KindSignalWait: "signal_wait", KindChild: "child",
	KindHook: "hook", KindSignalSend: "signal_send", KindWithdraw: "withdraw", KindEmit: "emit",
	KindAttribute: "set_attribute", KindCancelPolicy: "cancel_policy", KindMarker: "version",
	KindContinue: "continue_as_new", KindUpdateReply: "update_reply",
	KindTimer: "timer", KindStepResult: "step_result", KindStepFailure: "step_failure", KindSignal: "signal",
	KindSignalTimeout: "signal_timeout", KindChildResult: "child_result", KindChildFailure: "child_failure",
	KindHookReady: "hook_ready", KindSignalSent: "signal_sent", KindClock: "clock", KindCancel: "cancel",
	KindCompleted: "completed", KindFailed: "failed", KindCancelled: "cancelled", KindTerminated: "terminated",
	KindContinued: "continued",
}

// String returns the kind's name as the journal command shows it.
func (k Kind) String() string {
	if k.Known() {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Known reports whether this release knows the kind.
func (k Kind) Known() bool { return int(k) < len(kindNames) && kindNames[k] != "" }

// Call reports whether the guest made the entry.
func (k Kind) Call() bool { return k >= 32 && k < 64 }

// Delivery reports whether the guest receives the entry.
func (k Kind) Delivery() bool { return k >= 64 && k < 96 }

// End reports whether the entry ends the iteration.
func (k Kind) End() bool { return k >= 96 && k < 128 }

// Status returns the status of a run whose journal ends with an entry of the kind, 0 if the kind does not end a run.
func (k Kind) Status() Status {
	switch k {
	case KindCompleted:
		return Completed
	case KindFailed:
		return Failed
	case KindCancelled:
		return Cancelled
	case KindTerminated:
		return Terminated
	}
	return 0
}

// Entry is one record of a run's journal. The comment of a kind lists the fields that it uses. All other fields are
// zero and take no space on disk.
type Entry struct {
	Seq      Seq
	Kind     Kind
	UnixMs   int64  // max(clock, time of the entry before)
	Handle   int64  // of calls that take a handle, and of the entries that resolve them
	Consumed uint64 // of calls: number of deliveries that the guest had taken before the call
	Name     string
	Target   string // handler, workflow, run, token, module
	Input    []byte // the argument of the call
	Options  []byte // JSON
	// Refused is the code with which a call was refused, 0 if it was accepted. A refused call takes no handle, and Data
	// holds its error JSON.
	Refused     int32
	Code        int32 // a number that depends on the kind: policy, version, result of cancel
	Data        []byte
	DueUnixMs   int64
	HasDue      bool // DueUnixMs is set (0 and negative are legal instants)
	Attempt     uint32
	StartUnixMs int64 // when the attempt began
	Skipped     bool
	Ref         Seq // an earlier entry to which this one refers
	// Sealed reports that Data is the whole entry, encoded by package seal. Of the other fields, only Seq, Kind and
	// UnixMs are set then.
	Sealed bool
	// BehindMs is how far the host's clock was behind UnixMs because it was set back, otherwise 0.
	BehindMs int64
}

// HostMs returns the time of the host's clock when the entry was appended. Unlike UnixMs, it decreases if the clock was
// set back.
func (e *Entry) HostMs() int64 { return e.UnixMs - e.BehindMs }
