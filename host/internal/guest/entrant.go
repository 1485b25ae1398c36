package guest

import (
	"context"
	"sync/atomic"

	"github.com/wfhost/wfhost/host/internal/admission"
)

// entrant is an activation that has no instance yet: it waits for a place among the guests, and for room in the memory for
// journals. Its fields are set before Ask, and do not change.
type entrant struct {
	Places  *admission.Admission
	Request *admission.Request
	Share   *admission.JournalShare
	// Ends ends with the activation, and Draining reports whether no further one begins.
	Ends     context.Context
	Draining func() bool

	asked  atomic.Int64                // how often it has waited for room
	newest atomic.Pointer[journalWait] // the newest
	let    atomic.Bool                 // it has waited for room and got it; the next Barred returns false
}

// journalWait is the wait for room of that number.
type journalWait struct {
	number int64
	*admission.JournalWait
}

// Ask has the guest let in when there is a place for it. grows says that it has given an instance up because there was no room
// for its journal to become longer: then it waits for that first.
func (g *entrant) Ask(grows bool) {
	if !grows {
		g.enter()
		return
	}
	g.wait(g.Share.AskToGrow)
}

// enter asks for a place.
func (g *entrant) enter() {
	g.Places.Ask(g.Request)
	if g.over() {
		g.Request.Withdraw()
	}
}

// wait asks for a place when there is room for the journal.
func (g *entrant) wait(ask func(begin, refuse func()) *admission.JournalWait) {
	now := &journalWait{number: g.asked.Add(1)}
	now.JournalWait = ask(func() {
		g.let.Store(true)
		g.enter()
	}, g.Request.Refuse)
	if now.JournalWait == nil {
		g.enter()
		return
	}
	for was := g.newest.Load(); was == nil || was.number < now.number; was = g.newest.Load() { // it may have begun, and wait again
		if g.newest.CompareAndSwap(was, now) {
			break
		}
	}
	if g.over() {
		g.Withdraw()
	}
}

func (g *entrant) over() bool { return g.Ends.Err() != nil || g.Draining() }

// Barred gives the place up of a guest that was let in, if the journal of its run may not become longer for now, and reports
// whether it did. Then it asks for a place again later. starts says that the run has not begun.
func (g *entrant) Barred(starts bool) bool {
	if g.let.Swap(false) || g.Share.MayBegin(starts) {
		return false
	}
	g.Request.Place.Leave()
	g.wait(func(begin, refuse func()) *admission.JournalWait { return g.Share.AskToBegin(starts, begin, refuse) })
	return true
}

// Withdraw refuses the guest if it still waits.
func (g *entrant) Withdraw() {
	g.Request.Withdraw()
	if t := g.newest.Load(); t != nil && t.Withdraw() {
		g.Request.Refuse()
	}
}
