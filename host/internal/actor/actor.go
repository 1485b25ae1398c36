// Package actor is one run in memory. Events happen to it one after the other: those that come before it was read, or while
// its guest has it, wait in its mail. What comes of an event happens at once if it needs nothing durable, and else when the
// commit is durable that the event has led to:
//
//	after       waits for the next commit that is prepared
//	prepared    the commit, which was made while the guest yielded or for a batch, with what waits for it
//	flying      the commit before, which is on its way, with what waits for that
//
// An Actor is used by one goroutine. It knows nothing of other runs, nor of what it is part of: that is its Home.
package actor

import (
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// Port does what is needed of guests and attempts. Its methods return at once and do not call the actor.
type Port interface {
	// Order tells a guest that waits what to do.
	Order(l *run.Lease, o run.Order)
	// Yield asks a guest that computes to yield at its next call, or within a grant of fuel.
	Yield(l *run.Lease)
	// Halt ends a guest at its next call, or within a grant of fuel. No order will come, and no event is looked at.
	Halt(l *run.Lease, cause error)
	// Start starts an attempt. What led to it is durable.
	Start(a *run.Attempt)
	// Tell tells an attempt that the workflow has cancelled it. Its outcome is waited for.
	Tell(a *run.Attempt)
	// Drop stops an attempt whose outcome nobody waits for. It may go on for a while.
	Drop(a *run.Attempt)
}

// Home is where an actor lives. It is told of what is not the run's alone.
type Home interface {
	// Created says that the run was made, and that its first activation is asked for.
	Created()
	// Activate asks for a place for a guest. There may be none: then the home steps run.Refused.
	Activate(now int64, l *run.Lease)
	// Misses says that the run waits for a handler.
	Misses(name string)
	// Happened is told of what people may want to know of a step.
	Happened(fx *run.Effects)
	// Prepared says that there is a commit.
	Prepared()
	// Replaced says that a new run takes the place of one that has ended.
	Replaced()
	// Stuck says that it is durable that the run was left to a person.
	Stuck(st *store.RunState)
}

// Actor is a run in memory.
type Actor struct {
	Key store.RunKey
	Run *run.Run // nil until it was read

	SteppedMs int64 // the instant of its newest step

	port Port
	home Home

	mail     []Mail
	yielding bool // its guest was asked to yield

	after    []done           // waits for the next commit that is prepared
	urgent   bool             // somebody waits for that
	touched  bool             // something has happened to it since its commit was prepared
	prepared *store.RunCommit // goes with the next batch
	prepDone []done
	flying   bool // a commit of it is on its way
	flyDone  []done
}

// New returns an actor whose run is still to be read.
func New(port Port, home Home, key store.RunKey) Actor {
	return Actor{Key: key, port: port, home: home}
}

// Deliver lets an event happen, or wait.
func (a *Actor) Deliver(now int64, m Mail) {
	if a.Run == nil || a.Run.Lent() {
		a.mail = append(a.mail, m)
	} else {
		a.Step(now, m)
	}
}

// Drain lets what has waited for the run happen.
func (a *Actor) Drain(now int64) {
	for len(a.mail) > 0 && !a.Run.Lent() {
		m := a.mail[0]
		a.mail = a.mail[1:]
		a.Step(now, m)
	}
}

// TakeBack takes the run back from its guest, which brings an event, and lets what came meanwhile happen.
func (a *Actor) TakeBack(now int64, l *run.Lease, ev run.Event) {
	a.yielding = false
	if fx := a.Run.TakeBack(l); fx != nil {
		a.apply(now, fx, Mail{})
	}
	a.Drain(now)
	if ends, ok := ev.(run.GuestEnds); ok && ends.End.Grows { // it waits for long before it goes on
		a.urgent = true
	}
	if _, yields := ev.(run.GuestYields); yields && a.prepared == nil {
		a.prepare(now)
	}
}

// Step lets an event happen to a run that was read, and is not lent.
func (a *Actor) Step(now int64, m Mail) {
	a.touched, a.SteppedMs = true, now
	a.apply(now, a.Run.Step(now, m.Event), m)
}

// apply does what needs nothing durable of the effects of a step, and keeps the rest until it is.
func (a *Actor) apply(now int64, fx *run.Effects, m Mail) {
	for _, attempt := range fx.Drop {
		a.port.Drop(attempt)
	}
	for _, attempt := range fx.Tell {
		a.port.Tell(attempt)
	}
	for _, o := range fx.Orders {
		a.port.Order(o.Lease, o.Order)
	}
	for _, name := range fx.Missing {
		a.home.Misses(name)
	}
	a.home.Happened(fx)
	rest := *fx // there may be another step now
	if rest.Activate != nil {
		a.home.Activate(now, rest.Activate)
	}
	if rest.Answer.Created && a.Run.Running() { // its first activation brings more
		a.home.Created()
	} else if m.Reply != nil && !m.Early || len(rest.Start) > 0 || rest.Again {
		a.urgent = true
	}
	a.keep(&rest, m)
}

// Hurry has a run committed of which nothing is durable or on its way, and reports whether it is one.
func (a *Actor) Hurry() bool {
	fresh := a.Run.Fresh()
	a.urgent = a.urgent || fresh
	return fresh
}

// AskToYield asks the guest, which has the run, to yield if somebody waits for the run.
func (a *Actor) AskToYield() {
	if !a.yielding && (len(a.mail) > 0 || a.urgent && a.prepared == nil) {
		a.yielding = true
		a.port.Yield(a.Run.Lease())
	}
}

// Working reports whether something goes on with the run that comes to an end by itself: it is read, a guest computes or
// is to, or it is committed. A guest that waits for an attempt does not count.
func (a *Actor) Working() bool {
	return a.Run == nil || len(a.mail) > 0 || a.flying || a.prepared != nil || len(a.after) > 0 || a.Run.Computes()
}

// AtRest reports whether the run may be dropped without a loss.
func (a *Actor) AtRest() bool {
	return a.Run != nil && !a.Run.Lent() && len(a.mail) == 0 && len(a.after) == 0 && a.prepared == nil &&
		!a.flying && a.Run.AtRest()
}

// Running reports whether a guest of the run is there, or an attempt of a step goes on.
func (a *Actor) Running() bool { return a.Run != nil && (a.Run.Lent() || a.Run.Running()) }

// What a run in memory and an entry of its journal take beside payloads and names, about: the sizes of their structures.
const (
	actorBytes = 2048
	entryBytes = 320
)

// Size returns what the actor of a run that was read takes, about.
func (a *Actor) Size() int64 {
	j := a.Run.Journal()
	return actorBytes + j.Bytes() + int64(j.Len())*entryBytes
}

// Refuse answers those who wait for a run that cannot be read. It reports whether one of them is an event that nobody waits
// for, as a wake is.
func (a *Actor) Refuse(err error) (unheard bool) {
	waiting := a.mail
	a.mail = nil
	for _, m := range waiting {
		m.Refuse(err)
		unheard = unheard || m.Reply == nil
	}
	return unheard
}

// Lose ends everything that goes on with the run. Those who wait for it are told why.
func (a *Actor) Lose(err error) {
	if a.Run != nil {
		if l := a.Run.Lease(); l != nil {
			a.port.Halt(l, err)
		}
		for _, attempt := range a.Run.Attempts() {
			a.port.Drop(attempt)
		}
	}
	for _, list := range [][]done{a.flyDone, a.prepDone, a.after} {
		for _, d := range list {
			d.refuse(err)
		}
	}
	for _, m := range a.mail {
		m.Refuse(err)
	}
	a.mail, a.after, a.prepDone, a.flyDone = nil, nil, nil, nil
}
