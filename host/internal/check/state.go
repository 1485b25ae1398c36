package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// contradiction returns an error that wraps store.ErrCorrupt if a run's state contradicts its journal, or if two entries of
// the journal contradict each other. A replay does not check this.
func contradiction(st *store.RunState, j *journal.Journal) error {
	corrupt := func(format string, args ...any) error {
		return fmt.Errorf("run %q: %w: %s", st.Run.ID, store.ErrCorrupt, fmt.Sprintf(format, args...))
	}
	switch end := j.Ended(); {
	case (st.Status.Terminal() || end != store.KindInvalid) && st.Status != end.Status():
		return corrupt("its state says %s, and its journal ends with %s", st.Status, newest(j).Kind)
	case end == store.KindFailed && !strings.HasPrefix(run.Failure(newest(j).Data), strings.TrimSuffix(st.Reason, "…")):
		return corrupt("its state says that it failed by %q, and its journal by %q", st.Reason, run.Failure(newest(j).Data))
	case st.Output != j.Output():
		return corrupt("its state says that its output has %d chunks, and its journal %d", st.Output, j.Output())
	}
	c := crossed{j: j, entries: j.Entries(), output: int64(j.Started().Output)}
	for i := range c.entries {
		if why := c.wrong(&c.entries[i]); why != "" {
			return corrupt("entry %d: %s", i, why)
		}
	}
	return nil
}

// crossed compares entries with the entries that were written with them or follow from them.
type crossed struct {
	j       *journal.Journal
	entries []store.Entry
	output  int64 // least index of the next chunk of output
}

// wrong describes the contradiction in an entry, and returns "" if there is none.
func (c *crossed) wrong(e *store.Entry) string {
	if e.Refused != 0 {
		return coded(e, e.Refused)
	}
	switch e.Kind {
	case store.KindChild:
		if want := c.childID(e); want != string(e.Data) && !c.copied(e) {
			return fmt.Sprintf("the child %q has the id %q, and its call names %q", e.Name, e.Data, want)
		}
	case store.KindHook:
		if e.Target != "" && e.Target != string(e.Data) {
			return fmt.Sprintf("the hook %q has the token %q, and its call names another one", e.Name, e.Data)
		}
	case store.KindHookReady:
		if h := c.j.Handle(e.Handle); e.Code == 0 && !bytes.Equal(c.entries[h.CallSeq].Data, e.Data) {
			return fmt.Sprintf("the hook %q is ready with the token %q, which is not its own", h.Name, e.Data)
		}
		return coded(e, e.Code)
	case store.KindSignalSent:
		if e.Code == int32(abi.Conflict) && errorOf(e.Data).Code == abi.Limit { // as v0.1.0 writes it
			return ""
		}
		return coded(e, e.Code)
	case store.KindChildFailure:
		return coded(e, e.Code)
	case store.KindRetried:
		if want := firstVoid(e); want != e.Ref {
			return fmt.Sprintf("it is a retry from entry %d, and the first that it voids is %d", e.Ref, want)
		}
	case store.KindWithdraw:
		if e.Code < journal.WithdrawDone || e.Code > journal.WithdrawRunning {
			return fmt.Sprintf("a cancel of handle %d was answered by %d", e.Handle, e.Code)
		}
	case store.KindEmit:
		if int64(e.Code) < c.output {
			return fmt.Sprintf("it is chunk %d of the output, behind chunk %d", e.Code, c.output-1)
		}
		c.output = int64(e.Code) + 1
	}
	return ""
}

// firstVoid returns the first entry that a retry voids, or its own seq if it voids none. Older releases did not list them.
func firstVoid(e *store.Entry) store.Seq {
	var o struct {
		Void []store.Seq `json:"void"`
	}
	switch {
	case len(e.Options) == 0 || json.Unmarshal(e.Options, &o) != nil:
		return e.Ref
	case len(o.Void) == 0:
		return e.Seq
	}
	return o.Void[0]
}

// copied reports whether the child of a call may belong to the run that this run repeats. A restart copies the calls of
// ended and withdrawn children with their ids.
func (c *crossed) copied(e *store.Entry) bool {
	h := c.j.Handle(e.Handle)
	return c.j.Started().RunAttempt > 1 && h != nil && !h.Open()
}

// childID returns the id of a call's child.
func (c *crossed) childID(e *store.Entry) string {
	if o, err := abi.ParseChildOptions(e.Options); err == nil && o.ID != "" {
		return o.ID
	}
	return c.j.ChildID(e.Seq)
}

// coded describes the contradiction if the error in an entry has another code than the entry. Code 0 means that there is no
// error.
func coded(e *store.Entry, code int32) string {
	if code == 0 {
		return ""
	}
	if is := errorOf(e.Data).Code; is != abi.Code(code) {
		return fmt.Sprintf("%s was answered by %s, and the error is %s", e.Kind, abi.Code(code), is)
	}
	return ""
}
