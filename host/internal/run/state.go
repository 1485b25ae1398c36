package run

import (
	"encoding/json"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// MaxFailure bounds the error message in the state of a failed run, in characters. Lists show it; the journal has the
// whole message.
const MaxFailure = 300

// View returns the state that the next commit writes. The caller derives status, reason and wake from more than the
// record.
func (r *Record) View(now int64, status store.Status, reason string, wake int64) store.RunState {
	st := r.State
	st.UpdatedUnixMs = now
	st.Length = store.Seq(r.Journal.Len())
	st.Iteration, st.Version, st.Module = r.Iteration, r.Version, r.Module
	st.Output, st.Attributes = r.Journal.Output(), r.Journal.Attributes()
	st.Memo = string(r.Journal.Started().Memo)
	st.JournalBytes, st.Aside = r.Journal.Bytes(), r.Journal.Aside()
	st.LogLines, st.LogRecords = r.Log.lines, r.Log.records
	if at, ok := r.Journal.StartedUnixMs(); ok && st.StartedUnixMs == 0 { // otherwise an earlier iteration began before
		st.StartedUnixMs = at
	}
	st.Suspension, st.Rested = store.Suspension{}, 0
	switch s, ok := r.Journal.Suspension(); {
	case ok:
		st.Suspension = s
	case status == store.Running || status == store.Queued: // Load sees that the guest must return to this wait
		st.Suspension.Seq = s.Seq
	default:
		st.Rested = s.Seq
	}
	st.Status, st.Reason, st.WakeUnixMs = status, reason, wake
	if st.Status.Terminal() {
		st.EndedUnixMs = r.Journal.LastHostMs() // retention counts from here, even if the clock was ahead for a moment before
		st.Suspension, st.Rested, st.Slot = store.Suspension{}, 0, store.SlotNone
	}
	return st
}

// mayHaveBegun returns RunState.MayHaveBegun of a run of which no attempt is in flight.
func (r *Record) mayHaveBegun() store.Seq {
	steps := r.Journal.StepsAfter(0)
	if len(steps) == 0 {
		return 0
	}
	newest := r.Journal.Handle(steps[len(steps)-1]).CallSeq
	most := store.Seq(max(r.Restored, r.givenUp))
	if most > newest {
		return 0 // any may
	}
	for h := range r.Journal.Steps {
		if h.CallSeq >= most {
			break
		}
		if NextAttemptOf(h, int(most)).Recovery && !h.Step.InFlight {
			return most + 1
		}
	}
	return 1
}

// Settled returns status and reason of a run that has ended, is stuck, set aside or paused. The reason of a failed
// run is its message. The status of other runs is 0.
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

// Failure returns the message in a JSON error, or the text itself if it has none, cut to MaxFailure characters.
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

// Asleep returns status, reason and wake of a run without a guest. If a step could begin but did not because the host
// stops, the wake is already due.
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
	case h.Step.RetryMs <= now: // it could have begun, but the host starts no new attempts
		return store.Waiting, "attempt of step " + h.Name, wake
	}
	return store.Waiting, "retry of step " + h.Name, wake
}
