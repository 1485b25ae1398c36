package run

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/store"
)

// WaitsForSlot reports whether limits of the workflow hold the run back.
func (r *Record) WaitsForSlot() bool {
	return r.Journal.Started().Limit != nil && r.State.Slot != store.SlotHolds
}

// AskSlot has the run ask for a slot with the next commit, if it needs one: when it comes to its start, and after a retry.
func (r *Record) AskSlot(now int64) {
	if r.Journal.Started().Limit == nil || r.State.Slot != store.SlotNone || r.StartsAt() > now {
		return
	}
	ask := r.Sender().AskSlot(r.Journal)
	r.Draft.ask, r.State.Slot = &ask, store.SlotAsked
}

// LeaveQueue has a run that is about to be paused stand in nobody's way: it reports whether the run waits for a slot, or has one
// with which it has not begun. The run asks again when it goes on.
func (r *Record) LeaveQueue() bool {
	waits := r.State.Slot == store.SlotAsked || r.State.Slot == store.SlotHolds && !r.Begun() && r.Iteration == 0
	if r.Journal.Started().Limit == nil || !waits {
		return false
	}
	r.State.Slot = store.SlotNone
	return true
}

// TakeSlot gives the run a slot by the command that answers its ask. An answer to an ask before the run's last end comes too
// late: the end has returned that slot.
func (r *Record) TakeSlot(give store.CommandID) {
	if r.State.Slot == store.SlotAsked && r.Sender().Gives(r.Journal, give) {
		r.State.Slot = store.SlotHolds
	}
}

// Queued returns the status of a run that waits for a slot. Its deadline may end it.
func (r *Record) Queued() (store.Status, string, int64) {
	at, ok := r.Journal.Wake()
	if !ok {
		at = store.NoWake
	}
	keys := r.Journal.Started().Limit.Keys
	var with []string
	for _, path := range slices.Sorted(maps.Keys(keys)) {
		with = append(with, fmt.Sprintf("%s = %s", path, keys[path]))
	}
	if len(with) == 0 {
		return store.Waiting, "a slot", at
	}
	return store.Waiting, "a slot with " + strings.Join(with, ", "), at
}
