package record

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// MaxFailure bounds what the state of a failed run has of its message, in characters: lists show it, and the journal has all of
// it.
const MaxFailure = 300

// View returns the state that the next commit writes, with a status that follows from more than the record.
func (r *Record) View(now int64, status store.Status, reason string, wake int64) store.RunState {
	st := r.State
	st.UpdatedUnixMs = now
	st.Length = store.Seq(r.Journal.Len())
	st.Iteration, st.Version, st.Module = r.Iteration, r.Version, r.Module
	st.Output, st.Attributes = r.Journal.Output(), r.Journal.Attributes()
	st.Memo = string(r.Journal.Started().Memo)
	st.JournalBytes, st.Aside = r.Journal.Bytes(), r.Journal.Aside()
	st.LogLines, st.LogRecords = r.Log.lines, r.Log.records
	if at, ok := r.Journal.StartedUnixMs(); ok && st.StartedUnixMs == 0 { // else an earlier iteration began before
		st.StartedUnixMs = at
	}
	st.Suspension = store.Suspension{}
	if s, ok := r.Journal.Suspension(); ok {
		st.Suspension = s
	}
	st.Status, st.Reason, st.WakeUnixMs = status, reason, wake
	if st.Status.Terminal() {
		st.EndedUnixMs = r.Journal.LastUnixMs()
		st.Suspension, st.Slot = store.Suspension{}, store.SlotNone
	}
	return st
}

// Settled returns the status of a run that has ended, is stuck or paused, with the reason, which of a failed run is its message;
// 0 if it goes on.
func (r *Record) Settled() (store.Status, string) {
	switch r.Journal.Ended() {
	case store.KindInvalid:
	case store.KindCompleted:
		return store.Completed, ""
	case store.KindCancelled:
		return store.Cancelled, ""
	case store.KindTerminated:
		return store.Terminated, ""
	default:
		all := r.Journal.All()
		return store.Failed, Failure(all[len(all)-1].Data)
	}
	switch r.Journal.Aside() {
	case store.AsideCopy:
		return store.Paused, copied
	case store.AsideMoved:
		if r.Status == 0 {
			return store.Paused, moved
		}
	}
	if r.Status != 0 {
		return r.Status, r.Reason
	}
	if r.Journal.Paused() {
		return store.Paused, r.Reason
	}
	return 0, ""
}

// Failure returns the message of an error of JSON, or the text if it is none, cut to MaxFailure.
func Failure(text []byte) string {
	var f struct{ Message string }
	if json.Unmarshal(text, &f) != nil || f.Message == "" {
		f.Message = string(text)
	}
	if message := []rune(strings.ToValidUTF8(f.Message, "\uFFFD")); len(message) > MaxFailure {
		return string(message[:MaxFailure-1]) + "…"
	} else {
		return string(message)
	}
}

// Asleep returns what a run waits for. A step that may begin and has not, because the host stops, is due already.
func (r *Record) Asleep(now int64) (store.Status, string, int64) {
	wake, ok := r.Journal.Wake()
	for h := range r.Journal.Handles {
		if s := h.Step; s != nil && s.RetryMs <= now {
			at := min(max(s.RetryMs, s.FirstMs), now)
			if !ok || at < wake {
				wake, ok = at, true
			}
		}
	}
	if !ok {
		wake = store.NoWake
	}
	status, reason, updates := store.Sleeping, "", ""
	for h := range r.Journal.Handles {
		update, isUpdate := strings.CutPrefix(h.Name, abi.UpdatePrefix)
		switch {
		case h.Step != nil:
			status, reason = store.Waiting, "retry of step "+h.Name
			if h.Step.RetryMs <= now { // it could have begun, but nothing new starts here
				reason = "attempt of step " + h.Name
			}
		case h.Kind == store.KindSleep:
		case isUpdate: // open all the time, so that what else it waits for says more
			status, updates = store.Waiting, "update "+update
		default:
			status, reason = store.Waiting, h.Kind.String()+" "+h.Name
		}
	}
	return status, cmp.Or(reason, updates), wake
}
