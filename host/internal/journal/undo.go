package journal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// A call may name the step or child that it undoes, in the option "undoes". SDKs set it for the compensations of a saga. Older
// SDKs and workflows that undo by hand do not. In their journals, every call after the failure or cancel that led to the end may
// have undone earlier calls.

// Undone is an effect that the workflow undid later.
type Undone struct {
	Name string    // name of the undone step or child; empty if the journal does not tell
	Seq  store.Seq // seq of its call
	By   string    // the call that undid it, such as `step "release"`
}

// UndoneBefore returns the effects of calls before cut that calls from cut on have undone, or may have undone, ordered by seq.
// If the call at cut is itself a compensation, it returns none: a caller that repeats it knows.
func (j *Journal) UndoneBefore(cut store.Seq) (list []Undone) {
	entries := j.Entries()
	if int(cut) < len(entries) && j.undoes(&entries[cut]) != "" {
		return nil
	}
	kept := j.effectsBefore(cut)
	said := false
	for i := range entries {
		e := &entries[i]
		what := j.undoes(e)
		said = said || what != ""
		if what == "" || e.Seq < cut || j.failed(e.Handle) {
			continue
		}
		if seq, ok := kept[what]; ok {
			list = append(list, Undone{what, seq, Describe(e)})
		} else if len(kept) > 0 && (what == abi.UndoesUnnamed || !j.called(what)) {
			list = append(list, Undone{By: Describe(e)})
		}
	}
	if said || len(kept) == 0 {
		slices.SortStableFunc(list, func(a, b Undone) int { return cmp.Compare(a.Seq, b.Seq) })
		return list
	}
	from := j.turned()
	if from == 0 || cut > from {
		return nil
	}
	for i := from + 1; int(i) < len(entries); i++ {
		if e := &entries[i]; outward(e) && (e.Handle == 0 || !j.failed(e.Handle)) {
			return []Undone{{By: Describe(e)}}
		}
	}
	return nil
}

// undoes returns the name of the call that e undoes, "" if e does not say.
func (j *Journal) undoes(e *store.Entry) string {
	if e.Refused != 0 || !opens[e.Kind] {
		return ""
	}
	return j.Handle(e.Handle).Undoes
}

// called reports whether there is a step or child of a name. "undoes" may name no call: the calls of a definition's map, for
// example, have other names.
func (j *Journal) called(name string) bool {
	for i := range j.handles {
		if h := &j.handles[i]; h.Name == name && (h.Step != nil || h.Kind == store.KindChild) {
			return true
		}
	}
	return false
}

// effectsBefore returns the seqs of the calls before cut that had an effect outside the run, by name.
func (j *Journal) effectsBefore(cut store.Seq) map[string]store.Seq {
	kept := map[string]store.Seq{}
	for i := range j.handles {
		h := &j.handles[i]
		if h.CallSeq >= cut {
			break
		}
		switch h.Kind {
		case store.KindStep, store.KindBody, store.KindChild, store.KindSignalSend:
			if h.Resolved && !h.Refused && !j.failed(h.ID) {
				kept[h.Name] = h.CallSeq
			}
		}
	}
	return kept
}

// failed reports whether a handle resolved with a failure.
func (j *Journal) failed(handle int64) bool {
	h := j.Handle(handle)
	if h == nil || !h.Resolved {
		return false
	}
	k := j.entries[h.ResolvedSeq].Kind
	return k == store.KindStepFailure || k == store.KindChildFailure
}

// turned returns the seq of the cancel or failure that led to the end of a failed or cancelled run, or 0 if the journal does not
// tell.
func (j *Journal) turned() store.Seq {
	if j.end != store.KindFailed && j.end != store.KindCancelled {
		return 0
	}
	entries := j.Entries()
	for i := range entries {
		if entries[i].Kind == store.KindCancel {
			return entries[i].Seq
		}
	}
	if failures := j.failures(); j.end == store.KindFailed && len(failures) > 0 {
		return failures[0]
	}
	return 0
}

// Describe returns a call's kind and name for messages, such as `step "charge"`.
func Describe(e *store.Entry) string {
	return strings.TrimSuffix(fmt.Sprintf("%s %q", e.Kind, e.Name), ` ""`)
}
