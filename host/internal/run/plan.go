package run

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Plan is what a restart of a run does: what the new run keeps and what it repeats. The caller must resolve all Open
// calls before it starts the new run.
type Plan struct {
	Copy     *Copy
	Kept     []Call // in the order of the journal
	Repeated []Call
	Undone   []journal.Undone // kept calls that were undone later
	Open     []Open
	Hooks    []journal.Handle // their tokens are claimed by the new run
	Version  uint32           // that the iteration last ran under
	Module   store.Digest
}

// Call is a call of the original run.
type Call struct {
	Seq    store.Seq
	Kind   store.Kind
	Name   string
	Target string // handler, workflow or run; the token of a hook
	Note   string // a hint for the user
	Child  string // run id of a child, if the workflow chose it: the new run's child has the same id
}

// Open is a kept call whose outcome the journal lacks: a child, which the caller asks, or a sent signal whose receipt
// is not recorded, but which the store will deliver.
type Open struct {
	Handle  int64
	Kind    store.Kind
	Name    string
	ChildID string
	At      int // index of the Call in Kept
}

// NewPlan plans a restart of an iteration: from its beginning or, if name is set, from the first step, sleep or child
// of that name, or else from the first other call of that name. If there is no such call, it returns an error of
// store.ErrNotFound that lists the names in the journal.
func NewPlan(j *journal.Journal, name string) (*Plan, error) {
	p := &Plan{Copy: &Copy{Started: j.Started()}}
	entries := j.Entries()
	cut := 0
	var fates map[int64]fate // of handles in the copy
	if name != "" {
		cut = find(entries, name)
		if cut == 0 {
			return nil, noCall(j, name)
		}
		p.Undone = j.UndoneBefore(store.Seq(cut))
		fates = p.Copy.upTo(j, cut)
		p.Copy.Taken = entries[cut].Consumed
	} else if j.Started().Iteration > 0 {
		p.Copy.movedOver(entries)
	}
	for i := range entries {
		e := &entries[i]
		if !e.Kind.Call() || e.Refused != 0 || e.Kind == store.KindWithdraw {
			continue
		}
		c := Call{Seq: e.Seq, Kind: e.Kind, Name: e.Name, Target: e.Target}
		if i >= cut {
			if o, err := abi.ParseChildOptions(e.Options); e.Kind == store.KindChild && err == nil {
				c.Child = o.ID
			}
			p.Repeated = append(p.Repeated, c)
			continue
		}
		p.keep(j.Handle(e.Handle), c, fates[e.Handle])
	}
	p.note()
	return p, nil
}

// keep adds a kept call. A step that is open in the copy is repeated instead.
func (p *Plan) keep(h *journal.Handle, c Call, at fate) {
	switch {
	case h == nil:
	case h.Kind == store.KindHook && !h.Refused && at != withdrawn:
		p.Hooks = append(p.Hooks, *h)
		c.Target, c.Note = h.Token, "its token is claimed by the new run"
	case at != open:
	case h.Step != nil && lost(h, h.Step.Attempt):
		c.Note = "its attempt was in flight, and is not made again: the step fails, as nobody knows its outcome"
	case h.Step != nil:
		c.Note = "it had no outcome: it is made again"
		p.Repeated = append(p.Repeated, c)
		return
	case h.Kind == store.KindChild || h.Kind == store.KindSignalSend:
		p.Open = append(p.Open, Open{Handle: h.ID, Kind: h.Kind, Name: h.Name, ChildID: h.ChildID, At: len(p.Kept)})
	case h.Kind == store.KindSleep || h.Kind == store.KindSignalWait:
		c.Note = "it goes on"
	}
	p.Kept = append(p.Kept, c)
}

// note sets the notes of kept calls that were undone.
func (p *Plan) note() {
	for _, u := range p.Undone {
		for i := range p.Kept {
			if c := &p.Kept[i]; c.Seq == u.Seq && u.Name != "" {
				c.Note = "undone by " + u.By
			}
		}
	}
}

// Resolve gives an open call of the copy its outcome.
func (p *Plan) Resolve(o *Open, e store.Entry, note string) {
	e.Handle = o.Handle
	p.Copy.add(e)
	p.Kept[o.At].Note = note
}

// SignalOfStart returns the signal that a run was started with, nil if there is none.
func SignalOfStart(j *journal.Journal) *Signal {
	if !j.Started().Signalled || j.Len() < 2 {
		return nil
	}
	e := &j.Entries()[1]
	if e.Kind != store.KindSignalAccepted { // an archive that wfhost did not write
		return nil
	}
	return &Signal{Name: e.Name, Data: e.Data, IdempotencyKey: e.Target}
}

// find returns the index of the first call that a restart repeats, or 0 if no call has the name. The names of steps,
// sleeps and children are unique; the names of other calls are channels.
func find(entries []store.Entry, name string) (index int) {
	for i := range entries {
		e := &entries[i]
		if !e.Kind.Call() || e.Refused != 0 || e.Name != name {
			continue
		}
		switch e.Kind {
		case store.KindStep, store.KindBody, store.KindSleep, store.KindChild:
			return i
		}
		if index == 0 {
			index = i
		}
	}
	return index
}

// Has reports whether a restart can begin at a call of that name.
func Has(j *journal.Journal, name string) bool { return find(j.Entries(), name) > 0 }

// movedOver copies the signals that the previous iteration had not received.
func (c *Copy) movedOver(entries []store.Entry) {
	for i := 1; i < len(entries) && entries[i].Kind == store.KindSignalAccepted; i++ {
		c.add(entries[i])
	}
}

// shownNames bounds the names in the error of noCall.
const shownNames = 10

// noCall returns the error for a name that no call has. It suggests the most similar name, and lists up to shownNames
// of the existing names.
func noCall(j *journal.Journal, name string) error {
	var names []string
	for _, e := range j.Entries() {
		switch e.Kind {
		case store.KindStep, store.KindBody, store.KindSleep, store.KindChild:
			if e.Refused == 0 {
				names = append(names, e.Name)
			}
		}
	}
	text := "it has made none"
	if len(names) > 0 {
		near := slices.MinFunc(names, func(a, b string) int { return distance(name, a) - distance(name, b) })
		var quoted []string
		for _, n := range names[:min(len(names), shownNames)] {
			quoted = append(quoted, strconv.Quote(n))
		}
		text = "it has made " + strings.Join(quoted, ", ")
		if len(names) > shownNames {
			text += fmt.Sprintf(" and %d more", len(names)-shownNames)
		}
		if distance(name, near) <= 1+len(name)/4 {
			text = fmt.Sprintf("did you mean %q? %s", near, text)
		}
	}
	s := j.Started()
	return fmt.Errorf("run %q: %w: no step, sleep or child named %q in the journal of iteration %d; %s", s.RunID, store.ErrNotFound,
		name, s.Iteration, text)
}

// distance returns the Levenshtein distance of two names, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for i := range row {
		row[i] = i
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for k := range len(b) {
			cost := left
			if a[i] != b[k] {
				cost = 1 + min(left, row[k], row[k+1])
			}
			left, row[k+1] = row[k+1], cost
		}
	}
	return row[len(b)]
}
