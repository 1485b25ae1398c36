package run

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/store"
)

// WaitsForSlot reports whether a limit of the workflow holds the run back.
func (r *Record) WaitsForSlot() bool {
	return r.Journal.Started().Limit != nil && r.State.Slot != store.SlotHolds
}

// AskSlot makes the next commit ask for a slot if the run needs one: at its start, after a retry, and after it left
// the queue.
func (r *Record) AskSlot(now int64) {
	if r.Journal.Started().Limit == nil || r.State.Slot != store.SlotNone || r.StartsAt() > now {
		return
	}
	ask := r.Sender().AskSlot(r.Journal)
	r.Draft.ask, r.State.Slot = &ask, store.SlotAsked
}

// LeaveQueue gives up the slot of a run that is about to be paused, if the run waits for a slot or has not begun with
// it. It reports whether it did. The run asks again when it is unpaused.
func (r *Record) LeaveQueue() bool {
	waits := r.State.Slot == store.SlotAsked || r.State.Slot == store.SlotHolds && !r.Begun() && r.Iteration == 0
	if r.Journal.Started().Limit == nil || !waits {
		return false
	}
	r.State.Slot = store.SlotNone
	return true
}

// TakeSlot takes the slot that answers the run's ask. An answer to an ask from before the run's last end comes too
// late: the end has returned that slot.
func (r *Record) TakeSlot(give store.CommandID) {
	if r.State.Slot == store.SlotAsked && r.Sender().Gives(r.Journal, give) {
		r.State.Slot = store.SlotHolds
	}
}

// Queued returns status, reason and wake of a run that waits for a slot. Its deadline may end it meanwhile.
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
