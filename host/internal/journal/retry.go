package journal

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// A retry voids the failures that led to the end of a run, and what the workflow did about them, and keeps everything
// else: what others were told is true stays true. Void entries stay on disk, and are blank for a replay.
//
// The entry of a retry lists what it voids in its options: {"void":[seq, …]}. Older releases wrote none, and voided
// everything from Ref on; their journals are read as they were.

// retryOptions is what the options of a retry hold, as JSON.
type retryOptions struct {
	Void []store.Seq `json:"void"`
}

// RetryError says why a run cannot be retried, and what can be done instead.
type RetryError struct {
	Step string // whose failure led to the end
	Did  string // what the workflow did after it
	From string // from which a restart repeats nothing but what has to be; empty: from the beginning
}

// Error names the step, and what came after it.
func (e *RetryError) Error() string {
	text := fmt.Sprintf("after %q had failed, the workflow went on (%s), and a retry would do that again: ", e.Step, e.Did)
	switch e.From {
	case e.Step:
		return text + fmt.Sprintf("restart the run from %q, which makes a new run that keeps what came before", e.From)
	case "":
		return text + "restart the run from its beginning, which makes a new run, since what it did before may have been undone"
	}
	return text + fmt.Sprintf("restart the run from %q, which is the first that was undone; what came before it is kept", e.From)
}

// Retry returns the entry that retries the run: it voids the end, the failures that led to it, and the calls with which
// the workflow ended itself after them. A run that has not ended voids nothing. A *RetryError says that the workflow did
// something after a failure that reaches outside, or was recorded as an outcome: that is neither undone nor done twice.
func (j *Journal) Retry() (store.Entry, error) {
	e := store.Entry{Kind: store.KindRetried}
	var o retryOptions
	if j.end != store.KindInvalid {
		failures := j.failures()
		from := store.Seq(len(j.entries) - 1)
		if len(failures) > 0 {
			from = failures[0]
		}
		if err := j.checkBehind(from); err != nil {
			return e, err
		}
		o.Void = j.void(from, failures)
	}
	e.Ref = store.Seq(len(j.entries))
	if len(o.Void) > 0 {
		e.Ref = o.Void[0]
	}
	e.Options, _ = json.Marshal(o) // numbers always encode
	return e, nil
}

// failures returns the seqs of the failed steps and children that led to the end, ascending. That is the failure that the
// end names, those before it up to a success or a call that reaches outside, and all behind it. If the end names none,
// they are those before the end. There are none after a trap, for example.
func (j *Journal) failures() (list []store.Seq) {
	entries := j.Entries()
	end := len(entries) - 1
	bad := func(e *store.Entry) bool { return e.Kind == store.KindStepFailure || e.Kind == store.KindChildFailure }
	last := end
	var failed struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(entries[end].Data, &failed) // not JSON, or none: no name
	if failed.Name != "" {
		for last--; last > 0 && !(bad(&entries[last]) && j.Handle(entries[last].Handle).Name == failed.Name); last-- {
		}
		if last <= 0 {
			return nil
		}
		list = append(list, entries[last].Seq)
	}
	for i := last - 1; i > 0; i-- {
		if e := &entries[i]; bad(e) {
			list = append(list, e.Seq)
		} else if outward(e) || e.Kind.Delivery() && e.Handle != 0 {
			break
		}
	}
	slices.Reverse(list)
	for i := last + 1; i < end; i++ {
		if bad(&entries[i]) {
			list = append(list, entries[i].Seq)
		}
	}
	return list
}

// outward reports whether an entry is a call that reaches outside of the run.
func outward(e *store.Entry) bool {
	switch e.Kind {
	case store.KindStep, store.KindBody, store.KindChild, store.KindHook, store.KindSignalSend, store.KindContinue,
		store.KindUpdateReply: // which somebody was told
		return e.Refused == 0
	}
	return false
}

// checkBehind reports what the workflow did behind a failure that cannot be done again.
func (j *Journal) checkBehind(from store.Seq) error {
	entries := j.Entries()
	if entries[from].Kind.End() {
		return nil
	}
	h := j.Handle(entries[from].Handle)
	for i := from + 1; i < store.Seq(len(entries)); i++ {
		if e := &entries[i]; outward(e) {
			return &RetryError{Step: h.Name, Did: Describe(e), From: j.restartable(h)}
		}
	}
	return nil
}

// restartable returns the name of the last call, up to that of a step which failed, from which the run can be restarted so that
// nothing is kept that was undone; empty if that is its beginning.
func (j *Journal) restartable(h *Handle) string {
	for {
		undone := j.UndoneBefore(h.CallSeq)
		if len(undone) == 0 {
			return h.Name
		}
		first := slices.MinFunc(undone, func(a, b Undone) int { return cmp.Compare(a.Seq, b.Seq) })
		if first.Name == "" {
			return ""
		}
		h = j.Handle(j.entries[first.Seq].Handle) // an earlier one
	}
}

// void returns what a retry voids: the failures, the calls behind the first of them with what came of these, and the end.
func (j *Journal) void(from store.Seq, failures []store.Seq) (list []store.Seq) {
	entries := j.Entries()
	gone := map[int64]bool{}     // handles of void calls
	back := map[store.Seq]bool{} // signals that void withdrawals gave back, and which their first waits have again
	policy := j.started.Policy   // of cancel, where the run goes on
	for i := range entries[:from] {
		if e := &entries[i]; e.Kind == store.KindCancelPolicy && e.Refused == 0 {
			policy = e.Code
		}
	}
	for i := from; i < store.Seq(len(entries)); i++ {
		e := &entries[i]
		_, failure := slices.BinarySearch(failures, e.Seq)
		if e.Kind == store.KindWithdraw && e.Code == WithdrawDone {
			back[j.Handle(e.Handle).Signal] = true
		}
		switch {
		case e.Kind == store.KindInvalid:
			continue
		case e.Kind.Call() && e.Handle != 0 && opens[e.Kind]:
			gone[e.Handle] = true
		case failure, e.Kind.Call(), e.Kind.End(), (e.Kind.Delivery() || e.Kind == store.KindProgress) && gone[e.Handle]:
		case e.Kind == store.KindClock, e.Kind == store.KindNow: // the workflow's own time goes on from the failure
		case e.Kind == store.KindSignal && back[e.Ref]:
		case e.Kind == store.KindCancel && policy != abi.CancelCooperative: // it was asked for what is void
		default:
			continue
		}
		list = append(list, e.Seq)
	}
	return list
}

func (j *Journal) checkRetried(e *store.Entry) error {
	if e.Ref < 1 || int(e.Ref) > len(j.entries) {
		return illegal("a retry from entry %d of %d", e.Ref, len(j.entries))
	}
	void, err := voidOf(e, len(j.entries))
	if err != nil {
		return err
	}
	for i, seq := range void {
		if seq < 1 || int(seq) >= len(j.entries) || i > 0 && seq <= void[i-1] {
			return illegal("a retry that voids entry %d of %d", seq, len(j.entries))
		}
	}
	return nil
}

// voidOf returns the seqs that a retry voids.
func voidOf(e *store.Entry, length int) (list []store.Seq, err error) {
	if len(e.Options) == 0 {
		for seq := e.Ref; int(seq) < length; seq++ {
			list = append(list, seq)
		}
		return list, nil
	}
	var o retryOptions
	if err := json.Unmarshal(e.Options, &o); err != nil {
		return nil, illegal("options of a retry: %v", err)
	}
	return o.Void, nil
}

// foldRetried makes entries void: the state becomes that of the others, and what is open then gets new attempts.
func (j *Journal) foldRetried(e *store.Entry) error {
	void, err := voidOf(e, len(j.entries))
	if err != nil {
		return err
	}
	live := slices.Clone(j.Entries())
	for _, seq := range void {
		live[seq] = store.Entry{Seq: seq, UnixMs: live[seq].UnixMs}
	}
	again := &Journal{}
	for _, x := range live {
		if x.Kind == store.KindRetried {
			again.retried, again.started.DeadlineUnixMs = x.Seq, 0
		}
		if x.Kind == store.KindInvalid || x.Kind == store.KindRetried {
			again.entries = append(again.entries, x)
			continue
		}
		if err := again.apply(&x); err != nil {
			return illegal("a retry from entry %d: %v", e.Ref, err)
		}
	}
	again.entries, again.live, again.bytes = j.entries, live, j.bytes
	for h := range again.Steps {
		s := h.Step
		lost := s.InFlight && s.Options.AtMostOnce && j.Handle(h.ID).Open() // not one whose failure is forgotten
		s.Base, s.InFlight, s.Recoveries, s.Failures, s.RetryMs = s.Attempt, lost, 0, 0, 0
		again.open.delayed(h)
	}
	if len(e.Options) > 0 {
		again.output = j.output // what was shown stays, and is counted
	}
	again.paused, again.retried = j.paused, e.Seq
	again.started.DeadlineUnixMs = 0 // who retries gives it time
	// The workflow has waited where a failure was to come, and passes what lies before without using its limits. Before an end
	// it did not wait: it may have come there by computing without end, and would do so again.
	if len(void) > 0 && !j.entries[void[0]].Kind.End() {
		again.wait.Seq = e.Ref
	}
	*j = *again
	return nil
}

// Retried returns the seq of the newest retry, false if the run was never retried.
func (j *Journal) Retried() (store.Seq, bool) { return j.retried, j.retried != 0 }

// OpenChildren returns the open children, in call order, with what becomes of them when the run ends.
func (j *Journal) OpenChildren() (list []Handle) {
	for _, id := range j.open.rest {
		if h := j.Handle(id); h.Kind == store.KindChild && h.OnEnd != abi.OnEndAbandon {
			list = append(list, *h)
		}
	}
	return list
}

// Hooks returns the hooks whose tokens are claimed, in call order: they are held until the end.
func (j *Journal) Hooks() (list []Handle) {
	for i := range j.handles {
		if h := &j.handles[i]; h.Kind == store.KindHook && j.Claims(h) {
			list = append(list, *h)
		}
	}
	return list
}

// Claims reports whether the token of a hook is claimed: the workflow has chosen it, or it was made for the run that this one
// repeats. One that was made for this run names it, and nobody else can have it.
func (j *Journal) Claims(h *Handle) bool {
	_, run, named := strings.Cut(h.Token, ".") // the random part has no dot
	return h.Target != "" || named && run != j.started.RunID
}

// Hook returns the hook that holds a token; nil if none does, as after the end of the run.
func (j *Journal) Hook(token string) *Handle {
	h := j.Handle(j.tokens[token])
	if h == nil || h.Withdrawn || j.end != store.KindInvalid {
		return nil
	}
	return h
}
