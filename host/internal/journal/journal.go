// Package journal holds the record of one run and the rules for appending to it. It is pure: it has no clock,
// goroutine, lock or I/O. The caller passes the time and serializes the calls.
//
// A Journal is the run's only state-transition function. Calls of the guest and deliveries from outside both become
// entries through Append, which
//
//   - first appends the timers that are due, in the order (deadline, handle), so no other entry overtakes an
//     earlier deadline;
//   - sets the entry's seq and time. The time never goes backwards: if the clock was set back, BehindMs says how far;
//   - refuses illegal transitions: an entry after an end, a second resolution of a handle, a delivery to a handle
//     that does not exist, was withdrawn or has another kind.
//
// The state of a Journal is a fold over its entries: loading the entries gives the same state as appending them.
package journal

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/timers"
	"github.com/wfhost/wfhost/store"
)

// ErrEnded: the run has ended. Only a retry of a failed run may follow.
var ErrEnded = errors.New("the run has ended")

// ErrIllegal: an entry is not a legal transition. It is wrapped with the reason.
var ErrIllegal = errors.New("illegal entry")

// Journal is the record of one iteration of a run. Its zero value is empty and ready to use.
type Journal struct {
	entries  []store.Entry
	live     []store.Entry // entries with the void ones blanked; nil while none is void
	handles  []Handle
	open     open              // handles that are neither resolved nor withdrawn
	timers   timers.Few[int64] // deadlines of open handles
	bytes    int64
	end      store.Kind
	started  Started
	activeMs int64 // started_at; 0 before the first activation
	wait     store.Suspension
	waiting  bool
	looked   int // while it waits: the guest takes no entry before this index, now or later

	crowded    int   // recorded calls that changed nothing while there was no room for calls
	waits      waits // open waits and pending signals
	keys       keys
	policy     int32 // what a cancel does: abi.CancelFinal or abi.CancelCooperative
	cancelMs   int64 // when a cooperative cancel was accepted; 0 = not yet
	paused     bool
	retried    store.Seq // seq of the newest retry; 0 = none
	output     uint64    // chunks of output, including earlier iterations
	attributes map[string]string
	tokens     map[string]int64 // token to handle of the newest ready hook; nil if none is ready

	setBack
	absence
	Set
}

// Sized returns an empty journal with capacity for n entries and n/2 handles: most handles have two entries, a call and
// a delivery.
func Sized(n int) *Journal {
	return &Journal{entries: make([]store.Entry, 0, n), handles: make([]Handle, 0, n/2)}
}

// Handle is the state of a call that the guest may await.
type Handle struct {
	ID          int64 // 1, 2, 3 … in call order
	CallSeq     store.Seq
	ResolvedSeq store.Seq // seq of the delivery; valid if Resolved
	Signal      store.Seq // seq of the accepted signal; valid if Bound
	DueUnixMs   int64     // deadline; valid if HasDue
	FromMs      int64     // instant on the host's clock from which DueUnixMs is counted
	Name        string
	Target      string // steps: the handler
	ChildID     string // children: run id
	OnEnd       string // children: what happens to the child when this run ends
	Token       string // hooks
	Undoes      string // steps and children: what the call undoes; empty if not stated
	Options     []byte // hooks
	Step        *Step  // steps and bodies
	Kind        store.Kind
	Resolved    bool
	Withdrawn   bool
	HasDue      bool // DueUnixMs is set: sleeps, and signal waits with a timeout
	Bound       bool // signal waits: the signal at seq Signal is bound to this wait
	Refused     bool // hooks: another run holds the token
}

// Open reports whether the handle still waits for its delivery.
func (h *Handle) Open() bool { return !h.Resolved && !h.Withdrawn }

// Step is the history of a step's attempts, as far as it is journaled.
type Step struct {
	Options    abi.StepOptions
	Attempt    uint32    // highest attempt recorded as begun or failed; 0 = none, though the first may have begun
	Base       uint32    // attempts before the newest retry of the run; they no longer count
	InFlight   bool      // the newest attempt is recorded as begun but not as ended
	Failures   uint32    // attempts recorded as failed
	Recoveries uint32    // attempts begun with Code StartedByRecovery
	RetryMs    int64     // earliest instant of the next attempt; 0 = at once
	RetryFrom  int64     // instant on the host's clock from which RetryMs is counted
	RetrySeq   store.Seq // entry of the failure that set RetryMs
	FirstMs    int64     // instant of the call; max_elapsed is counted from it
	LastError  []byte    // error JSON of the newest failure
	Details    []byte    // newest progress that a handler recorded
}

// Len returns the number of entries.
func (j *Journal) Len() int { return len(j.entries) }

// Entries returns all entries. Entries that a retry made void have kind KindInvalid. The slice stays valid because
// entries are only appended; callers must not change it.
func (j *Journal) Entries() []store.Entry {
	if j.live != nil {
		return slices.Clip(j.live)
	}
	return slices.Clip(j.entries)
}

// All returns all entries as they were appended, void entries included.
func (j *Journal) All() []store.Entry { return slices.Clip(j.entries) }

// Snapshot returns a read-only copy of the journal. The original may be appended to meanwhile.
func (j *Journal) Snapshot() *Journal {
	c := *j
	c.handles, c.tokens = slices.Clone(j.handles), maps.Clone(j.tokens)
	return &c
}

// Bytes returns the approximate size of the journal in bytes: payloads and names, plus a fixed part per entry.
func (j *Journal) Bytes() int64 { return j.bytes }

// Ended returns the kind of the end entry, or KindInvalid while the run lives.
func (j *Journal) Ended() store.Kind { return j.end }

// OpenHandles returns the number of open handles.
func (j *Journal) OpenHandles() int { return len(j.open.all) }

// Started returns what entry 0 says about the run.
func (j *Journal) Started() Started { return j.started }

// StartedUnixMs returns started_at, the time of the first activation; false before the activation.
func (j *Journal) StartedUnixMs() (int64, bool) { return j.activeMs, j.activeMs != 0 }

// Handle returns a handle by its number, or nil if there is none.
func (j *Journal) Handle(id int64) *Handle {
	if id < 1 || id > int64(len(j.handles)) {
		return nil
	}
	return &j.handles[id-1]
}

// Handles calls yield for each open handle in call order. yield may resolve handles; no other handle is missed.
func (j *Journal) Handles(yield func(*Handle) bool) { j.each(j.open.all, yield) }

// Children returns the ids of the children of this iteration, in call order, whether they have ended or not.
func (j *Journal) Children() (ids []string) {
	for i := range j.handles {
		if h := &j.handles[i]; h.Kind == store.KindChild {
			ids = append(ids, h.ChildID)
		}
	}
	return ids
}

// close removes a handle from the open handles.
func (j *Journal) close(h *Handle) {
	j.open.remove(h)
	j.timers.Remove(h.ID)
	if h.Kind == store.KindSignalWait {
		j.waits.removeWait(h)
	}
}

// LastHostMs returns the host's clock when the newest entry was appended, or 0 if there is no entry.
func (j *Journal) LastHostMs() int64 {
	if len(j.entries) == 0 {
		return 0
	}
	return j.entries[len(j.entries)-1].HostMs()
}

// LastUnixMs returns the time of the newest entry, or 0 if there is none.
func (j *Journal) LastUnixMs() int64 {
	if len(j.entries) == 0 {
		return 0
	}
	return j.entries[len(j.entries)-1].UnixMs
}

// Load appends an entry that was read from a store. Unlike Append, it keeps seq and time and checks them. The error wraps
// store.ErrCorrupt, or store.ErrVersion if the entry needs a newer release.
func (j *Journal) Load(e store.Entry) error {
	switch {
	case e.Seq != store.Seq(len(j.entries)):
		return fmt.Errorf("%w: entry %d stands where entry %d should", store.ErrCorrupt, e.Seq, len(j.entries))
	case e.UnixMs < j.LastUnixMs():
		return fmt.Errorf("%w: time of entry %d goes backwards", store.ErrCorrupt, e.Seq)
	}
	switch err := j.apply(&e); {
	case errors.Is(err, store.ErrVersion): // not corrupt: a newer release reads it
		return fmt.Errorf("entry %d (%s): %w", e.Seq, e.Kind, err)
	case err != nil:
		return fmt.Errorf("%w: entry %d (%s): %w", store.ErrCorrupt, e.Seq, e.Kind, err)
	}
	return nil
}

// Append appends the timers that are due at the given time, then the entry, and returns the entry with its seq and
// time. After an error, due timers may have been appended. ErrEnded may also mean that the run ended just now: its
// deadline passed, or the journal had no room for the entry. On any other error, the entry was not appended.
func (j *Journal) Append(e store.Entry, nowUnixMs int64) (store.Entry, error) {
	if j.end != store.KindInvalid && e.Kind != store.KindRetried {
		return e, fmt.Errorf("%w: %s at entry %d", ErrEnded, j.end, len(j.entries)-1)
	}
	if err := j.FireDue(nowUnixMs); err != nil {
		return e, err
	}
	return j.append(e, nowUnixMs)
}

func (j *Journal) append(e store.Entry, nowUnixMs int64) (store.Entry, error) {
	e.Seq = store.Seq(len(j.entries))
	e.UnixMs = max(nowUnixMs, j.LastUnixMs())
	e.BehindMs = e.UnixMs - nowUnixMs
	j.complete(&e)
	if full := j.overflow(&e); full != nil {
		return e, j.fail(full, nowUnixMs)
	}
	if err := j.apply(&e); err != nil {
		return e, err
	}
	switch e.Kind {
	case store.KindSignalAccepted, store.KindSignalWait, store.KindWithdraw, store.KindRetried:
		return e, j.bind(nowUnixMs)
	case store.KindHook:
		if e.Refused == 0 && e.Target == "" { // the token was generated just now: no other run can hold it
			_, err := j.append(store.Entry{Kind: store.KindHookReady, Handle: e.Handle, Data: e.Data}, nowUnixMs)
			return e, err
		}
	}
	return e, nil
}

// complete fills in the fields of an entry that only the journal knows: output offsets and child ids.
func (j *Journal) complete(e *store.Entry) {
	switch {
	case e.Refused != 0:
	case e.Kind == store.KindEmit:
		e.Code = int32(min(j.output, math.MaxInt32))
	case e.Kind == store.KindChild && len(e.Data) == 0:
		e.Data = []byte(j.ChildID(e.Seq))
	}
}

// Suspend records where the guest waits, so the clock of a poll can come due. Resume ends the wait.
func (j *Journal) Suspend(s store.Suspension) {
	j.wait, j.waiting, j.looked, j.pollMs = s, true, int(s.Seq), 0
}

// Resume records that the guest no longer waits.
func (j *Journal) Resume() { j.waiting = false }

// Suspension returns where the guest waits; false while it does not wait.
func (j *Journal) Suspension() (store.Suspension, bool) { return j.wait, j.waiting }

// Rested returns how many entries the journal had when the guest last reached a wait, or 0 if unknown. Resume does not
// change it: a replay reaches the same wait again.
func (j *Journal) Rested() store.Seq { return j.wait.Seq }
