package run

import (
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
	st.Suspension, st.Rested = store.Suspension{}, 0
	switch s, ok := r.Journal.Suspension(); {
	case ok:
		st.Suspension = s
	case status == store.Running || status == store.Queued: // of which Load knows that the guest has to come there anew
		st.Suspension.Seq = s.Seq
	default:
		st.Rested = s.Seq
	}
	st.Status, st.Reason, st.WakeUnixMs = status, reason, wake
	if st.Status.Terminal() {
		st.EndedUnixMs = r.Journal.LastHostMs() // from which it is kept: not that of a clock that was ahead for a moment
		st.Suspension, st.Rested, st.Slot = store.Suspension{}, 0, store.SlotNone
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
	if n, all := r.Journal.Delayed(now); !all || n < r.Journal.OpenSteps() {
		for h := range r.Journal.Steps {
			if s := h.Step; s.RetryMs <= now {
				at := min(max(s.RetryMs, s.FirstMs), now)
				if !ok || at < wake {
					wake, ok = at, true
				}
			}
		}
	}
	if !ok {
		wake = store.NoWake
	}
	h := r.Journal.Newest()
	if h == nil {
		return store.Sleeping, "", wake
	}
	if update, is := strings.CutPrefix(h.Name, abi.UpdatePrefix); is && h.Step == nil {
		return store.Waiting, "update " + update, wake
	}
	switch {
	case h.Step == nil:
		return store.Waiting, h.Kind.String() + " " + h.Name, wake
	case h.Step.RetryMs <= now: // it could have begun, but nothing new starts here
		return store.Waiting, "attempt of step " + h.Name, wake
	}
	return store.Waiting, "retry of step " + h.Name, wake
}
