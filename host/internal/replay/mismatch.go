package replay

import (
	"fmt"
	"slices"

	"github.com/wfhost/wfhost/store"
)

// Mismatch is the error for a guest that deviates from its journal. The run becomes stuck; its journal does not change.
type Mismatch struct {
	Seq  store.Seq // seq of the expected entry, or the length of the journal
	Want string    // what the journal records
	Got  string    // what the guest did
}

// Differs is the prefix of the text of a Mismatch. That text is the reason of the stuck run.
const Differs = "replay differs from the journal"

// Error describes both calls.
func (e *Mismatch) Error() string {
	return fmt.Sprintf(Differs+" at entry %d: the journal has %s, the workflow did %s", e.Seq, e.Want, e.Got)
}

func describe(e *store.Entry) string {
	text := e.Kind.String()
	if e.Name != "" {
		text += fmt.Sprintf(" %q", e.Name)
	}
	if e.Target != "" {
		text += fmt.Sprintf(" by %q", e.Target)
	}
	if ofHandle(e.Kind) {
		text += fmt.Sprintf(" of handle %d", e.Handle)
	}
	return text
}

// ofHandle reports whether calls of the kind refer to a handle that another call opened.
func ofHandle(k store.Kind) bool { return k == store.KindWithdraw || k == store.KindUpdateReply }

// compare returns a *Mismatch unless the guest's call got is the recorded call want. Unless strict, it accepts a changed input
// of a call without a handle or with a known outcome, and adds a warning.
func (m *Machine) compare(want, got *store.Entry) error {
	differ := func(w, g string) error { return &Mismatch{Seq: want.Seq, Want: w, Got: g} }
	strict := m.cfg.Strict && want.Seq >= m.cfg.Tuned
	switch {
	case want.Kind != got.Kind || want.Name != got.Name || want.Target != got.Target:
		return differ(describe(want), describe(got))
	case ofHandle(want.Kind) && want.Refused == 0 && want.Handle != got.Handle:
		return differ(describe(want), describe(got))
	case want.Kind == store.KindCancelPolicy && want.Refused == 0 && want.Code != got.Code:
		return differ(fmt.Sprintf("cancel_policy(%d)", want.Code), fmt.Sprintf("cancel_policy(%d)", got.Code))
	case want.Kind == store.KindSleep && want.Refused == 0 && strict && !m.sameDue(want, got):
		return differ(fmt.Sprintf("%s until %d", describe(want), want.DueUnixMs), fmt.Sprintf("it until %d", got.DueUnixMs))
	case want.Consumed != got.Consumed:
		return differ(fmt.Sprintf("%s after %d deliveries", describe(want), want.Consumed),
			fmt.Sprintf("it after %d", got.Consumed))
	}
	if want.Refused == 0 && opens(want.Kind) && want.Handle != int64(len(m.handles))+1 {
		return differ(fmt.Sprintf("%s as handle %d", describe(want), want.Handle),
			fmt.Sprintf("it as handle %d", len(m.handles)+1))
	}
	if want.Refused == 0 && string(want.Input) != string(got.Input) {
		if strict || want.Handle != 0 && !m.resolved(want.Handle) {
			return differ(fmt.Sprintf("%s with an input of %d bytes", describe(want), len(want.Input)),
				fmt.Sprintf("it with another input of %d bytes", len(got.Input)))
		}
		m.Warnings = append(m.Warnings, fmt.Sprintf("entry %d: the input of %s has changed", want.Seq, describe(want)))
	}
	if strict && want.Refused == 0 && !(m.sameDue(want, got) && sameRest(want, got)) {
		return differ(describe(want), "it with another deadline or option, or another answer")
	}
	return nil
}

// sameRest compares the parts of a call, apart from its deadline, that a changed workflow may change: the options, and whether
// an update failed. It ignores the version of a marker: the code may know newer versions than the code that recorded it, or older
// ones after a restart.
func sameRest(want, got *store.Entry) bool {
	return string(want.Options) == string(got.Options) &&
		(want.Kind != store.KindUpdateReply || want.Code == got.Code)
}

// resolved reports whether the journal holds the outcome of a handle.
func (m *Machine) resolved(handle int64) bool {
	return slices.ContainsFunc(m.entries, func(e store.Entry) bool { return e.Kind.Delivery() && e.Handle == handle })
}

func opens(k store.Kind) bool {
	switch k {
	case store.KindSleep, store.KindStep, store.KindBody, store.KindSignalWait, store.KindChild, store.KindHook,
		store.KindSignalSend:
		return true
	}
	return false
}

// nextCall returns the next unmatched call entry, nil at the end of the journal.
func (m *Machine) nextCall() *store.Entry {
	for m.callPos < len(m.entries) && !m.entries[m.callPos].Kind.Call() {
		m.callPos++
	}
	if m.callPos < len(m.entries) {
		return &m.entries[m.callPos]
	}
	return nil
}

// LeftOver returns a *Mismatch if the guest has returned and the journal holds calls that it did not make.
func (m *Machine) LeftOver() error {
	if m.cfg.Mode == StepFn {
		return nil
	}
	m.refresh()
	if e := m.nextCall(); e != nil {
		return &Mismatch{Seq: e.Seq, Want: describe(e), Got: "its return"}
	}
	return nil
}
