// Package journal holds the record of one run and the rules of what may be appended to it. It is pure: no
// clock, goroutine, lock or I/O; the caller gives the time and serializes the calls.
//
// A Journal is the run's one state-transition function. Everything that happens to a run, whether the guest
// called or something outside resolved, becomes an entry by Append, which
//
//   - appends the timers that are due first, in the order (deadline, handle), so that no other entry ever
//     stands before an earlier deadline;
//   - gives the entry its seq and its time, which never goes backwards: where the clock was set back, the entry says how far;
//   - refuses what is not a legal transition: after an end, a second resolution of a handle, a delivery to a
//     handle that does not exist, was withdrawn or is of another kind.
//
// What the Journal knows of a run is a fold over its entries: one that was loaded has the state of one that was appended to.
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

// ErrEnded says that the run has ended; an end is final.
var ErrEnded = errors.New("the run has ended")

// ErrIllegal says that an entry is not a legal transition; it is wrapped with the reason.
var ErrIllegal = errors.New("illegal entry")

// Journal is the record of one iteration of a run. The zero value is empty and usable.
type Journal struct {
	entries  []store.Entry
	live     []store.Entry // entries with void ones blanked; nil while none is void
	handles  []Handle
	open     open              // handles that are unresolved and not withdrawn
	timers   timers.Few[int64] // of the open handles with a deadline
	bytes    int64
	end      store.Kind
	started  Started
	activeMs int64 // started_at; 0 before the first activation
	wait     store.Suspension
	waiting  bool
	looked   int // while it waits: no entry before this one is one that the guest takes, nor will be

	crowded    int   // calls that changed nothing, recorded while there was no room for calls
	waits      waits // open ones, and the signals that are pending
	keys       keys
	policy     int32 // of cancel: abi.CancelFinal or abi.CancelCooperative
	cancelMs   int64 // when a cooperative cancel was accepted; 0 = not yet
	paused     bool
	retried    store.Seq // of the newest retry; 0 = none
	output     uint64    // chunks of output, those of earlier iterations included
	attributes map[string]string
	tokens     map[string]int64 // the newest hook of each token that is ready; nil if none is

	setBack
	absence
	Set
}

// Sized returns an empty journal that has room for n entries. Most handles have two, a call and a delivery.
func Sized(n int) *Journal {
	return &Journal{entries: make([]store.Entry, 0, n), handles: make([]Handle, 0, n/2)}
}

// Handle is what the journal knows of one thing that the guest started.
type Handle struct {
	ID          int64 // 1, 2, 3 … in call order
	CallSeq     store.Seq
	ResolvedSeq store.Seq // of the delivery; meaningful if Resolved
	Signal      store.Seq // meaningful if Bound
	DueUnixMs   int64     // timers
	FromMs      int64     // what DueUnixMs counts from, by the host's clock
	Name        string
	Target      string // handler of a step
	ChildID     string // children
	OnEnd       string // children: what becomes of it when this run ends
	Token       string // hooks
	Undoes      string // steps and children: what the call undoes; empty if it says nothing
	Options     []byte // hooks
	Step        *Step  // steps and bodies
	Kind        store.Kind
	Resolved    bool
	Withdrawn   bool
	HasDue      bool // DueUnixMs is set: sleeps, and waits for a signal that time out
	Bound       bool // a wait has the signal of that seq
	Refused     bool // hooks: the token is another run's
}

// Open tells whether the handle still waits for its delivery.
func (h *Handle) Open() bool { return !h.Resolved && !h.Withdrawn }

// Step is the history of a step's attempts as far as it is journaled.
type Step struct {
	Options    abi.StepOptions
	Attempt    uint32 // the highest that is recorded as begun or failed; 0: none is, though the first may have begun
	Base       uint32 // how many of them a retry of the run has forgiven
	InFlight   bool   // the newest attempt is recorded as begun and not as ended
	Failures   uint32 // attempts recorded as failed
	Recoveries uint32 // attempts recorded as begun while another one was recorded as begun or unrecorded
	RetryMs    int64  // the next attempt is not before this instant; 0 = at once
	RetryFrom  int64  // what RetryMs counts from, by the host's clock
	RetrySeq   store.Seq
	FirstMs    int64  // when the call was made, from which max_elapsed counts
	LastError  []byte // error JSON of the newest failure
	Details    []byte // what a handler has recorded last
}

// Len gives the number of entries.
func (j *Journal) Len() int { return len(j.entries) }

// Entries gives all entries, those that a retry of the run made void as records of kind KindInvalid. The slice is
// valid for ever, since entries are only ever appended; it must not be changed.
func (j *Journal) Entries() []store.Entry {
	if j.live != nil {
		return slices.Clip(j.live)
	}
	return slices.Clip(j.entries)
}

// All gives all entries as they were appended.
func (j *Journal) All() []store.Entry { return slices.Clip(j.entries) }

// Snapshot returns the journal as it is now, for reading: more may be appended to the original meanwhile.
func (j *Journal) Snapshot() *Journal {
	c := *j
	c.handles, c.tokens = slices.Clone(j.handles), maps.Clone(j.tokens)
	return &c
}

// Bytes gives the approximate size of the journal in bytes: payloads and names plus a fixed part per entry.
func (j *Journal) Bytes() int64 { return j.bytes }

// Ended gives the kind of the end entry, KindInvalid while the run lives.
func (j *Journal) Ended() store.Kind { return j.end }

// OpenHandles gives the number of unresolved handles.
func (j *Journal) OpenHandles() int { return len(j.open.all) }

// Started gives what entry 0 says of the run.
func (j *Journal) Started() Started { return j.started }

// StartedUnixMs gives started_at, the time at which the first activation began; false before it.
func (j *Journal) StartedUnixMs() (int64, bool) { return j.activeMs, j.activeMs != 0 }

// Handle gives a handle by its number, nil if there is none.
func (j *Journal) Handle(id int64) *Handle {
	if id < 1 || id > int64(len(j.handles)) {
		return nil
	}
	return &j.handles[id-1]
}

// Handles calls yield for each open handle in call order. Handles that yield resolves are not skipped over.
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

// close takes a handle out of the open ones.
func (j *Journal) close(h *Handle) {
	j.open.remove(h)
	j.timers.Remove(h.ID)
	if h.Kind == store.KindSignalWait {
		j.waits.removeWait(h)
	}
}

// LastHostMs returns what the host's clock showed when the newest entry was appended, 0 if there is none.
func (j *Journal) LastHostMs() int64 {
	if len(j.entries) == 0 {
		return 0
	}
	return j.entries[len(j.entries)-1].HostMs()
}

// LastUnixMs gives the time of the newest entry, 0 if there is none.
func (j *Journal) LastUnixMs() int64 {
	if len(j.entries) == 0 {
		return 0
	}
	return j.entries[len(j.entries)-1].UnixMs
}

// Load appends an entry as it was read from a store. Unlike Append it keeps seq and time, and checks them.
func (j *Journal) Load(e store.Entry) error {
	switch {
	case e.Seq != store.Seq(len(j.entries)):
		return fmt.Errorf("%w: entry %d stands where entry %d should", store.ErrCorrupt, e.Seq, len(j.entries))
	case e.UnixMs < j.LastUnixMs():
		return fmt.Errorf("%w: time of entry %d goes backwards", store.ErrCorrupt, e.Seq)
	}
	switch err := j.apply(&e); {
	case errors.Is(err, store.ErrVersion): // it is sound: a newer release reads it
		return fmt.Errorf("entry %d (%s): %w", e.Seq, e.Kind, err)
	case err != nil:
		return fmt.Errorf("%w: entry %d (%s): %w", store.ErrCorrupt, e.Seq, e.Kind, err)
	}
	return nil
}

// Append appends an entry at the given time, after the timers that are due by then, and gives it back with
// its seq and time. An error means that the entry was not appended; timers that were due may have been. ErrEnded may
// also mean that the run ended just now: by its deadline, or because the journal has no room for the entry.
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
		if e.Refused == 0 && e.Target == "" { // nobody else can have a token that was made just now
			_, err := j.append(store.Entry{Kind: store.KindHookReady, Handle: e.Handle, Data: e.Data}, nowUnixMs)
			return e, err
		}
	}
	return e, nil
}

// complete fills in what only the journal knows of an entry.
func (j *Journal) complete(e *store.Entry) {
	switch {
	case e.Refused != 0:
	case e.Kind == store.KindEmit:
		e.Code = int32(min(j.output, math.MaxInt32))
	case e.Kind == store.KindChild && len(e.Data) == 0:
		e.Data = []byte(j.ChildID(e.Seq))
	}
}

// Suspend tells the journal where the guest waits, so that a poll's own clock can come due. Resume clears it.
func (j *Journal) Suspend(s store.Suspension) {
	j.wait, j.waiting, j.looked, j.pollMs = s, true, int(s.Seq), 0
}

// Resume tells the journal that the guest no longer waits.
func (j *Journal) Resume() { j.waiting = false }

// Suspension gives where the guest waits, false while it does not.
func (j *Journal) Suspension() (store.Suspension, bool) { return j.wait, j.waiting }

// Rested returns the number of entries that the journal had when the guest last came to a wait, 0 if that is not known.
// Resume does not change it: a replay comes to the same wait again.
func (j *Journal) Rested() store.Seq { return j.wait.Seq }
