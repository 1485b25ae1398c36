package shard

import (
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// GuestPort controls guests and attempts. Its methods return at once and do not call the actor.
type GuestPort interface {
	// Order gives a waiting guest its next order.
	Order(l *run.Lease, o run.Order)
	// Yield asks a computing guest to yield at its next call, or within a grant of fuel.
	Yield(l *run.Lease)
	// Halt ends a guest at its next call, or within a grant of fuel. The guest gets no more orders, and its events are ignored.
	Halt(l *run.Lease, cause error)
	// Start starts an attempt. Its cause is durable.
	Start(a *run.Attempt)
	// Tell tells an attempt that the workflow cancelled it. The run still waits for its outcome.
	Tell(a *run.Attempt)
	// Drop stops an attempt whose outcome is no longer needed. The attempt may continue for some time.
	Drop(a *run.Attempt)
	// Withdraw withdraws the ask of a step for a place. There may be none.
	Withdraw(key store.RunKey, handle int64)
	// WithdrawRun withdraws the asks of all steps of a run.
	WithdrawRun(key store.RunKey)
	// Return returns the place of an attempt that does not begin.
	Return(place any)
}

// owner is the owner of an actor. The actor calls it about changes that concern more than the run.
type owner interface {
	// Created reports that the run was created and has requested its first activation.
	Created()
	// Activate requests a place for a guest. If there is none, the owner applies run.Refused.
	Activate(now int64, l *run.Lease)
	// Happened reports the effects of an event, for logs and events.
	Happened(fx *run.Effects)
	// Prepared reports that a commit is prepared.
	Prepared()
	// Replaced reports that a new run replaced the ended run.
	Replaced()
	// Stuck reports that the run is stuck, durably.
	Stuck(st *store.RunState)
}

// actor is a run in memory. The run processes events one at a time. Events that arrive before the run was read, or while its
// guest has it, wait in the mail. Effects that need nothing durable happen at once. Other effects wait until the commit of their
// event is durable:
//
//	after       effects that wait for the next commit to be prepared
//	prepared    a commit, prepared when the guest yielded or for a batch, and the effects that wait for it
//	flying      the commit in flight, and the effects that wait for it
//
// An actor is used by one goroutine. It knows no other runs. It reaches its surroundings through its owner.
type actor struct {
	Key store.RunKey
	Run *run.Run // nil until the run was read

	AppliedMs int64 // instant of the newest event, in Unix milliseconds

	port  GuestPort
	owner owner

	mail     []Envelope
	yielding bool // the guest was asked to yield

	after    []afterCommit    // waits for the next commit to be prepared
	urgent   bool             // a caller or an effect waits for that commit
	touched  bool             // an event was applied since the newest commit was prepared
	prepared *store.RunCommit // goes with the next batch
	prepDone []afterCommit
	flying   bool // a commit is in flight
	flyDone  []afterCommit
}

// newActor returns an actor whose run was not read yet.
func newActor(port GuestPort, o owner, key store.RunKey) actor {
	return actor{Key: key, port: port, owner: o}
}

// Deliver applies an event to the run, or puts the event into the mail if the run was not read yet or its guest has it.
func (a *actor) Deliver(now int64, m Envelope) {
	if a.Run == nil || a.Run.Lent() {
		a.mail = append(a.mail, m)
	} else {
		a.Apply(now, m)
	}
}

// Drain applies the events of the mail until the mail is empty or a guest has the run.
func (a *actor) Drain(now int64) {
	for len(a.mail) > 0 && !a.Run.Lent() {
		m := a.mail[0]
		a.mail = a.mail[1:]
		a.Apply(now, m)
	}
}

// TakeBack takes the run back from its guest, with the guest's event, and drains the mail.
func (a *actor) TakeBack(now int64, l *run.Lease, ev run.Event) {
	a.yielding = false
	if fx := a.Run.TakeBack(l); fx != nil {
		a.perform(now, fx, Envelope{})
	}
	a.Drain(now)
	if ends, ok := ev.(run.GuestEnds); ok && ends.End.Grows { // the wait for memory for its journal may be long
		a.urgent = true
	}
	if _, yields := ev.(run.GuestYields); yields && a.prepared == nil {
		a.prepare(now)
	}
}

// Apply applies an event to the run. The run must have been read and not be lent to a guest.
func (a *actor) Apply(now int64, m Envelope) {
	a.touched, a.AppliedMs = true, now
	a.perform(now, a.Run.Apply(now, m.Event), m)
}

// perform performs the effects of an event that need nothing durable, and keeps the rest until their commit is durable.
func (a *actor) perform(now int64, fx *run.Effects, m Envelope) {
	for _, attempt := range fx.Drop {
		a.port.Drop(attempt)
	}
	for _, attempt := range fx.Tell {
		a.port.Tell(attempt)
	}
	for _, o := range fx.Orders {
		a.port.Order(o.Lease, o.Order)
	}
	for _, handle := range fx.Withdraw {
		a.port.Withdraw(a.Key, handle)
	}
	if fx.WithdrawAll {
		a.port.WithdrawRun(a.Key)
	}
	for _, place := range fx.Return {
		a.port.Return(place)
	}
	a.owner.Happened(fx)
	rest := *fx // the calls below may apply another event, which reuses fx
	if rest.Activate != nil {
		a.owner.Activate(now, rest.Activate)
	}
	if rest.Answer.Created && a.Run.Running() { // the first activation will add to the commit
		a.owner.Created()
	} else if m.Reply != nil && !m.Early || len(rest.Start) > 0 || rest.Again {
		a.urgent = true
	}
	a.keep(&rest, m)
}

// Hurry requests a commit if the run is fresh: nothing of it is durable or in flight. It reports whether the run is fresh.
func (a *actor) Hurry() bool {
	fresh := a.Run.Fresh()
	a.urgent = a.urgent || fresh
	return fresh
}

// AskToYield asks the guest that has the run to yield, once, if mail or an urgent commit waits.
func (a *actor) AskToYield() {
	if !a.yielding && (len(a.mail) > 0 || a.urgent && a.prepared == nil) {
		a.yielding = true
		a.port.Yield(a.Run.Lease())
	}
}

// Working reports whether the run has work that will end by itself: the run is being read, a guest computes or is about to, or
// events or commits are pending. A guest that waits for an attempt does not count.
func (a *actor) Working() bool {
	return a.Run == nil || len(a.mail) > 0 || a.flying || a.prepared != nil || len(a.after) > 0 || a.Run.Computes()
}

// AtRest reports whether the run may be dropped from memory without loss.
func (a *actor) AtRest() bool {
	return a.Run != nil && !a.Run.Lent() && len(a.mail) == 0 && len(a.after) == 0 && a.prepared == nil &&
		!a.flying && a.Run.AtRest()
}

// Running reports whether the run has a guest or a running attempt.
func (a *actor) Running() bool { return a.Run != nil && (a.Run.Lent() || a.Run.Running()) }

// Approximate bytes of a run in memory and of a journal entry, without payloads and names.
const (
	actorBytes = 2048
	entryBytes = 320
)

// Size returns the approximate memory of the actor in bytes. The run must have been read.
func (a *actor) Size() int64 {
	j := a.Run.Journal()
	return actorBytes + j.Bytes() + int64(j.Len())*entryBytes
}

// Refuse answers all mail of a run that cannot be read with err. unheard reports whether an event was lost without a caller that
// could repeat it: a wake, which has no reply, or an attempt that got its place.
func (a *actor) Refuse(err error) (unheard bool) {
	waiting := a.mail
	a.mail = nil
	for _, m := range waiting {
		m.Refuse(err)
		_, admitted := m.Event.(run.Admitted)
		unheard = unheard || m.Reply == nil || admitted
	}
	return unheard
}

// Lose halts the guest and the attempts of the run and answers all waiting callers with err.
func (a *actor) Lose(err error) {
	if a.Run != nil {
		if l := a.Run.Lease(); l != nil {
			a.port.Halt(l, err)
		}
		for _, attempt := range a.Run.Attempts() {
			a.port.Drop(attempt)
		}
		a.port.WithdrawRun(a.Key) // a guest may be changing what the run knows of its asks
	}
	for _, list := range [][]afterCommit{a.flyDone, a.prepDone, a.after} {
		for _, d := range list {
			d.refuse(err)
		}
	}
	for _, m := range a.mail {
		m.Refuse(err)
	}
	a.mail, a.after, a.prepDone, a.flyDone = nil, nil, nil, nil
}
