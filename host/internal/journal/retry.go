package journal

import (
	"encoding/json"
	"slices"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// RetryFrom gives the entry from which a retry voids the journal: the failure that led to the end. A failure of
// the workflow that names a step or child voids from that one's failure; otherwise the failures that nothing good
// came after are void; where there is none, as after a trap, only the end is.
func (j *Journal) RetryFrom() store.Seq {
	entries := j.Entries()
	end := store.Seq(len(entries))
	if j.end == store.KindInvalid {
		return end
	}
	end--
	var failed struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(entries[end].Data, &failed) // not JSON, or none: no name
	from := end
	for i := len(entries) - 2; i > 0; i-- {
		e := &entries[i]
		if !e.Kind.Delivery() {
			continue
		}
		bad := e.Kind == store.KindStepFailure || e.Kind == store.KindChildFailure
		if bad && failed.Name != "" && j.Handle(e.Handle).Name == failed.Name {
			return e.Seq
		}
		if failed.Name == "" {
			if !bad {
				break
			}
			from = e.Seq
		}
	}
	return from
}

// foldRetried makes the entries from e.Ref on void: the state becomes that of the entries before, and what is open
// then gets new attempts.
func (j *Journal) foldRetried(e *store.Entry) error {
	live := slices.Clone(j.Entries())
	for i := int(e.Ref); i < len(live); i++ {
		live[i] = store.Entry{Seq: live[i].Seq, UnixMs: live[i].UnixMs}
	}
	again := &Journal{}
	for i := range live[:e.Ref] {
		x := live[i]
		if x.Kind == store.KindInvalid {
			again.entries = append(again.entries, x)
			continue
		}
		if err := again.apply(&x); err != nil {
			return illegal("a retry from entry %d: %v", e.Ref, err)
		}
	}
	again.entries, again.live, again.bytes = j.entries, live, j.bytes
	for _, id := range again.open {
		if s := again.Handle(id).Step; s != nil {
			s.Base, s.InFlight, s.Recoveries, s.Failures, s.RetryMs = s.Attempt, false, 0, 0, 0
		}
	}
	again.paused = j.paused
	again.started.DeadlineUnixMs = 0 // who retries gives it time
	*j = *again
	return nil
}

// OpenChildren gives the open children, in call order, with what becomes of them when the run ends.
func (j *Journal) OpenChildren() (list []Handle) {
	for _, id := range j.open {
		if h := j.Handle(id); h.Kind == store.KindChild && h.OnEnd != abi.OnEndAbandon {
			list = append(list, *h)
		}
	}
	return list
}

// Hooks gives the hooks whose tokens were chosen by the workflow, in call order: they are held until the end.
func (j *Journal) Hooks() (list []Handle) {
	for i := range j.handles {
		if h := &j.handles[i]; h.Kind == store.KindHook && h.Target != "" {
			list = append(list, *h)
		}
	}
	return list
}

// Hook gives the open hook, one that holds its token, with a token; nil if there is none.
func (j *Journal) Hook(token string) *Handle {
	if j.end != store.KindInvalid {
		return nil
	}
	for i := range j.handles {
		h := &j.handles[i]
		if h.Kind == store.KindHook && h.Token == token && !h.Withdrawn && h.Resolved && !h.Refused {
			return h
		}
	}
	return nil
}
