package handler

import (
	"context"

	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// Limiter decides when the attempts of handlers with limits may have a place. Its methods may be called concurrently.
type Limiter interface {
	// Limited reports whether a handler has limits in a namespace. known is false until Load has read the limits of the
	// namespace.
	Limited(ns store.NamespaceID, handler string) (limited, known bool)
	// Load reads the limits of a namespace, unless they were read before.
	Load(ctx context.Context, ns store.NamespaceID) error
	// Enter asks for a slot of a handler. With the verdict run.Begins the attempt holds the slot, or needs none if s is
	// nil. With run.Queues the attempt waits. With run.Soon this is not known yet, and e is called later.
	Enter(a run.Ask, e Entrant) (s Slot, v run.Verdict)
	// SetDraining sets whether the host is about to stop. While it is, no attempt gets a slot.
	SetDraining(draining bool)
	// Next returns when the passing of time alone may give a waiting attempt a slot, and false if there is no such
	// instant.
	Next() (unixMs int64, ok bool)
}

// Entrant is an attempt that has asked for a slot. The Limiter calls its methods without holding locks, except Wakes.
type Entrant interface {
	// Wakes reports that nothing blocks the attempt any more: Admit or Queued follows.
	Wakes()
	// Admit gives the attempt its slot. If s is nil, the limits have changed: it needs none, or must ask again.
	Admit(s Slot)
	// Queued reports that the attempt waits, after the verdict run.Soon or Wakes.
	Queued()
}

// SlotWaits describes an attempt that waits for a slot.
type SlotWaits struct {
	Step   string
	Limit  string // the limit that it waits for; empty if it is about to get its slot
	Others int    // other attempts of the handler that wait
}

// Slot is what an attempt holds or waits for.
type Slot interface {
	// Waits describes an attempt that waits for the slot.
	Waits() SlotWaits
	// Counts reports whether the current limits count the attempt, which has the slot: they may have changed.
	Counts() bool
	// Begins is called when the attempt begins, with an input that must not be changed.
	Begins(input []byte)
	// Return returns the slot. An attempt that waits for it stops waiting.
	Return()
}

// Activity counts work in progress.
type Activity interface {
	Begin()
	Done()
}
