package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// call matches a call with the journal, or appends it. It runs check for live calls only. If check returns an error, the call is
// refused, and the refusal is appended. call returns the handle, the entry's Code for calls without a handle, or a negated
// abi.Code.
func (m *Machine) call(e store.Entry, check func(*store.Entry) error) (int64, error) {
	if m.away() {
		return m.refuse(notHere), nil
	}
	e.Name, e.Target = clean(e.Name), clean(e.Target)
	e.Consumed = m.consumed
	if want := m.nextCall(); want != nil { // like record, but without allocating
		if err := m.match(want, &e); err != nil {
			return 0, err
		}
		return m.made(want)
	}
	live := e
	done, err := m.record(&live, func() {
		if err := m.admit(&live, check); err != nil {
			refusal := asError(err)
			live = store.Entry{Kind: live.Kind, Name: live.Name, Target: live.Target, Consumed: live.Consumed,
				Refused: int32(refusal.Code)}
			live.Data, _ = json.Marshal(refusal) // strings and numbers always encode
		} else if opens(live.Kind) {
			live.Handle = int64(len(m.handles)) + 1
		}
	})
	if err != nil {
		return 0, err
	}
	return m.made(done)
}

// match compares a recorded call with the guest's call and advances the call cursor.
func (m *Machine) match(want, got *store.Entry) error {
	if err := m.compare(want, got); err != nil {
		return err
	}
	m.move(int(want.Seq), m.reads)
	m.callPos++
	m.position = max(m.position, want.Seq)
	return nil
}

// record returns the entry of a call. If the journal has a next call, it compares and returns that. At the end of the journal,
// it calls live, which completes e, and appends e.
func (m *Machine) record(e *store.Entry, live func()) (*store.Entry, error) {
	if want := m.nextCall(); want != nil {
		return want, m.match(want, e)
	}
	switch m.cfg.Mode {
	case Check, Query:
		return nil, ErrSuspend
	case Body:
		return nil, &Mismatch{Seq: store.Seq(len(m.entries)), Want: "a suspension", Got: describe(e)}
	case Live, StepFn:
	}
	if m.dumped { // no entry records a dump, so a replay could not reach this call
		return nil, fmt.Errorf("%w; it was asked for its stacks, and went on with %s", ErrDeadlock, describe(e))
	}
	live()
	done, err := m.cfg.Tail.Append(*e)
	if err != nil {
		return nil, err
	}
	m.refresh()
	m.callPos = int(done.Seq) + 1
	m.position = max(m.position, done.Seq)
	return &done, nil
}

var notHere = abi.Errorf(abi.NotHere, "this call belongs to the workflow, a step's body or a query cannot make it")

// away reports whether the running code is not the workflow: a body, a step function or the handling of a query.
func (m *Machine) away() bool { return m.inBody || m.query }

func (m *Machine) admit(e *store.Entry, check func(*store.Entry) error) error {
	if err := m.cfg.Tail.CallRoom(); err != nil && e.Kind != store.KindContinue { // continue-as-new frees room
		return err
	}
	if err := check(e); err != nil {
		return err
	}
	if unique(e.Kind) && m.named(e.Name) {
		return abi.Errorf(abi.DuplicateName, "the name %q is used twice in this run; make it unique, for example with "+
			"an index: %q", e.Name, e.Name+"-2")
	}
	if n := m.open.all; opens(e.Kind) && n >= abi.MaxUnresolvedHandles {
		return abi.Errorf(abi.Limit, "the run waits for %d handles, the limit is %d", n, abi.MaxUnresolvedHandles)
	}
	return nil
}

// named reports whether an earlier call has the name. It collects names on demand, because a replay does not need them.
func (m *Machine) named(name string) bool {
	if m.names == nil {
		m.names = make(map[string]struct{}, len(m.handles)+1)
	}
	for ; m.collected < m.callPos; m.collected++ {
		if e := &m.entries[m.collected]; unique(e.Kind) && e.Refused == 0 {
			m.names[e.Name] = struct{}{}
		}
	}
	_, ok := m.names[name]
	return ok
}

// made applies a call of the journal to the guest's state and returns its answer.
func (m *Machine) made(e *store.Entry) (int64, error) {
	if e.Refused != 0 {
		m.last = e.Data
		return abi.Code(e.Refused).Neg(), nil
	}
	m.last = nil
	if !opens(e.Kind) {
		return int64(e.Code), nil
	}
	m.handles = append(m.handles, handle{kind: e.Kind, name: e.Name, call: int(e.Seq)})
	m.open.add(e.Kind, 1)
	return e.Handle, nil
}

// unique reports whether names of calls of the kind must be unique in the iteration. Other kinds name channels, or markers, which
// are separate.
func unique(k store.Kind) bool {
	switch k {
	case store.KindSleep, store.KindStep, store.KindBody, store.KindChild:
		return true
	}
	return false
}

// clean makes text from a guest fit for a journal: valid UTF-8 of bounded length. Text that clean changes is refused anyway, so
// it only shapes what the refusal records.
func clean(text string) string {
	if len(text) > abi.MaxNameBytes {
		text = text[:abi.MaxNameBytes]
	}
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "�")
	}
	return text
}

// Sleep starts a sleep of ms milliseconds.
func (m *Machine) Sleep(name string, ms int64) (int64, error) {
	return m.sleep(name, 0, func(from int64) (int64, error) { return abi.AddMs(from, ms) })
}

// SleepUntil starts a sleep until an instant.
func (m *Machine) SleepUntil(name string, unixMs int64) (int64, error) {
	return m.sleep(name, journal.SleepsUntil, func(int64) (int64, error) { return unixMs, abi.CheckUnixMs(unixMs) })
}

// SleepText starts a sleep given as a duration text or an instant.
func (m *Machine) SleepText(name, text string) (int64, error) {
	code := int32(0)
	if abi.IsInstant(text) {
		code = journal.SleepsUntil
	}
	return m.sleep(name, code, func(from int64) (int64, error) { return abi.ParseSleepText(text, from) })
}

func (m *Machine) sleep(name string, code int32, due func(from int64) (int64, error)) (int64, error) {
	e := store.Entry{Kind: store.KindSleep, Name: name}
	if m.cfg.Strict {
		e.DueUnixMs, _ = due(m.hostMs) // a refused sleep is not compared
		e.HasDue = true
	}
	return m.call(e, func(e *store.Entry) (err error) {
		err = abi.CheckName("sleep name", name)
		if err != nil {
			return err
		}
		e.DueUnixMs, err = due(m.from())
		e.HasDue, e.Code = true, code
		return err
	})
}

// Step starts a step that a handler performs.
func (m *Machine) Step(name, handler string, input, options []byte) (int64, error) {
	e := store.Entry{Kind: store.KindStep, Name: name, Target: handler, Input: input, Options: options}
	return m.call(e, func(*store.Entry) error {
		if err := abi.CheckName("step name", name); err != nil {
			return err
		}
		if err := abi.CheckHandler(handler); err != nil {
			return err
		}
		if len(input) > abi.MaxPayloadBytes {
			return tooLarge("input of step", name, len(input))
		}
		if _, err := abi.ParseStepOptions(options); err != nil {
			return err
		}
		return m.cfg.HandlerError(handler)
	})
}

func tooLarge(what, name string, n int) error {
	return abi.Errorf(abi.TooLarge, "%s %q has %d bytes, the limit is %d", what, name, n, abi.MaxPayloadBytes)
}

// StepBegin starts a step whose body is guest code. In the copy that executes this body, it returns 0 (RUN_BODY), unless the
// module receives RUN_BODY at its suspension point.
func (m *Machine) StepBegin(name string, options []byte) (int64, error) {
	h, err := m.call(store.Entry{Kind: store.KindBody, Name: name, Options: options}, func(*store.Entry) error {
		if err := abi.CheckName("step name", name); err != nil {
			return err
		}
		_, err := abi.ParseStepOptions(options)
		return err
	})
	if err == nil && h > 0 && m.cfg.Mode == Body && h == m.cfg.Handle && !m.cfg.BodiesEvent {
		m.enterBody()
		return 0, nil
	}
	return h, err
}

func (m *Machine) enterBody() {
	m.bodyMonoNs = m.mono()
	m.inBody = true
}

// StepEnd ends a body. ok is 0 for success. It always returns an error: ErrBodyEnd, or a refusal outside a body.
func (m *Machine) StepEnd(ok int32, b []byte) error {
	if !m.inBody || m.cfg.Mode != Body {
		return m.misplaced(abi.FnStepEnd, "a body")
	}
	m.outcome.BodyEnded, m.outcome.BodyOK, m.outcome.BodyBytes = true, ok == 0, len(b)
	if ok == 0 {
		m.outcome.Body = kept(b)
	} else {
		m.outcome.Body = keptReport(b)
	}
	return ErrBodyEnd
}

// kept returns b. If b is over the limit, it returns a copy of its first MaxPayloadBytes+1 bytes: enough to show that it is.
func kept(b []byte) []byte {
	if len(b) > abi.MaxPayloadBytes {
		b = bytes.Clone(b[:abi.MaxPayloadBytes+1])
	}
	return b
}

// keptReport returns the failure report b of a body or step function, or a copy if b is over MaxPayloadBytes. The whole report is
// needed, because what says whether to retry may come after a long message. Over MaxReportBytes only the beginning is kept, which
// counts as text.
func keptReport(b []byte) []byte {
	if len(b) > abi.MaxReportBytes {
		return kept(b)
	}
	if len(b) > abi.MaxPayloadBytes {
		b = bytes.Clone(b)
	}
	return b
}

// refusesEnd refuses a result or error that is misplaced or too large, and returns a negated code; else 0. It also delivers a
// query of an ended run. Refusals are not recorded, so runs before RulesSize are always told the limit plus one as the size.
func (m *Machine) refusesEnd(what string, b []byte) int64 {
	switch n := len(b); {
	case m.query || m.inBody && m.cfg.Mode != StepFn:
		return m.refuse(notHere)
	case m.asksAtEnd():
		return m.refuse(abi.Errorf(abi.Query, "%s", m.cfg.Query.Name))
	case n > abi.MaxPayloadBytes:
		if m.cfg.Started.Rules < journal.RulesSize {
			n = abi.MaxPayloadBytes + 1
		}
		return m.refuse(abi.Errorf(abi.TooLarge, "the %s has %d bytes, the limit is %d", what, n, abi.MaxPayloadBytes))
	}
	return 0
}

// Complete sets the result. The result of a step function, like a body's, may be too large: its step then fails with TOO_LARGE.
func (m *Machine) Complete(b []byte) int64 {
	if m.cfg.Mode == StepFn && len(b) > abi.MaxPayloadBytes {
		m.outcome.ResultBytes, b = len(b), kept(b)
		m.outcome.Result, m.outcome.Completed, m.last = b, true, nil
		return 0
	}
	if n := m.refusesEnd("result", b); n < 0 {
		return n
	}
	m.outcome.Result, m.outcome.Completed, m.last = b, true, nil
	return 0
}

// Fail sets the error JSON with which the workflow or step function fails. The report of a step function, like a body's, may be
// too large: its texts are truncated later.
func (m *Machine) Fail(b []byte) int64 {
	if m.cfg.Mode == StepFn && len(b) > abi.MaxPayloadBytes {
		m.outcome.Failure, m.outcome.Failed, m.last = keptReport(b), true, nil
		return 0
	}
	if n := m.refusesEnd("error", b); n < 0 {
		return n
	}
	m.outcome.Failure, m.outcome.Failed, m.last = b, true, nil
	return 0
}

// Cancel withdraws a handle. It returns 0 if the handle is withdrawn, 1 if the guest already received the outcome, or 2 if an
// attempt has begun, whose outcome will resolve the handle.
func (m *Machine) Cancel(id int64) (int64, error) {
	if m.away() {
		return m.refuse(notHere), nil
	}
	h := m.handle(id)
	if h == nil {
		return m.refuse(m.unknownHandle(id)), nil
	}
	e, told := store.Entry{Kind: store.KindWithdraw, Handle: id, Consumed: m.consumed}, h.seen || h.withdrawn
	done, err := m.record(&e, func() {
		if told {
			e.Code = journal.WithdrawTold
		}
	})
	if err != nil {
		return 0, err
	}
	if m.cfg.Strict && (done.Code == journal.WithdrawTold) != told {
		return 0, &Mismatch{Seq: done.Seq, Want: fmt.Sprintf("%s answered by %d", describe(done), done.Code),
			Got: fmt.Sprintf("it where the outcome was told: %v", told)}
	}
	if done.Code == journal.WithdrawDone {
		if !h.seen && !h.withdrawn {
			m.open.add(h.kind, -1)
		}
		h.withdrawn = true
	}
	m.last = nil
	return int64(done.Code), nil
}

func (m *Machine) handle(id int64) *handle {
	if id < 1 || id > int64(len(m.handles)) {
		return nil
	}
	return &m.handles[id-1]
}

func (m *Machine) unknownHandle(id int64) error {
	return abi.Errorf(abi.UnknownHandle, "there is no handle %d, the run has made %d", id, len(m.handles))
}

// Result returns the outcome of a handle. It refuses a handle whose outcome the guest has not received with PENDING or CANCELLED.
func (m *Machine) Result(id int64) ([]byte, int64) {
	if m.away() {
		return nil, m.refuse(notHere)
	}
	h := m.handle(id)
	switch {
	case h == nil:
		return nil, m.refuse(m.unknownHandle(id))
	case h.seen:
	case h.withdrawn:
		return nil, m.refuse(&abi.Error{Code: abi.Cancelled, Name: h.name, Message: "this handle was withdrawn"})
	default:
		return nil, m.refuse(&abi.Error{Code: abi.Pending, Name: h.name, Message: "the outcome has not been handed over yet"})
	}
	switch e := &m.entries[h.delivery]; e.Kind {
	case store.KindSignal:
		return m.Answer(m.entries[e.Ref].Data)
	case store.KindHookReady, store.KindSignalSent:
		if e.Code != 0 {
			m.last = e.Data
			return nil, abi.Code(e.Code).Neg()
		}
		return m.Answer(e.Data)
	case store.KindStepFailure:
		m.last = e.Data
		return nil, abi.StepFailed.Neg()
	case store.KindSignalTimeout:
		return nil, m.refuse(&abi.Error{Code: abi.Timeout, Name: h.name, Message: "no signal came in time"})
	case store.KindChildFailure:
		m.last = e.Data
		if e.Code != 0 { // its id was taken; older releases did not set Code
			return nil, abi.Code(e.Code).Neg()
		}
		return nil, abi.ChildFailed.Neg()
	default:
		return m.Answer(e.Data)
	}
}
