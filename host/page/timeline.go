package page

import (
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store"
)

// state is the state of a row.
type state string

const (
	open     state = "open"     // in progress
	done     state = "done"     // ended
	failed   state = "failed"   // permanently
	expired  state = "expired"  // a wait ended by its time-out
	lost     state = "lost"     // the workflow withdrew it: a timer that lost, a step that was cancelled
	undone   state = "undone"   // voided by a retry
	happened state = "happened" // has no duration
)

// try is one attempt of a step.
type try struct {
	N          uint32
	Seq        uint64
	Start, End int64 // in Unix milliseconds; End is 0 while it is in progress
	Error      string
	Next       int64 // start of the next attempt
}

// row is one item of a timeline: a step, a sleep, a wait, a child, or an event of the run.
type row struct {
	Seq        uint64 // of its entry
	EndSeq     uint64 // of the entry that ended it; 0 while it is in progress
	Kind       string // step, body, sleep, signal, child, hook, send, or the kind of an entry
	Name       string
	Target     string // handler, workflow, run
	Child      string // id of the child
	State      state
	Start, End int64 // End is 0 while it is in progress
	Due        int64 // end of the sleep or wait; 0 = unbounded
	Tries      []try
	Most       int    // maximum number of attempts; 0 = unlimited
	Error      string // message of the failure
	Note       string
	Count      int    // number of merged items; 0 and 1 are one
	Code       string // code and kind of the failure
	handle     int64
	base       int  // number of attempts before the newest retry of the run
	step       bool // its time is work, and is shown at its length
}

// timeline is the history of a run as rows, in the order of their beginnings.
type timeline struct {
	Rows    []*row
	Entries int
	First   int64 // times of the first and the last entry
	Last    int64
	End     *store.Entry // the entry that ended the iteration, if it has ended
	Input   []byte
	Emitted int

	Deadline int64 // deadline of the run; 0 = none

	by      map[int64]*row     // by handle
	ends    map[store.Seq]*row // by the entries that ended them
	signals map[store.Seq]*row // accepted signals
}

// started has the options of entry 0 that a timeline needs.
type started struct {
	At       int64 `json:"at"`
	Deadline int64 `json:"deadline"`
}

// timelineOf reads a journal. It keeps no payloads, so that long journals take little memory.
func timelineOf(entries iter.Seq2[host.Entry, error]) (*timeline, error) {
	t := &timeline{by: map[int64]*row{}, ends: map[store.Seq]*row{}, signals: map[store.Seq]*row{}}
	for e, err := range entries {
		if err != nil {
			return nil, err
		}
		t.add(&e)
	}
	return t, nil
}

// calls maps the calls of guests to kinds of rows.
var calls = map[store.Kind]string{store.KindSleep: "sleep", store.KindStep: "step", store.KindBody: "step",
	store.KindSignalWait: "signal", store.KindChild: "child", store.KindHook: "hook", store.KindSignalSend: "send"}

// marks maps the events of a run that have no duration.
var marks = map[store.Kind]string{store.KindPaused: "paused", store.KindUnpaused: "unpaused", store.KindRetried: "retried",
	store.KindMigrated: "migrated", store.KindMoved: "moved", store.KindAdopted: "adopted", store.KindCancel: "cancel",
	store.KindContinue: "continued", store.KindCompleted: "completed", store.KindFailed: "failed",
	store.KindCancelled: "cancelled", store.KindTerminated: "terminated"}

func (t *timeline) add(e *host.Entry) {
	t.Entries++
	if t.First == 0 {
		t.First = e.UnixMs
	}
	before := t.Last
	t.Last = e.UnixMs
	if kind, ok := calls[e.Kind]; ok {
		t.call(e, kind)
		return
	}
	switch e.Kind {
	case store.KindStarted:
		var o started
		_ = json.Unmarshal(e.Options, &o) // missing fields are zero
		t.Input, t.Deadline = e.Input, o.Deadline
	case store.KindEmit:
		t.Emitted++
	case store.KindClock:
		t.clock(e, before)
	case store.KindSignalAccepted:
		r := &row{Seq: uint64(e.Seq), Kind: "received", Name: e.Name, State: happened, Start: e.UnixMs, End: e.UnixMs,
			Note: "not taken yet"}
		t.signals[e.Seq] = r
		t.Rows = append(t.Rows, r)
	case store.KindAttemptStarted, store.KindAttemptFailed:
		t.attempt(e)
	case store.KindWithdraw:
		if r := t.by[e.Handle]; r != nil && r.State == open && e.Code == 0 { // withdrawn: it has no outcome
			t.close(r, e, lost)
		}
	case store.KindRetried:
		t.retry(e)
		t.mark(e)
	default:
		t.outcome(e)
	}
}

// call adds a call of the guest.
func (t *timeline) call(e *host.Entry, kind string) {
	r := &row{Seq: uint64(e.Seq), Kind: kind, Name: e.Name, Target: e.Target, State: open, Start: e.UnixMs, handle: e.Handle,
		step: e.Kind == store.KindStep || e.Kind == store.KindBody}
	if e.HasDue {
		r.Due = e.DueUnixMs
	}
	switch {
	case r.step:
		if o, err := abi.ParseStepOptions(e.Options); err == nil {
			r.Most = o.Attempts
		}
	case e.Kind == store.KindChild:
		r.Child = string(e.Data)
	case e.Kind == store.KindSignalSend:
		r.Name = string(e.Options)
	}
	if e.Refused != 0 {
		r.State, r.End, r.EndSeq = failed, e.UnixMs, uint64(e.Seq)
		r.Child, r.Error = "", messageOf(e.Data)
		r.Note = "refused: " + abi.Code(e.Refused).String()
	} else if e.Handle != 0 {
		t.by[e.Handle] = r
	}
	t.Rows = append(t.Rows, r)
}

// clock adds a sleep of the guest's own clock, for which the journal has only the end. Consecutive ones are one row.
func (t *timeline) clock(e *host.Entry, before int64) {
	if n := len(t.Rows); n > 0 && t.Rows[n-1].Kind == "clock" {
		r := t.Rows[n-1]
		r.Count, r.End, r.EndSeq = max(r.Count, 1)+1, e.UnixMs, uint64(e.Seq)
		return
	}
	t.Rows = append(t.Rows, &row{Seq: uint64(e.Seq), EndSeq: uint64(e.Seq), Kind: "clock", State: done, Start: before,
		End: e.UnixMs})
}

// attempt adds the start or the failure of an attempt.
func (t *timeline) attempt(e *host.Entry) {
	r := t.by[e.Handle]
	if r == nil {
		return
	}
	if n := len(r.Tries); n > 0 && r.Tries[n-1].N == e.Attempt && r.Tries[n-1].End == 0 {
		r.Tries = r.Tries[:n-1] // its start
	}
	x := try{N: e.Attempt, Seq: uint64(e.Seq), Start: e.StartUnixMs}
	if x.Start == 0 {
		x.Start = e.UnixMs
	}
	if e.Kind == store.KindAttemptFailed {
		x.End, x.Error = max(e.UnixMs, x.Start), messageOf(e.Data)
		if e.HasDue {
			x.Next = e.DueUnixMs
		}
	}
	r.Tries = append(r.Tries, x)
}

// outcome adds the outcome of a call, or an event of the run.
func (t *timeline) outcome(e *host.Entry) {
	if _, ok := marks[e.Kind]; ok {
		t.mark(e)
		return
	}
	r := t.by[e.Handle]
	if !e.Kind.Delivery() || r == nil {
		return
	}
	switch e.Kind {
	case store.KindStepFailure, store.KindChildFailure:
		t.close(r, e, failed)
		r.Error, r.Code = messageOf(e.Data), codeOf(e.Data)
	case store.KindSignalTimeout:
		t.close(r, e, expired)
	case store.KindHookReady, store.KindSignalSent:
		if t.close(r, e, done); e.Code != 0 {
			r.State, r.Error = failed, messageOf(e.Data)
		}
	case store.KindSignal:
		t.close(r, e, done)
		if s := t.signals[e.Ref]; s != nil {
			s.Note = ""
		}
	default:
		t.close(r, e, done)
		if e.Skipped {
			r.Note = "woken early"
		}
	}
	if r.step && e.Attempt > 0 && (len(r.Tries) > 0 || e.Attempt > 1 || e.StartUnixMs != 0) {
		t.last(r, e)
	}
}

// last adds the attempt that ended a step.
func (t *timeline) last(r *row, e *host.Entry) {
	x := try{N: e.Attempt, Seq: uint64(e.Seq), Start: e.StartUnixMs, End: e.UnixMs}
	if n := len(r.Tries); n > 0 {
		if p := r.Tries[n-1]; p.N == e.Attempt { // its start or failure was recorded
			if p.End != 0 {
				return
			}
			x.Start, r.Tries = p.Start, r.Tries[:n-1]
		} else if x.Start == 0 {
			x.Start = max(p.Next, p.End)
		}
	}
	if x.Start == 0 || x.Start > x.End {
		x.Start = max(r.Start, min(x.Start, x.End))
	}
	if e.Kind == store.KindStepFailure {
		x.Error = messageOf(e.Data)
	}
	r.Tries = append(r.Tries, x)
}

func (t *timeline) close(r *row, e *host.Entry, s state) {
	r.State, r.End, r.EndSeq = s, e.UnixMs, uint64(e.Seq)
	t.ends[e.Seq] = r
}

// mark adds an event of the run.
func (t *timeline) mark(e *host.Entry) {
	r := &row{Seq: uint64(e.Seq), EndSeq: uint64(e.Seq), Kind: "run", Name: marks[e.Kind], State: happened, Start: e.UnixMs,
		End: e.UnixMs}
	switch e.Kind {
	case store.KindFailed:
		r.State = failed // the head of the page tells why
	case store.KindMigrated:
		var o struct{ From, To uint32 }
		if json.Unmarshal(e.Options, &o) == nil && o.To != 0 {
			r.Note = fmt.Sprintf("from version %d to %d", o.From, o.To)
		}
	}
	if e.Kind.End() {
		end := *e
		t.End = &end
		t.ends[e.Seq] = r
	}
	t.Rows = append(t.Rows, r)
}

// retry applies a retry: calls that it has voided are undone, and voided failures are open again.
func (t *timeline) retry(e *host.Entry) {
	gone := voidedBy(e)
	for _, r := range t.Rows {
		switch {
		case gone(r.Seq) && r.Kind != "received":
			r.State = undone
		case r.EndSeq != 0 && gone(r.EndSeq):
			r.State, r.End, r.EndSeq, r.Error, r.base = open, 0, 0, "", len(r.Tries)
		}
	}
	t.End = nil
}

// messageOf returns the message of a recorded error.
func messageOf(b []byte) string {
	var e struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(b, &e) != nil || e.Message == "" {
		return line(string(b), 300)
	}
	return e.Message
}

// codeOf returns the code and the kind of a recorded error.
func codeOf(b []byte) string {
	var e struct{ Code, Kind string }
	if json.Unmarshal(b, &e) != nil || e.Code == "" {
		return ""
	}
	if e.Kind != "" {
		return e.Code + ", " + e.Kind
	}
	return e.Code
}

// pending returns what the run waits for, steps first, and updates that it accepts last.
func (t *timeline) pending() (list []*row) {
	for _, kind := range []string{"step", "signal", "child", "send", "hook", "sleep", "update"} {
		for _, r := range t.Rows {
			if r.State == open && (r.Kind == kind && r.update() == "" || kind == "update" && r.update() != "") {
				list = append(list, r)
			}
		}
	}
	return list
}

// update returns the name of the update that a row waits for, empty for other rows.
func (r *row) update() string {
	if name, ok := strings.CutPrefix(r.Name, abi.UpdatePrefix); ok && r.Kind == "signal" {
		return name
	}
	return ""
}

// Label names a row in a sentence.
func (r *row) Label() string {
	if r.Name == "" {
		return r.Kind
	}
	return r.Name
}

// Duration formats the duration of a row; empty without one.
func (r *row) Duration() string {
	if r.State == happened || r.Kind == "run" || r.End == 0 || r.End < r.Start {
		return ""
	}
	return humane(abi.Duration(r.End - r.Start))
}

// Failures counts the attempts that have failed since the newest retry of the run.
func (r *row) Failures() (n int) {
	for _, x := range r.Tries[r.base:] {
		if x.Error != "" {
			n++
		}
	}
	return n
}

// LastError returns the error of the newest failed attempt.
func (r *row) LastError() string {
	for i := len(r.Tries) - 1; i >= 0; i-- {
		if r.Tries[i].Error != "" {
			return r.Tries[i].Error
		}
	}
	return r.Error
}
