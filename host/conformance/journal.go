package conformance

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// madeToken replaces the tokens of hooks that a host has made, which differ in each run.
const madeToken = "(made by the host)"

// text formats a journal with one line per entry. It omits or normalizes what may differ between SDKs without any
// effect on a workflow; docs/reference/conformance.md lists it.
func text(entries []store.Entry) string {
	var b strings.Builder
	began := int64(0)
	if len(entries) > 0 {
		began = entries[0].UnixMs
	}
	for i, e := range sorted(entries) {
		fmt.Fprintf(&b, "%3d  %s\n", i, line(&e, began))
	}
	return b.String()
}

// sorted sorts the outcomes of attempts that ended at the same instant by their handles, since their order depends on
// the machine.
func sorted(entries []store.Entry) []store.Entry {
	list := slices.Clone(entries)
	for i := 0; i < len(list); i++ {
		n := i
		for n < len(list) && outcome(list[n].Kind) && list[n].UnixMs == list[i].UnixMs {
			n++
		}
		if n > i {
			slices.SortStableFunc(list[i:n], func(a, b store.Entry) int { return cmp.Compare(a.Handle, b.Handle) })
			i = n - 1
		}
	}
	return list
}

// outcome reports whether entries of a kind record the beginning or the end of an attempt.
func outcome(k store.Kind) bool {
	return slices.Contains([]store.Kind{store.KindAttemptStarted, store.KindAttemptFailed, store.KindStepResult,
		store.KindStepFailure}, k)
}

// line formats an entry. Instants are milliseconds since the run's start.
func line(e *store.Entry, began int64) string {
	parts := []string{fmt.Sprintf("+%-8d %-15s", e.UnixMs-began, e.Kind)}
	add := func(name string, v any) { parts = append(parts, fmt.Sprintf("%s=%v", name, v)) }
	if e.Handle != 0 {
		add("handle", e.Handle)
	}
	if e.Kind.Call() {
		add("consumed", e.Consumed)
	}
	if e.Name != "" {
		add("name", quoted([]byte(e.Name)))
	}
	if e.Target != "" {
		add("target", quoted([]byte(e.Target)))
	}
	if len(e.Input) > 0 {
		add("input", quoted(e.Input))
	}
	if options := optionsOf(e); options != "" {
		add("options", options)
	}
	if e.Refused != 0 {
		add("refused", abi.Code(e.Refused))
	}
	if e.Code != 0 {
		add("code", e.Code)
	}
	if e.Attempt != 0 {
		add("attempt", e.Attempt)
	}
	if e.HasDue {
		add("due", fmt.Sprintf("%+d", e.DueUnixMs-began))
	}
	if e.Ref != 0 {
		add("ref", e.Ref)
	}
	if data := dataOf(e); data != "" {
		add("data", data)
	}
	return strings.TrimRight(strings.Join(parts, " "), " ")
}

// quoted formats UTF-8 as a JSON string, and other bytes in hexadecimal.
func quoted(b []byte) string {
	if !utf8.Valid(b) {
		return fmt.Sprintf("hex:%x", b)
	}
	return fmt.Sprintf("%q", b)
}

// optionsOf formats the meaning of a call's options, whatever their text.
func optionsOf(e *store.Entry) string {
	switch e.Kind {
	case store.KindStarted: // versions, instants and the host's notes
		return ""
	case store.KindStep, store.KindBody:
		if o, err := abi.ParseStepOptions(e.Options); err == nil {
			return changedOptions(o)
		}
	case store.KindSignalSend: // the signal's name
		return quoted(e.Options)
	}
	if len(e.Options) == 0 {
		return ""
	}
	var fields map[string]any
	if json.Unmarshal(e.Options, &fields) != nil {
		return quoted(e.Options)
	}
	for name, v := range fields {
		if s, ok := v.(string); ok && name == "timeout" {
			if ms, err := abi.ParseDuration(s); err == nil {
				fields[name] = abi.FormatDuration(ms)
			}
		}
	}
	b, _ := json.Marshal(fields) // it was JSON
	return string(b)
}

// changedOptions formats the options of a step that differ from the default.
func changedOptions(o abi.StepOptions) string {
	var all, usual map[string]json.RawMessage
	if json.Unmarshal(o.JSON(), &all) != nil {
		return ""
	}
	standard, err := abi.ParseStepOptions(nil)
	if err != nil || json.Unmarshal(standard.JSON(), &usual) != nil {
		return ""
	}
	for name, v := range usual {
		if bytes.Equal(all[name], v) {
			delete(all, name)
		}
	}
	if len(all) == 0 {
		return ""
	}
	b, _ := json.Marshal(all) // it was JSON
	return string(b)
}

// dataOf formats the data of an entry. Of errors it has only the parts that are the same in all languages.
func dataOf(e *store.Entry) string {
	switch {
	case len(e.Data) == 0:
		return ""
	case e.Kind == store.KindHook && e.Target == "" && e.Refused == 0:
		return madeToken
	case e.Refused != 0, e.Kind == store.KindAttemptFailed, e.Kind == store.KindStepFailure, e.Kind == store.KindChildFailure,
		e.Kind == store.KindFailed, e.Kind == store.KindCancelled, e.Kind == store.KindUpdateReply && e.Code != 0:
		return errorText(e.Data)
	}
	return quoted(e.Data)
}

// errorText formats an error without its type and its details, which depend on the language: the name of a type, a
// stack.
func errorText(b []byte) string {
	var fields map[string]any
	if json.Unmarshal(b, &fields) != nil {
		return quoted(b)
	}
	for _, name := range []string{"type", "details", "stack"} {
		delete(fields, name)
	}
	b, _ = json.Marshal(fields) // it was JSON
	return string(b)
}
