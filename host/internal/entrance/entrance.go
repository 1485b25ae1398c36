// Package entrance is where activations wait before they have an instance: for a place among the guests, and for room in the
// memory for journals.
package entrance

import (
	"context"
	"sync/atomic"

	"github.com/wfhost/wfhost/host/internal/admission"
	"github.com/wfhost/wfhost/host/internal/room"
)

// Guest is an activation that has no instance yet. Its fields are set before Ask, and do not change.
type Guest struct {
	Places  *admission.Admission
	Request *admission.Request
	Share   *room.Share
	// Ends ends with the activation, and Draining reports whether no further one begins.
	Ends     context.Context
	Draining func() bool

	asked atomic.Int64         // how often it has waited for room
	turn  atomic.Pointer[turn] // the newest
	let   atomic.Bool          // it has waited for room, and goes on now
}

// turn is the wait for room of that number.
type turn struct {
	number int64
	*room.Turn
}

// Ask has the guest let in when there is a place for it. grows says that it has given an instance up because there was no room
// for its journal to become longer: then it waits for that first.
func (g *Guest) Ask(grows bool) {
	if !grows {
		g.enter()
		return
	}
	g.wait(g.Share.Ask)
}

// enter asks for a place.
func (g *Guest) enter() {
	g.Places.Ask(g.Request)
	if g.over() {
		g.Request.Withdraw()
	}
}

// wait asks for a place when there is room for the journal.
func (g *Guest) wait(ask func(begin, refuse func()) *room.Turn) {
	now := &turn{number: g.asked.Add(1)}
	now.Turn = ask(func() {
		g.let.Store(true)
		g.enter()
	}, g.Request.Refuse)
	if now.Turn == nil {
		g.enter()
		return
	}
	for was := g.turn.Load(); was == nil || was.number < now.number; was = g.turn.Load() { // it may have begun, and wait again
		if g.turn.CompareAndSwap(was, now) {
			break
		}
	}
	if g.over() {
		g.Withdraw()
	}
}

func (g *Guest) over() bool { return g.Ends.Err() != nil || g.Draining() }

// Barred gives the place up of a guest that was let in, if the journal of its run may not become longer for now, and reports
// whether it did. Then it asks for a place again later. starts says that the run has not begun.
func (g *Guest) Barred(starts bool) bool {
	if g.let.Swap(false) || g.Share.MayBegin(starts) {
		return false
	}
	g.Request.Place.Leave()
	g.wait(func(begin, refuse func()) *room.Turn { return g.Share.Hold(starts, begin, refuse) })
	return true
}

// Withdraw refuses the guest if it still waits.
func (g *Guest) Withdraw() {
	g.Request.Withdraw()
	if t := g.turn.Load(); t != nil && t.Withdraw() {
		g.Request.Refuse()
	}
}
