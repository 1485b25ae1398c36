package replay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Await is the suspension point of a guest that waits for one of the handles ids, or for any unresolved handle if ids is empty.
// It returns the handle that resolved first in journal order.
func (m *Machine) Await(ids []int64) (int64, error) {
	if m.away() {
		return m.refuse(notHere), nil
	}
	if len(ids) > abi.MaxAwaitHandles {
		return m.refuse(abi.Errorf(abi.InvalidArgument, "await of %d handles, the limit is %d", len(ids),
			abi.MaxAwaitHandles)), nil
	}
	told, at := int64(0), 0
	for _, id := range ids {
		h := m.handle(id)
		switch {
		case h == nil:
			return m.refuse(m.unknownHandle(id)), nil
		case h.withdrawn && !h.seen:
			m.last = nil
			return id, nil
		case h.seen && (told == 0 || h.delivery < at):
			told, at = id, h.delivery
		}
	}
	if told != 0 {
		m.last = nil
		return told, nil
	}
	if len(ids) == 0 && m.open.all == 0 {
		return m.refuse(abi.Errorf(abi.UnknownHandle, "await of any handle, but none is unresolved")), nil
	}
	m.waits()
	m.suspension = store.Suspension{Seq: store.Seq(len(m.entries)), Awaited: ids}
	if i := m.next(); i >= 0 {
		e := m.take(i)
		m.last = nil
		if e.Kind == store.KindCancel {
			m.cancelled = true
			return m.interrupt(abi.Errorf(abi.Cancelled, "the run was asked to cancel"), ids), nil
		}
		return e.Handle, nil
	}
	if err := m.beforeSuspend(); err != nil {
		return 0, err
	}
	if m.cfg.Mode == Body && m.cfg.BodiesEvent && (len(ids) == 0 || slices.Contains(ids, m.cfg.Handle)) {
		m.enterBody()
		m.last = binary.LittleEndian.AppendUint64(nil, uint64(m.cfg.Handle))
		return abi.RunBody.Neg(), nil
	}
	if m.cfg.Mode == Query && !m.query {
		m.query = true
		return m.interrupt(abi.Errorf(abi.Query, "%s", m.cfg.Query.Name), ids), nil
	}
	return 0, ErrSuspend
}

// interrupt refuses an await that a cancel or a query ended. If the guest awaited one handle, as in a blocking call, the error
// has that handle: the guest has not seen it, and it is still open.
func (m *Machine) interrupt(e *abi.Error, awaited []int64) int64 {
	if len(awaited) == 1 && m.cfg.Started.Rules >= journal.RulesHandle {
		e.Handle = awaited[0]
	}
	return m.refuse(e)
}

// waits must be called when the guest begins to wait.
func (m *Machine) waits() {
	m.refresh()
	m.move(0, math.MaxUint32)
	m.resting = true
	if m.cfg.OnWait != nil {
		m.cfg.OnWait(m.consumed)
	}
}

// beforeSuspend returns a *Mismatch if the guest is about to suspend and has not made all recorded calls.
func (m *Machine) beforeSuspend() error {
	m.beyond = true
	if e := m.nextCall(); e != nil {
		return &Mismatch{Seq: e.Seq, Want: describe(e), Got: "a wait for something that has not happened"}
	}
	return nil
}

// PollRequest is the relevant part of a poll_oneoff: whether it includes the events descriptor, and its earliest clock in
// nanoseconds from now on the guest's clock (zero or less: due).
type PollRequest struct {
	Events    bool
	HasClock  bool
	TimeoutNs int64
}

// PollAnswer is the subscription of a poll that has an event.
type PollAnswer uint8

// The answers of Poll.
const (
	PollNone PollAnswer = iota
	PollClock
	PollEvents
)

// Poll is the suspension point of a guest that waits in poll_oneoff. On ErrBodyWait, the caller must wait for the time-out in
// real time and repeat the call with the remaining time.
func (m *Machine) Poll(p PollRequest) (PollAnswer, error) {
	switch {
	case p.HasClock && p.TimeoutNs <= 0: // a check without waiting: takes no delivery
		return PollClock, nil
	case p.Events && len(m.events) > 0:
		return PollEvents, nil
	case m.inBody:
		return PollNone, ErrBodyWait
	case m.query: // a query must be answered without waiting
		return PollNone, ErrSuspend
	case p.HasClock && !p.Events && p.TimeoutNs <= 1e6 && m.tickNs+p.TimeoutNs <= int64(abi.MaxPollTickTime):
		m.tickNs += p.TimeoutNs
		return PollClock, nil
	}
	if p.HasClock {
		m.read()
	}
	return m.poll(p, m.monoMs)
}

// poll waits for the subscriptions of p. monoMs is the monotonic clock when the poll began.
func (m *Machine) poll(p PollRequest, monoMs int64) (PollAnswer, error) {
	m.waits()
	m.suspension = store.Suspension{Seq: store.Seq(len(m.entries)), Poll: true, Events: p.Events}
	if p.HasClock {
		ms := p.TimeoutNs / 1e6
		if p.TimeoutNs%1e6 > 0 { // never early
			ms++
		}
		ms = max(ms-(m.monoMs-monoMs), 0) // minus the time since then, if the clock was set meanwhile
		m.suspension.PollDue, m.suspension.PollDueUnixMs = true, min(m.hostMs+ms, abi.MaxUnixMs)
	}
	if i := m.next(); i >= 0 {
		return m.deliver(i)
	}
	if err := m.beforeSuspend(); err != nil {
		return PollNone, err
	}
	if p.HasClock && m.wasSet() {
		return m.poll(p, monoMs)
	}
	if m.dumped && p.HasClock {
		return PollNone, fmt.Errorf("%w; it was asked for its stacks, and went on to wait for a clock", ErrDeadlock)
	}
	if m.cfg.Mode == Body && m.cfg.BodiesEvent && p.Events {
		m.enterBody()
		m.events = append(m.events, abi.PackEvent(abi.EventRunBody, m.cfg.Handle))
		return PollEvents, nil
	}
	if m.cfg.Mode == Query && p.Events && !m.query {
		m.query = true
		m.events = append(m.events, abi.PackEvent(abi.EventQuery, 0))
		return PollEvents, nil
	}
	return PollNone, ErrSuspend
}

func (m *Machine) deliver(i int) (PollAnswer, error) {
	e := m.take(i)
	switch e.Kind {
	case store.KindClock:
		if !m.suspension.PollDue {
			return PollNone, &Mismatch{Seq: e.Seq, Want: "a poll with a clock", Got: "a poll without one"}
		}
		return PollClock, nil
	case store.KindCancel:
		m.cancelled = true
		m.events = append(m.events, abi.PackEvent(abi.EventCancel, 0))
	default:
		m.events = append(m.events, abi.PackEvent(abi.EventResolved, e.Handle))
	}
	return PollEvents, nil
}

// NextEvent removes and returns the next event, 0 if there is none.
func (m *Machine) NextEvent() int64 {
	if len(m.events) == 0 {
		return 0
	}
	e := m.events[0]
	m.events = m.events[1:]
	return e
}

// ErrDeadlock: the guest waits for an event that can never come. After Dump, it also means that the guest did
// something other than wait for an event or return.
var ErrDeadlock = errors.New("deadlock: the workflow waits for something that can never come")

// Dump asks a deadlocked guest to report its stacks, once. It returns false if the guest does not listen for events or was asked
// before.
func (m *Machine) Dump() bool {
	if m.dumped || !m.suspension.Poll || !m.suspension.Events {
		return false
	}
	m.dumped = true
	m.events = append(m.events, abi.PackEvent(abi.EventDump, 0))
	return true
}

// next returns the index of the first delivery in journal order that the waiting guest takes, or -1. It depends only on the
// order of the journal and on what this guest started, took and withdrew.
func (m *Machine) next() int {
	m.skipOver()
	s := &m.suspension
	picky := s.Poll && !s.Events || !s.Poll && len(s.Awaited) > 0 // it may leave many deliveries untaken
	passed := 0
	for i := m.delPos; i < len(m.entries); i++ {
		e := &m.entries[i]
		if m.over(i) {
			continue
		}
		passed++
		if picky && passed > fewLeft {
			return m.arrivals.first(m, s)
		}
		switch {
		case e.Kind == store.KindCancel:
			if !s.Poll || s.Events {
				return i
			}
		case e.Kind == store.KindClock:
			if s.Poll {
				return i
			}
		case m.handle(e.Handle) == nil: // the guest has not made its call yet
		case s.Poll && s.Events, !s.Poll && (len(s.Awaited) == 0 || slices.Contains(s.Awaited, e.Handle)):
			return i
		}
	}
	return -1
}

// skipOver moves delPos to the first delivery that the guest may still take.
func (m *Machine) skipOver() {
	for m.delPos < len(m.entries) && m.over(m.delPos) {
		m.delPos++
	}
}

// over reports whether the entry at i is not a delivery, or the guest took it or can never take it.
func (m *Machine) over(i int) bool {
	e := &m.entries[i]
	if !e.Kind.Delivery() {
		return true
	}
	if e.Handle == 0 {
		return m.taken[i]
	}
	h := m.handle(e.Handle)
	return h != nil && (h.seen || h.withdrawn)
}

func (m *Machine) take(i int) *store.Entry {
	e := &m.entries[i]
	m.consumed++
	m.beyond = m.beyond || m.cfg.Rested > 0 && i >= int(m.cfg.Rested)
	m.position = max(m.position, e.Seq)
	m.reads, m.resting = 0, false
	if e.Kind == store.KindClock && !e.Skipped {
		m.pass(e, e.DueUnixMs, e.DueUnixMs)
	} else {
		m.pass(e, e.UnixMs, e.HostMs())
	}
	if e.Skipped && e.HasDue {
		m.monoMs += max(e.DueUnixMs-m.hostMs, 0)
	}
	if e.Handle == 0 {
		if m.taken == nil {
			m.taken = map[int]bool{}
		}
		m.taken[i] = true
		return e
	}
	h := m.handle(e.Handle)
	h.seen, h.delivery = true, i
	m.open.add(h.kind, -1)
	return e
}
