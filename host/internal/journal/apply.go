package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// Rules number the changes of what the host answers a guest. A run keeps its first rules, on every host.
const (
	RulesArguments = 1          // a program has one argument, the name of its workflow; before: none
	RulesHandle    = 2          // if a cancel or a query ends a wait for one handle, the error has that handle
	RulesSize      = 3          // the refusal of a result or error that is too large has its size; before: the limit plus one
	RulesMarkers   = 4          // a repeated marker gets its first answer; before: it was refused, or 0
	RulesOrder     = 5          // an older delivery, taken after the clock was set back, does not move the monotonic clock
	RulesNewest    = RulesOrder // of runs that begin now
)

// Started is the JSON in the options of entry 0. The entry also has the workflow's name and the input.
type Started struct {
	RunID          string  `json:"run_id"`
	Workflow       string  `json:"workflow"`
	Version        uint32  `json:"version"`
	Module         string  `json:"module"` // SHA-256 in hexadecimal
	Incarnation    string  `json:"incarnation"`
	Iteration      uint32  `json:"iteration"`
	RunAttempt     int     `json:"run_attempt"`
	Seed           []byte  `json:"seed"`               // 32 bytes of the host's secure random
	Rules          int     `json:"rules,omitempty"`    // newest rules of the run, a constant above; 0 = before all of them
	AtUnixMs       int64   `json:"at,omitempty"`       // earliest instant of the first activation; 0 = at once
	DeadlineUnixMs int64   `json:"deadline,omitempty"` // instant by which the run must end; 0 = none
	Parent         *Parent `json:"parent,omitempty"`
	Schedule       string  `json:"schedule,omitempty"` // id of the schedule that started this run, or the repeated run
	NominalMs      int64   `json:"nominal,omitempty"`  // the instant of the schedule for this run
	Limit          *Limit  `json:"limit,omitempty"`    // for the workflow's limits; nil = none held it back at its start
	// ChildSalt is part of the generated ids of children if an earlier run had the same id; else empty.
	ChildSalt   string            `json:"child_salt,omitempty"`
	Output      uint64            `json:"output,omitempty"` // chunks of earlier iterations
	Attributes  map[string]string `json:"attributes,omitempty"`
	Memo        json.RawMessage   `json:"memo,omitempty"`          // shown to people with the run
	TraceParent string            `json:"traceparent,omitempty"`   // W3C Trace Context header of the start request
	Policy      int32             `json:"cancel_policy,omitempty"` // cancel policy of the iteration before
	CancelMs    int64             `json:"cancel_at,omitempty"`     // when an earlier iteration accepted a cancel; 0 = none
	Keys        Keys              `json:"keys,omitempty"`          // idempotency keys of signals to earlier iterations
	// First is the number of the run's first iteration: not 0 if the run repeats a later iteration of another run. Older releases
	// left 0.
	First uint32 `json:"first,omitempty"`
	// Copied is how many entries after entry 0 were copied from the run that this one repeats. Inputs of calls may differ there,
	// because workflows know the id of their run.
	Copied int `json:"copied,omitempty"`
	// Taken is how many deliveries an earlier instance had taken, if TakenKnown: in a copy, when the workflow made the call that is
	// made again; after a retry, when it ended.
	Taken      uint64 `json:"taken,omitempty"`
	TakenKnown bool   `json:"-"`
	// Gaps are the entries of the repeated run that were not copied, so that the workflow finds the same positions in its journal.
	Gaps []Gap `json:"gaps,omitempty"`
	// Signalled says that entry 1 is the signal that the run was started with.
	Signalled bool `json:"signalled,omitempty"`
}

// Gap is a place in a copied journal from which entries are left out: their number, and the seq of the copied entry behind them.
type Gap [2]store.Seq

// Position returns the seq that an entry had in the run that made it first. Entries that were not copied count the gaps before
// them.
func (s *Started) Position(seq store.Seq) store.Seq {
	at := seq
	for _, g := range s.Gaps {
		if g[1] > seq {
			break
		}
		at += g[0]
	}
	return at
}

// Parent identifies the run that started this one and receives its outcome.
type Parent struct {
	Namespace   uint32 `json:"namespace,omitempty"`
	RunID       string `json:"run_id"`
	Incarnation []byte `json:"incarnation"`
	Iteration   uint32 `json:"iteration"`
	Handle      int64  `json:"handle"`
	Depth       int    `json:"depth"` // number of ancestors
}

// Limit is the part of a run's start that the limits of its workflow use.
type Limit struct {
	Keys     map[string]string `json:"keys,omitempty"` // path into the input of a limit's key, to the text of the value there
	Priority int               `json:"priority,omitempty"`
}

// Entry returns entry 0 for a run.
func (s Started) Entry(input []byte) store.Entry {
	var options bytes.Buffer
	e := json.NewEncoder(&options)
	e.SetEscapeHTML(false) // the memo is shown as it is stored
	if err := e.Encode(s); err != nil {
		panic(err) // strings, numbers and bytes always encode
	}
	return store.Entry{Kind: store.KindStarted, Name: s.Workflow, Input: input, Options: bytes.TrimSpace(options.Bytes())}
}

// Begin returns the journal of a new run. It skips decoding s from entry 0 if s has no fields from callers whose decoded form
// may differ from the encoded one.
func Begin(s *Started, input []byte, now int64) (*Journal, error) {
	j := &Journal{}
	if s.Parent == nil && s.Limit == nil && s.Attributes == nil && s.Memo == nil && utf8.ValidString(s.TraceParent) {
		j.started = *s
	}
	_, err := j.append(s.Entry(input), now) // there are no timers that could be due
	return j, err
}

// apply checks the entry, folds it into the state and appends it.
func (j *Journal) apply(e *store.Entry) error {
	if err := j.check(e); err != nil {
		return err
	}
	crowd := idle(e) && j.CallRoom() != nil
	if err := j.fold(e); err != nil {
		return err
	}
	if crowd {
		j.crowded++
	}
	j.entries = append(j.entries, *e)
	if j.live != nil {
		j.live = append(j.live, *e)
	}
	j.bytes += size(e)
	return nil
}

func illegal(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrIllegal, fmt.Sprintf(format, args...))
}

// check returns an error if the entry is not a legal transition.
func (j *Journal) check(e *store.Entry) error {
	switch {
	case !e.Kind.Known():
		return illegal("unknown kind %d", uint8(e.Kind))
	case j.end == store.KindFailed && e.Kind == store.KindRetried:
	case j.end != store.KindInvalid:
		return fmt.Errorf("%w: %s after %s", ErrEnded, e.Kind, j.end)
	case (len(j.entries) == 0) != (e.Kind == store.KindStarted):
		return illegal("%s at seq %d", e.Kind, len(j.entries))
	case e.Kind == store.KindActivated && j.activeMs != 0:
		return illegal("activated twice")
	case (e.Kind.Call() || e.Kind == store.KindNow) && j.activeMs == 0:
		return illegal("%s before the first activation", e.Kind)
	case e.BehindMs < 0:
		return illegal("%s at a time before that of the host's clock", e.Kind)
	}
	if err := j.absence.check(e, j.started.RunID); err != nil {
		return err
	}
	if e.Refused != 0 {
		if e.Handle != 0 || !e.Kind.Call() {
			return illegal("a refused %s with handle %d", e.Kind, e.Handle)
		}
		return nil
	}
	if (e.Kind == store.KindClock || e.Kind == store.KindCancel) && e.Handle != 0 {
		return illegal("a %s with handle %d", e.Kind, e.Handle)
	}
	switch e.Kind {
	case store.KindAttemptStarted, store.KindAttemptFailed, store.KindProgress, store.KindWithdraw:
		return j.checkTarget(e)
	case store.KindRetried:
		return j.checkRetried(e)
	case store.KindUpdateReply:
		if !j.Set.Bound(e.Handle) {
			return illegal("%s for handle %d, which has no update without an answer", e.Kind, e.Handle)
		}
		return nil
	case store.KindCancel:
		if j.policy != abi.CancelCooperative || j.cancelMs != 0 {
			return illegal("a cancel of a run that does not take it")
		}
		return nil
	case store.KindPaused, store.KindUnpaused:
		if j.paused == (e.Kind == store.KindPaused) {
			return illegal("%s twice", e.Kind)
		}
		return nil
	case store.KindClock:
		if !e.HasDue || e.UnixMs < e.DueUnixMs && !e.Skipped {
			return illegal("a clock without deadline, or before it")
		}
		return nil
	}
	if opens[e.Kind] {
		if e.Handle != int64(len(j.handles))+1 {
			return illegal("%s takes handle %d, the next one is %d", e.Kind, e.Handle, len(j.handles)+1)
		}
	}
	if e.Kind.Delivery() && e.Kind != store.KindCancel {
		return j.checkDelivery(e)
	}
	return nil
}

// opens has the calls that open a handle.
var opens = [256]bool{
	store.KindSleep: true, store.KindStep: true, store.KindBody: true, store.KindSignalWait: true,
	store.KindChild: true, store.KindHook: true, store.KindSignalSend: true,
}

// resolves maps a delivery to the kinds of call that it resolves.
var resolves = map[store.Kind][2]store.Kind{
	store.KindTimer:         {store.KindSleep},
	store.KindStepResult:    {store.KindStep, store.KindBody},
	store.KindStepFailure:   {store.KindStep, store.KindBody},
	store.KindSignal:        {store.KindSignalWait},
	store.KindSignalTimeout: {store.KindSignalWait},
	store.KindChildResult:   {store.KindChild},
	store.KindChildFailure:  {store.KindChild},
	store.KindHookReady:     {store.KindHook},
	store.KindSignalSent:    {store.KindSignalSend},
}

func (j *Journal) checkTarget(e *store.Entry) error {
	h := j.Handle(e.Handle)
	if h == nil {
		return illegal("%s for handle %d, there are %d", e.Kind, e.Handle, len(j.handles))
	}
	if e.Kind == store.KindWithdraw {
		return nil
	}
	if h.Step == nil || !h.Open() {
		return illegal("%s for handle %d (%s), which is no open step", e.Kind, e.Handle, h.Kind)
	}
	if e.Attempt == 0 || e.Kind == store.KindAttemptStarted && e.Attempt <= h.Step.Attempt {
		return illegal("%s %d of handle %d after attempt %d", e.Kind, e.Attempt, e.Handle, h.Step.Attempt)
	}
	return nil
}

func (j *Journal) checkDelivery(e *store.Entry) error {
	h := j.Handle(e.Handle)
	if h == nil {
		return illegal("%s for handle %d, there are %d", e.Kind, e.Handle, len(j.handles))
	}
	if kinds := resolves[e.Kind]; h.Kind != kinds[0] && h.Kind != kinds[1] {
		return illegal("%s for handle %d, which is a %s", e.Kind, e.Handle, h.Kind)
	}
	if !h.Open() {
		return illegal("%s for handle %d, which is no longer open", e.Kind, e.Handle)
	}
	timed := e.Kind == store.KindTimer || e.Kind == store.KindSignalTimeout
	if timed && !e.Skipped && (e.UnixMs < h.DueUnixMs || !h.HasDue) {
		return illegal("%s of handle %d at %d, before its deadline %d", e.Kind, e.Handle, e.UnixMs, h.DueUnixMs)
	}
	if e.Kind == store.KindSignal {
		return j.checkSignal(e, h)
	}
	return nil
}

// fold applies a legal entry to the state. It fails on options that cannot be decoded, and with store.ErrVersion on newer rules.
func (j *Journal) fold(e *store.Entry) error {
	switch {
	case e.Kind == store.KindStarted:
		if j.started.RunID != "" { // Begin has set it
		} else if err := json.Unmarshal(e.Options, &j.started); err != nil {
			return illegal("options of entry 0: %v", err)
		}
		if r := j.started.Rules; r < 0 || r > RulesNewest {
			return fmt.Errorf("%w: the run began under rules %d, the newest here are %d", store.ErrVersion, r, RulesNewest)
		}
		j.started.TakenKnown = j.started.Copied > 0
		j.foldStarted()
	case e.Kind == store.KindActivated:
		j.activeMs = e.UnixMs
	case e.Kind.End():
		j.end = e.Kind
		j.waiting = false
	case e.Kind == store.KindRetried:
		return j.foldRetried(e)
	case e.Refused != 0:
	case opens[e.Kind]:
		return j.openHandle(e)
	case e.Kind == store.KindWithdraw:
		if h := j.Handle(e.Handle); e.Code == WithdrawDone { // the guest never receives a delivery that is already in the journal
			h.Withdrawn = true
			j.close(h)
			j.unbind(h)
		}
	case e.Kind == store.KindAttemptStarted, e.Kind == store.KindAttemptFailed:
		j.foldAttempt(e)
	case e.Kind == store.KindProgress:
		j.Handle(e.Handle).Step.Details = e.Data
	case e.Kind.Delivery() && e.Handle != 0:
		h := j.Handle(e.Handle)
		h.Resolved, h.ResolvedSeq = true, e.Seq
		h.Refused = e.Code != 0
		j.close(h)
		if h.Step != nil {
			h.Step.InFlight = false
		}
		if e.Kind == store.KindSignal {
			j.foldSignal(e, h)
		}
		if e.Kind == store.KindHookReady && !h.Refused {
			if j.tokens == nil {
				j.tokens = map[string]int64{}
			}
			j.tokens[h.Token] = h.ID
		}
	default:
		j.foldRecord(e)
	}
	return nil
}

// foldRecord applies an entry that changes no handle.
func (j *Journal) foldRecord(e *store.Entry) {
	switch e.Kind {
	case store.KindSignalAccepted:
		j.accept(e)
	case store.KindCancelPolicy:
		j.policy = e.Code
	case store.KindCancel:
		j.cancelMs = e.HostMs()
	case store.KindPaused, store.KindUnpaused:
		j.paused = e.Kind == store.KindPaused
	case store.KindMoved, store.KindAdopted:
		j.absence.fold(e)
	case store.KindEmit:
		j.output = max(j.output, uint64(e.Code)) + 1 // a copy has gaps where a retry voided output
	case store.KindAttribute:
		j.setAttribute(e.Name, string(e.Input))
	case store.KindUpdateReply:
		j.Set.Reply(e)
	case store.KindClockSet:
		j.moveCounts(e.HostMs(), true)
	}
}

// Answers to a cancel, in the Code of a withdraw entry.
const (
	WithdrawDone    = 0 // withdrawn
	WithdrawTold    = 1 // the guest already received the outcome
	WithdrawRunning = 2 // an attempt is running; its outcome will resolve the handle
)

func (j *Journal) openHandle(e *store.Entry) error {
	h := Handle{ID: e.Handle, Kind: e.Kind, Name: e.Name, Target: e.Target, CallSeq: e.Seq, DueUnixMs: e.DueUnixMs,
		HasDue: e.HasDue, FromMs: e.HostMs()}
	switch e.Kind {
	case store.KindStep, store.KindBody:
		options, err := abi.ParseStepOptions(e.Options)
		if err != nil {
			return illegal("options of step %q: %v", e.Name, err)
		}
		h.Step, h.Undoes = &Step{Options: options, FirstMs: e.HostMs()}, options.Undoes
	case store.KindChild:
		options, err := abi.ParseChildOptions(e.Options)
		if err != nil {
			return illegal("options of child %q: %v", e.Name, err)
		}
		h.ChildID, h.OnEnd, h.Undoes = string(e.Data), options.OnEnd, options.Undoes
	case store.KindHook:
		h.Token, h.Options = string(e.Data), e.Options
	}
	j.handles = append(j.handles, h)
	j.open.add(&h)
	if h.HasDue || h.Step != nil {
		j.counts(e)
	}
	if h.Kind == store.KindSignalWait {
		j.waits.addWait(&h)
	}
	if h.HasDue && (h.Kind == store.KindSleep || h.Kind == store.KindSignalWait) {
		j.timers.Put(h.ID, h.DueUnixMs)
	}
	return nil
}

func (j *Journal) foldAttempt(e *store.Entry) {
	h := j.Handle(e.Handle)
	s := h.Step
	defer j.open.delayed(h)
	if e.Kind == store.KindAttemptStarted {
		if e.Code == StartedByRecovery {
			s.Recoveries++
		}
		s.Attempt, s.InFlight, s.RetryMs = e.Attempt, true, 0
		return
	}
	s.Attempt, s.InFlight = max(s.Attempt, e.Attempt), false
	s.Failures++
	s.RetryMs, s.RetryFrom, s.RetrySeq, s.LastError = e.DueUnixMs, e.HostMs(), e.Seq, e.Data
	j.counts(e)
}

// StartedByRecovery is the Code of an attempt_started entry if the outcome of the attempt before is unknown because its
// host died.
const StartedByRecovery = 1
