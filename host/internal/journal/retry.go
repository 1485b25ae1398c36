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

// A retry voids the failures that led to the end of a run and the workflow's reaction to them. It keeps everything else, so
// facts already reported outside the run stay true. Void entries stay on disk; a replay sees them as blank.
//
// The options of a retry entry list the void entries: {"void":[seq, …]}. Older releases wrote no options; their retries void
// everything from Ref on.

// retryOptions is the JSON in the options of a retry.
type retryOptions struct {
	Void []store.Seq `json:"void"`
	// Taken is how many deliveries the workflow had taken when it ended, if only the end is void; nil = unknown.
	Taken *uint64 `json:"taken,omitempty"`
}

// RetryError says why a run cannot be retried, and from where it can be restarted instead.
type RetryError struct {
	Step string // the step or child whose failure led to the end
	Did  string // what the workflow did after it; empty if the step is a child of the run that this one repeats
	From string // latest call from which a restart is safe; empty = from the beginning
}

// Error names the failed step and the later call, and suggests a restart.
func (e *RetryError) Error() string {
	text := fmt.Sprintf("after %q had failed, the workflow went on (%s), and a retry would do that again: ", e.Step, e.Did)
	if e.Did == "" {
		text = fmt.Sprintf("the child %q ended, and was started by the run that this run repeats, which alone can ask it again: ",
			e.Step)
	}
	switch e.From {
	case e.Step:
		return text + fmt.Sprintf("restart the run from %q, which makes a new run that keeps what came before", e.From)
	case "":
		return text + "restart the run from its beginning, which makes a new run, since what it did before may have been undone"
	}
	return text + fmt.Sprintf("restart the run from %q, which is the first that was undone; what came before it is kept", e.From)
}

// Retry returns the entry that retries the run. It voids the end, the failures that led to it, and the calls after the first
// of these. For a run that has not ended, it voids nothing. The error is a *RetryError if, after a failure, the workflow made
// a call that reaches outside the run: a retry can neither undo nor repeat it.
func (j *Journal) Retry() (store.Entry, error) {
	e := store.Entry{Kind: store.KindRetried}
	var o retryOptions
	if j.end != store.KindInvalid {
		entries := j.Entries()
		failures := j.failures()
		from := store.Seq(len(entries) - 1)
		if len(failures) > 0 {
			from = failures[0]
		}
		void := j.void(from, failures)
		if err := j.checkCopied(void); err != nil {
			return e, err
		}
		if err := j.checkBehind(from); err != nil {
			return e, err
		}
		o.Void = void
		if j.knowsTaken(&entries[from]) {
			o.Taken = &entries[from].Consumed
		}
	}
	e.Ref = store.Seq(len(j.entries))
	if len(o.Void) > 0 {
		e.Ref = o.Void[0]
	}
	e.Options, _ = json.Marshal(o) // numbers always encode
	return e, nil
}

// knowsTaken reports whether an entry is an end that says how many deliveries the workflow had taken. 0 says so only if the
// workflow made the end, under rules that make it count them.
func (j *Journal) knowsTaken(end *store.Entry) bool {
	if !end.Kind.End() || end.Consumed > 0 {
		return end.Kind.End()
	}
	var failed abi.Error
	_ = json.Unmarshal(end.Data, &failed) // data that is not JSON comes from the workflow
	late := failed.Code == abi.Timeout && failed.Kind == abi.KindTimeout
	full := failed.Code == abi.Limit && failed.Kind == abi.KindJournal
	return j.started.Rules >= RulesOrder && !late && !full // the host makes those
}

// failures returns the seqs of the failed steps and children that led to the end, ascending: the failure that the end names,
// all later failures, and earlier failures back to the last success or call that reaches outside. If the end names no failure,
// the search goes back from the end. After a trap, for example, there may be none.
func (j *Journal) failures() (list []store.Seq) {
	entries := j.Entries()
	end := len(entries) - 1
	bad := func(e *store.Entry) bool { return e.Kind == store.KindStepFailure || e.Kind == store.KindChildFailure }
	last := end
	var failed struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(entries[end].Data, &failed) // data that is not JSON has no name
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

// outward reports whether an entry is a call that reaches outside the run.
func outward(e *store.Entry) bool {
	switch e.Kind {
	case store.KindStep, store.KindBody, store.KindChild, store.KindHook, store.KindSignalSend, store.KindContinue,
		store.KindUpdateReply: // a client may have received it
		return e.Refused == 0
	}
	return false
}

// checkBehind returns a *RetryError if a call after the failure at from reaches outside the run.
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

// checkCopied returns a *RetryError if a retry voids the outcome of a child that the run started that this run repeats, or its
// withdrawal: that run alone can ask the child for another outcome.
func (j *Journal) checkCopied(void []store.Seq) error {
	for _, seq := range void {
		e := &j.entries[seq]
		if e.Kind != store.KindChildFailure && e.Kind != store.KindWithdraw {
			continue
		}
		if h := j.Handle(e.Handle); h != nil && h.Kind == store.KindChild && int(h.CallSeq) <= j.started.Copied {
			return &RetryError{Step: h.Name, From: j.restartable(h)}
		}
	}
	return nil
}

// restartable returns the name of the latest call, at most the failed step's, from which a restart keeps no effect that was
// undone later. It returns "" if the run must restart from its beginning.
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
		h = j.Handle(j.entries[first.Seq].Handle) // its call is earlier
	}
}

// void returns the seqs that a retry voids: the failures, all calls after from (the first failure) with their deliveries and
// progress, and the end.
func (j *Journal) void(from store.Seq, failures []store.Seq) (list []store.Seq) {
	entries := j.Entries()
	gone := map[int64]bool{}     // handles of void calls
	back := map[store.Seq]bool{} // signals returned by void withdrawals: their first waits get them back
	policy := j.started.Policy   // cancel policy at from, where the run continues
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
		case e.Kind == store.KindClock, e.Kind == store.KindNow: // the workflow's time continues from the failure
		case e.Kind == store.KindSignal && back[e.Ref]:
		case e.Kind == store.KindCancel && policy != abi.CancelCooperative: // it was a cancel of the void part
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
	void, _, err := voidOf(e, len(j.entries))
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

// voidOf returns the seqs that a retry entry voids, and retryOptions.Taken.
// length is the length of the journal before it.
func voidOf(e *store.Entry, length int) (list []store.Seq, taken *uint64, err error) {
	if len(e.Options) == 0 {
		for seq := e.Ref; int(seq) < length; seq++ {
			list = append(list, seq)
		}
		return list, nil, nil
	}
	var o retryOptions
	if err := json.Unmarshal(e.Options, &o); err != nil {
		return nil, nil, illegal("options of a retry: %v", err)
	}
	return o.Void, o.Taken, nil
}

// foldRetried voids entries: the state becomes the fold of the remaining entries, and open steps get new attempts.
func (j *Journal) foldRetried(e *store.Entry) error {
	void, taken, err := voidOf(e, len(j.entries))
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
		lost := s.InFlight && s.Options.AtMostOnce && j.Handle(h.ID).Open() // false if the retry voids the step's failure
		s.Base, s.InFlight, s.Recoveries, s.Failures, s.RetryMs = s.Attempt, lost, 0, 0, 0
		again.open.delayed(h)
	}
	if len(e.Options) > 0 {
		again.output = j.output // output that clients have seen still counts
	}
	again.paused, again.retried = j.paused, e.Seq
	again.started.DeadlineUnixMs = 0 // a retried run has no deadline
	// Replay up to the first void failure does not count against the budgets: the workflow waited there before. If only the end
	// is void, it counts: the workflow may have reached its end by computing without bound, and would do so again.
	switch {
	case len(void) == 0: // a stuck run
		again.wait.Seq = j.wait.Seq
		again.started.Taken, again.started.TakenKnown = j.started.Taken, j.started.TakenKnown
	case j.entries[void[0]].Kind.End():
		if again.started.Taken, again.started.TakenKnown = 0, taken != nil; taken != nil {
			again.started.Taken = *taken
		}
	default:
		again.wait.Seq = e.Ref
	}
	*j = *again
	return nil
}

// Retried returns the seq of the newest retry; false if the run was never retried.
func (j *Journal) Retried() (store.Seq, bool) { return j.retried, j.retried != 0 }

// OpenChildren returns the open children that the end of the run affects, in call order: all but abandoned ones.
func (j *Journal) OpenChildren() (list []Handle) {
	for _, id := range j.open.rest {
		if h := j.Handle(id); h.Kind == store.KindChild && h.OnEnd != abi.OnEndAbandon {
			list = append(list, *h)
		}
	}
	return list
}

// Hooks returns the hooks with claimed tokens, in call order. The claims last until the run ends.
func (j *Journal) Hooks() (list []Handle) {
	for i := range j.handles {
		if h := &j.handles[i]; h.Kind == store.KindHook && j.Claims(h) {
			list = append(list, *h)
		}
	}
	return list
}

// Claims reports whether a hook needs a claim on its token: the workflow chose the token, or it was generated for the run that
// this one repeats. A token that was generated for this run contains the run's id, so no other run can hold it.
func (j *Journal) Claims(h *Handle) bool {
	_, run, named := strings.Cut(h.Token, ".") // the random part has no dot
	return h.Target != "" || named && run != j.started.RunID
}

// Hook returns the hook that holds a token, or nil. After the end of the run, no hook holds a token.
func (j *Journal) Hook(token string) *Handle {
	h := j.Handle(j.tokens[token])
	if h == nil || h.Withdrawn || j.end != store.KindInvalid {
		return nil
	}
	return h
}
